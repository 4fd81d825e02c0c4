"""Changes one key of the owner's site.yml in its text: comments, order and layout stay unchanged."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.config.document import compose
from appliance.config.finding import InvalidConfig
from appliance.config.load import LoadedSite
from appliance.errors import ConfigError
from appliance.models.site import Owner, Site

BOM = b"\xef\xbb\xbf"
Load = Callable[[Path], LoadedSite]


def give_owner(file: Path, host: str, owner: Owner, load: Load) -> LoadedSite:
    """Writes ``hosts[].owner`` of a host atomically; returns the new site. See ``candidate``."""
    file = file.resolve()
    with candidate(file, host, owner, load) as (new, loaded):
        replace_file(new, file)
    return loaded


def replace_file(new: Path, file: Path) -> None:
    """Replaces ``file`` with ``new`` atomically, and syncs it to disk."""
    os.replace(new, file)  # noqa: PTH105 - both forms are atomic; this one overwrites on every system
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def candidate(file: Path, host: str, owner: Owner, load: Load) -> Iterator[tuple[Path, LoadedSite]]:
    """The site with another owner, in a temporary file next to its own, and the loaded result.

    Raises ConfigError if the new site is invalid, or if the edit would change anything else.
    """
    file = file.resolve()
    before = load(file)
    mark, text = text_of(file)
    with tried(file, mark + with_owner(text, file, host, owner).encode(), load) as (new, loaded):
        if loaded.site != _meant(before.site, host, owner):
            raise ConfigError(
                f"{file}: the owner of {host} cannot be changed without changing other keys",
                f"write owner: {owner} for {host} yourself, then run this command again",
            )
        yield new, loaded


def text_of(file: Path) -> tuple[bytes, str]:
    """The byte order mark of a file, empty if it has none, and the text after it."""
    raw = file.read_bytes()
    mark, text = (BOM, raw[len(BOM) :]) if raw.startswith(BOM) else (b"", raw)
    return mark, text.decode()


@contextmanager
def tried(file: Path, content: bytes, load: Load) -> Iterator[tuple[Path, LoadedSite]]:
    """The site loaded from this content, and the temporary file next to its own that holds it."""
    new = _new_file(file, content)
    try:
        yield new, _loaded(new, file, load)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def without(file: Path, host: str, load: Load) -> Iterator[tuple[str, str, Path]]:
    """The text of a site, the text without a host, and a file next to the site's that holds the new text.

    Raises ConfigError if the new site is invalid, as where another section names the host.
    """
    file = file.resolve()
    before = load(file)
    mark, text = text_of(file)
    new_text = without_host(text, file, host)
    with tried(file, mark + new_text.encode(), load) as (new, loaded):
        hosts = tuple(h for h in before.site.hosts if h.name != host)
        if loaded.site != before.site.model_copy(update={"hosts": hosts}):
            raise ConfigError(
                f"{file}: {host} cannot be removed without changing other keys",
                f"delete {host} from hosts yourself, then run appliance deploy",
            )
        yield text, new_text, new


@contextmanager
def with_added(
    file: Path, keys: Mapping[str, str], load: Load
) -> Iterator[tuple[str, str, Path, LoadedSite]]:
    """The text of a site, the text with one more host, a file next to the site's that holds the new text, and the loaded result.

    ``keys``: of the host, in their order, with their values in YAML. Raises ConfigError if the new site is invalid.
    """
    file = file.resolve()
    before = load(file)
    mark, text = text_of(file)
    new_text = with_host(text, file, keys)
    with tried(file, mark + new_text.encode(), load) as (new, loaded):
        hosts = loaded.site.hosts
        kept = loaded.site.model_copy(update={"hosts": hosts[:-1]})
        meant = (hosts[-1].name, str(hosts[-1].address)) == (keys["name"], keys["address"])
        if kept != before.site or not meant:
            raise ConfigError(
                f"{file}: a host cannot be added without changing other keys",
                f"add {keys['name']} to hosts yourself, then run appliance deploy",
            )
        yield text, new_text, new, loaded


def with_host(text: str, file: Path, keys: Mapping[str, str]) -> str:
    """The text of a site with one more host, below the last one. Raises ConfigError if hosts are in brackets."""
    root: Any = compose(text, file)
    hosts = next((value for key, value in root.value if key.value == "hosts"), None)
    if hosts is None or hosts.flow_style or not hosts.value:
        raise ConfigError(
            f"{file}: hosts is a list in brackets, which this command does not edit",
            f"add {keys['name']} to hosts yourself, then run appliance deploy",
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    column = hosts.start_mark.column
    (first, value), *others = keys.items()
    added = [f"{' ' * column}- {first}: {value}"]
    added += [f"{' ' * column}  {key}: {of_key}" for key, of_key in others]
    lines = text.splitlines(keepends=True)
    place = _last_line(hosts.value[-1]) + 1
    if not lines[place - 1].endswith("\n"):
        lines[place - 1] += newline
    lines[place:place] = [line + newline for line in added]
    return "".join(lines)


def without_host(text: str, file: Path, host: str) -> str:
    """The text of a site without a host; comments stay. Raises ConfigError if it has no such host, or hosts are in brackets."""
    root: Any = compose(text, file)
    hosts = next((value for key, value in root.value if key.value == "hosts"), None)
    for entry in _entries(root):
        if not any(k.value == "name" and v.value == host for k, v in entry.value):
            continue
        if hosts is None or hosts.flow_style:
            raise ConfigError(
                f"{file}: hosts is a list in brackets, which this command does not edit",
                f"delete {host} from hosts yourself, then run appliance deploy",
            )
        lines = text.splitlines(keepends=True)
        del lines[entry.start_mark.line : _last_line(entry) + 1]
        return "".join(lines)
    raise ConfigError(f"{file} has no host {host}", "see hosts in site.yml")


def _last_line(node: Any) -> int:
    """The last line that a node's own text is on: a block ends where the next one begins, after comments."""
    if isinstance(node.value, list) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    line: int = node.end_mark.line
    return line if node.end_mark.column or line == node.start_mark.line else line - 1


def with_owner(text: str, file: Path, host: str, owner: Owner) -> str:
    """The text of a site with another owner of a host. Raises ConfigError if it has no such host."""
    for entry in _entries(compose(text, file)):
        keys = {key.value: (key, value) for key, value in entry.value}
        if "name" not in keys or keys["name"][1].value != host:
            continue
        if "owner" in keys:
            value = keys["owner"][1]
            begin, end = value.start_mark.index, value.end_mark.index
            space = "" if text[:begin].endswith((" ", "\t")) else " "
            return f"{text[:begin]}{space}{owner}{text[end:]}"
        return _inserted(text, entry, keys["name"], owner)
    raise ConfigError(f"{file} has no host {host}", "see hosts in site.yml")


def _inserted(text: str, entry: Any, name: tuple[Any, Any], owner: Owner) -> str:
    end = name[1].end_mark.index
    if entry.flow_style:
        return f"{text[:end]}, owner: {owner}{text[end:]}"
    line = text.find("\n", end)
    newline = "\r\n" if line > 0 and text[line - 1] == "\r" else "\n"
    added = f"{' ' * name[0].start_mark.column}owner: {owner}"
    if line < 0:
        return f"{text}{newline}{added}{newline}"
    return f"{text[: line + 1]}{added}{newline}{text[line + 1 :]}"


def _entries(root: Any) -> list[Any]:
    """The nodes of ``hosts``."""
    hosts = next((value for key, value in root.value if key.value == "hosts"), None)
    return [entry for entry in hosts.value if isinstance(entry.value, list)] if hosts else []


def _meant(site: Site, host: str, owner: Owner) -> Site:
    hosts = tuple(
        h.model_copy(update={"owner": owner}) if h.name == host else h for h in site.hosts
    )
    return site.model_copy(update={"hosts": hosts})


def _loaded(new: Path, file: Path, load: Load) -> LoadedSite:
    """Errors in the new text are reported for the file that people know."""
    try:
        return load(new)
    except InvalidConfig as error:
        told = (replace(f, file=file) if f.file == new else f for f in error.findings)
        raise InvalidConfig(told) from None


def _new_file(file: Path, content: bytes) -> Path:
    """A file of the same folder, mode and user; synced to disk before it replaces the other."""
    try:
        number, name = tempfile.mkstemp(prefix=".site-", suffix=".yml", dir=file.parent)
        with os.fdopen(number, "wb") as new:
            new.write(content)
            like = file.stat()
            os.fchmod(number, stat.S_IMODE(like.st_mode))
            if not os.geteuid():
                os.fchown(number, like.st_uid, like.st_gid)
            os.fsync(number)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be changed ({error.strerror})", "check free space, owner and mode"
        ) from None
    return Path(name)
