"""The text of the site that a deployment brings to the hosts: a rehearsal rebuilds the deployed state from it."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Any

from appliance.config import data
from appliance.config.bounded_files import read_bytes
from appliance.engine.session import Session
from appliance.journal import Entry, Journal

DECLARED = "declared"
"""The journal's kind: texts of the site's files when hosts were about to be changed."""
SALT_BYTES, COST = 16, 2**14
"""A password may be guessed from its digest, so a digest is slow to make (RFC 7914)."""


@dataclass(frozen=True)
class Declared:
    """The texts of a site. ``profile``: name of its class; ``profiles``: texts of its own classes by name.

    ``secrets``: a digest of each, by name. ``run``: the deployment that recorded it, "" for files as they are now.
    """

    site: str
    profile: str
    profiles: Mapping[str, str]
    secrets: Mapping[str, str]
    run: str = ""


def declared(sources: Iterable[Path], secrets: Mapping[str, str]) -> Declared:
    """The texts of these files, the site's first. Secrets of BMCs and receivers, whose names have dots, are left out."""
    site, profile, *classes = sources
    own = (file for file in (profile, *classes) if not file.is_relative_to(data.profiles()))
    return Declared(
        _text(site),
        profile.stem,
        {file.stem: _text(file) for file in own},
        {name: digest(str(value)) for name, value in secrets.items() if "." not in name},
    )


def record_declared(session: Session) -> None:
    """Record the site's texts, unless the last record has the same."""
    if not session.sources:
        return
    now = declared(session.sources, session.secrets)
    before = last_declared(session.journal)
    is_known = before is not None and _texts(before) == _texts(now)
    if is_known and before is not None and not changed_secrets(before, session.secrets):
        return
    kept = {key: value for key, value in vars(now).items() if key != "run"}
    session.journal.append(session.run, DECLARED, **kept)


def last_declared(journal: Journal) -> Declared | None:
    """The last record; None if there is none."""
    entry = journal.last(DECLARED)
    return None if entry is None else _read(entry)


def changed_secrets(before: Declared, secrets: Mapping[str, str]) -> frozenset[str]:
    """Names of secrets whose value differs from the recorded one, or that were not recorded."""
    return frozenset(
        name
        for name, value in secrets.items()
        if "." not in name and not _is_of(str(value), before.secrets.get(name, ""))
    )


def digest(value: str, salt: bytes = b"") -> str:
    """A slow digest of a secret, with its salt."""
    salt = salt or os.urandom(SALT_BYTES)
    made = hashlib.scrypt(value.encode(), salt=salt, n=COST, r=8, p=1, dklen=32)
    return f"{salt.hex()}${made.hex()}"


def _is_of(value: str, known: str) -> bool:
    try:
        salt = bytes.fromhex(known.partition("$")[0])
    except ValueError:
        return False
    return bool(salt) and compare_digest(digest(value, salt), known)


def _texts(one: Declared) -> tuple[str, str, dict[str, str]]:
    return one.site, one.profile, dict(one.profiles)


def _read(entry: Entry) -> Declared | None:
    """None if another version recorded it in another form."""
    found: dict[str, Any] = {**entry.data}
    try:
        return Declared(
            str(found["site"]),
            str(found["profile"]),
            dict(found["profiles"]),
            dict(found["secrets"]),
            entry.run,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _text(file: Path) -> str:
    return read_bytes(file).decode("utf-8-sig")
