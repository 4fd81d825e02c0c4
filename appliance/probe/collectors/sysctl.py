"""Kernel parameters, read from /proc/sys."""

from __future__ import annotations

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import kind_of

FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
"""Folders by precedence: of files with the same name, the first counts."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts


def collect(ask: Ask) -> Facts:
    """The area ``sysctl``: the requested ones that exist."""
    found = {}
    for key in ask.sysctl:
        try:
            value = parameter(ask, key)
        except OSError as error:
            denied = isinstance(error, PermissionError)
            why = "needs root" if denied else str(error.strerror)
            ask.problem("sysctl", f"{key}: {why}", kind_of(error))
            continue
        if value is not None:
            found[key] = value
    return {"sysctl": found, "sysctl_at_boot": at_boot(ask)}


def at_boot(ask: Ask) -> dict[str, dict[str, str]]:
    """Return values after the next boot, each with the last file that sets it (sysctl.d(5)). Raises OSError."""
    by_name: dict[str, str] = {}
    for folder in reversed(FOLDERS):
        by_name.update(
            {name: f"{folder}/{name}" for name in _files(ask, folder) if name.endswith(".conf")}
        )
    wanted = set(ask.sysctl)
    last: dict[str, dict[str, str]] = {}
    for name in sorted(by_name):
        for key, value in assignments(_text(ask, by_name[name])):
            if key in wanted:
                last[key] = {"value": value, "file": by_name[name]}
    return last


def assignments(text: str) -> list[tuple[str, str]]:
    """Return key and value of each assignment; slashes may separate the parts of a key."""
    found = []
    for line in lines_of(text):
        key, equals, value = line.strip().partition("=")
        key = key.strip().lstrip("-")
        if equals and key and key[0] not in "#;":
            slashes = "/" in key and "." not in key.partition("/")[0]
            key = key.translate(str.maketrans("./", "/.")) if slashes else key
            found.append((key, " ".join(value.split())))
    return found


def _files(ask: Ask, folder: str) -> list[str]:
    return files.listing(ask.path(folder)) if files.exists(ask.path(folder)) else []


def _text(ask: Ask, path: str) -> str:
    try:
        return files.read(ask.path(path))
    except FileNotFoundError:  # a link to nothing
        return ""


def parameter(ask: Ask, key: str) -> str | None:
    """Return the value of a kernel parameter with single spaces; None if the kernel lacks it. Raises OSError.

    As in sysctl(8) the first separator decides: ``net.ipv4.conf.eth0/100.mtu`` means eth0.100.
    """
    first = next((char for char in key if char in "./"), ".")
    name = key if first == "/" else key.translate(str.maketrans("./", "/."))
    if ".." in name.split("/"):
        return None
    try:
        return " ".join(files.read(ask.path("/proc/sys/" + name)).split())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
