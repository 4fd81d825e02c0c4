"""Tells in short words how a managed resource differs from what its stage left."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

TRANSIENT = frozenset({"activating", "reloading", "deactivating", "refreshing", "maintenance"})
"""States a unit only passes through; what comes of them is a check's business."""
MUTE = frozenset({"kind", "name", "size", "load"})
"""Fields that say nothing beyond the others: size beside the digest, load beside active and enabled."""
ARTICLE = {"directory": "a directory", "link": "a link", "file": "a file"}


def compare(was: Facts, now: Facts) -> tuple[str, str] | None:
    """Expected and found in short words, None where nothing changed."""
    if was.get("kind") == "unit":
        was, now = _settled(was, now), _settled(now, was)
    fields = [name for name in {**was, **now} if name not in MUTE]
    changed = [name for name in fields if was.get(name) != now.get(name)]
    return WORDS[str(was["kind"])](was, now, changed) if changed else None


def _settled(unit: Facts, other: Facts) -> Facts:
    passing = unit.get("active") in TRANSIENT or other.get("active") in TRANSIENT
    return {**unit, "active": None} if passing else unit


def _path(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    """Kinds file, directory and link."""
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


def _fields(was: Facts, now: Facts, changed: list[str]) -> tuple[str, str]:
    return (
        ", ".join(f"{_label(name)} {_short(name, was.get(name))}" for name in changed),
        ", ".join(f"{_label(name)} {_short(name, now.get(name))}" for name in changed),
    )


def _label(name: str) -> str:
    return "keys" if name == "keys_sha256" else name


def _short(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return str(value)[:4] + "…" if name == "keys_sha256" else str(value)


WORDS = {
    "file": _path,
    "directory": _path,
    "link": _path,
    "absent": _absent,
    "package": _package,
    "unit": _unit,
    "sysctl": _value,
    "mount": _mount,
    "user": _exists,
    "group": _exists,
    "module": _module,
}
