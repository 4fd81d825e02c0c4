"""Describes how a managed resource differs from its receipt."""

from __future__ import annotations

import os

from appliance.probe.accounts import UNREAD
from appliance.probe.collectors.filesystems import without_password
from appliance.probe.versions import is_newer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

TRANSIENT = frozenset({"activating", "reloading", "deactivating", "refreshing", "maintenance"})
"""Transitional states of a unit, which checks judge."""
MUTE = frozenset({"kind", "name", "size", "load", "lines", "held", "by"})
"""Redundant fields: size and lines next to the digest, load next to active and enabled, and how versions are judged."""
LATER = frozenset({"password", "definition", "stale", "flags"})
"""Fields that receipts of earlier releases lack; they are not compared then."""
KEYS = "keys_sha256"
APART: dict[str, Facts] = {
    "unit": {"definition": None, "stale": None},
    "mount": {"flags": None},
    "user": {KEYS: None},
}
"""Fields of a kind that are reported separately."""
ARTICLE = {"directory": "a directory", "link": "a link", "file": "a file"}


def differences(was: Facts, now: Facts) -> list[tuple[str, str, str]]:
    """Return kind, expected and found value of each difference. Unit definitions, mount options, holds and keys are separate differences."""
    kind = str(was["kind"])
    if kind == "mount" and "source" in was:
        # As the host tells it now; receipts of earlier releases hold all of it.
        was = {**was, "source": without_password(str(was["source"]))}
    state = compare(*({**s, **APART.get(kind, {})} for s in (was, now)))
    told = [(kind, state)]
    if kind == "unit":
        told.append(("unit file", _definition(was, now)))
    if kind == "mount" and "flags" in was and "flags" in now and was["flags"] != now["flags"]:
        words = [", ".join(mount["flags"]) or "none" for mount in (was, now)]
        told.append(("mount options", (words[0], words[1])))
    if kind == "user" and KEYS in was and KEYS in now and was[KEYS] not in {UNREAD, now[KEYS]}:
        # Whose keys they are may change them at any moment: that tells of no failure of the stage.
        told.append(("keys of user", (_short(KEYS, was[KEYS]), _short(KEYS, now[KEYS]))))
    if kind == "package" and was.get("held") and now.get("held") is False:
        told.append(("package hold", ("held", "not held")))
    return [(what, *words) for what, words in told if words]


def compare(was: Facts, now: Facts) -> tuple[str, str] | None:
    """Return expected and found state in short words; None if nothing changed."""
    if was.get("kind") == "unit":
        was, now = _settled(was, now), _settled(now, was)
    if was.get("kind") == "link":
        was, now = _led(was), _led(now)
    known = was.keys() | (now.keys() - LATER)
    fields = [name for name in {**was, **now} if name not in MUTE and name in known]
    changed = [name for name in fields if was.get(name) != now.get(name)]
    if not changed or (was.get("kind") == "package" and _is_update(was, now)):
        return None
    return WORDS[str(was["kind"])](was, now, changed)


def _is_update(was: Facts, now: Facts) -> bool:
    """Whether a package without hold was upgraded, as by updates of the distribution.

    Receipts of earlier releases do not say what was held: there what is held now counts.
    """
    if was.get("held", now.get("held")):
        return False
    before, after = was.get("version"), now.get("version")
    return bool(before and after) and is_newer(str(after), str(before), rpm=now.get("by") == "rpm")


def _definition(was: Facts, now: Facts) -> tuple[str, str] | None:
    """Compare the unit as loaded by systemd, and whether its files still match."""
    if "definition" in was and was["definition"] != now.get("definition"):
        before, after = str(was["definition"]).split(), str(now.get("definition") or "").split()
        gone = [path for path in before if path not in after]
        new = [path for path in after if path not in before]
        return ", ".join(gone) or "as written", ", ".join(new) or "missing"
    if was.get("stale") == "no" and now.get("stale") == "yes":
        return "loaded", "changed on disk since systemd read it"
    return None


def _settled(unit: Facts, other: Facts) -> Facts:
    passing = unit.get("active") in TRANSIENT or other.get("active") in TRANSIENT
    return {**unit, "active": None} if passing else unit


def _led(link: Facts) -> Facts:
    """Return the target of a link: timedatectl(1) writes the same target as a relative path."""
    if not link.get("target"):
        return link
    folder = str(link.get("name", "")).rpartition("/")[0]
    target = os.path.join(folder, str(link["target"]))  # noqa: PTH118 - pathlib keeps ".."
    return {**link, "target": os.path.normpath(target)}


def _path(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    """Kinds file, directory, home and link."""
    if "type" in changed:
        return _presence(was), _presence(now)
    if "sha256" in changed:
        return "as written", f"changed (sha256 {str(now.get('sha256'))[:4]}…)"
    return _fields(was, now, changed)


def _presence(state: Facts) -> str:
    kind = str(state.get("type", ""))
    return ARTICLE.get(kind, kind) if kind else "present"


def _exists(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    """Kinds user and group."""
    if "exists" in changed:
        return tuple("present" if s.get("exists", True) else "missing" for s in (was, now))  # type: ignore[return-value]
    return _fields(was, now, changed)


def _absent(was: Facts, now: Facts, _: list[str]) -> tuple[str, str]:
    return ("present" if was["exists"] else "absent"), ("present" if now["exists"] else "absent")


def _package(was: Facts, now: Facts, _: list[str]) -> tuple[str, str]:
    gone = "removed" if was.get("version") else "absent"
    return _version(was, "absent"), _version(now, gone)


def _version(state: Facts, none: str) -> str:
    return str(state.get("version") or state.get("status") or none)


def _unit(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    left = ", ".join(str(was.get(name) or "absent") for name in changed)
    missing = now.get("load") == "not-found" and was.get("load") != "not-found"
    return left, "missing" if missing else ", ".join(str(now.get(n) or "absent") for n in changed)


def _mount(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    if "mounted" in changed:
        return tuple("mounted" if s.get("mounted") else "not mounted" for s in (was, now))  # type: ignore[return-value]
    return _fields(was, now, changed)


def _module(was: Facts, now: Facts, _: list[str]) -> tuple[str, str]:
    return tuple("loaded" if s.get("loaded") else "not loaded" for s in (was, now))  # type: ignore[return-value]


def _value(was: Facts, now: Facts, _: list[str]) -> tuple[str, str]:
    return str(was.get("value")), str(now.get("value"))


def _table(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    """Compare kind nftables: the first missing line and the first additional line."""
    if "loaded" in changed:
        return tuple("loaded" if s.get("loaded") else "not loaded" for s in (was, now))  # type: ignore[return-value]
    before, after = was.get("lines") or [], now.get("lines") or []
    gone = [line for line in before if line not in after]
    new = [line for line in after if line not in before]
    if not gone and not new:
        return "as written", "in another order"
    return _first(gone) or "as written", _first(new) or "missing"


def _first(lines: list[str]) -> str:
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f'"{lines[0]}"{more}' if lines else ""


def _fields(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    return (
        ", ".join(f"{name} {_short(name, was.get(name))}" for name in changed),
        ", ".join(f"{name} {_short(name, now.get(name))}" for name in changed),
    )


def _short(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    is_digest = name == KEYS and len(str(value)) == 64
    return str(value)[:4] + "…" if is_digest else str(value)


WORDS = {
    "file": _path,
    "directory": _path,
    "home": _path,
    "link": _path,
    "absent": _absent,
    "package": _package,
    "unit": _unit,
    "sysctl": _value,
    "mount": _mount,
    "user": _exists,
    "group": _exists,
    "module": _module,
    "nftables": _table,
    "sshd": _value,
    "keyword": _value,
}
