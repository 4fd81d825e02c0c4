"""Kernel parameters, read from /proc/sys."""

from __future__ import annotations

from appliance.probe import files
from appliance.probe.ask import Ask, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts


def collect(ask: Ask) -> Facts:
    """The area ``sysctl``: those asked for that exist."""
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
    return {"sysctl": found}


def parameter(ask: Ask, key: str) -> str | None:
    """Value of a kernel parameter with single spaces, None where the kernel has none. Raises OSError.

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
