"""The ways a secret can be spelled in logs, reports and tracebacks."""

import html
import json
import re
import shlex
from base64 import b64encode, encodebytes
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from appliance.text import CUT, one_line

SHORTEST = 4
SHORTEST_PART = 8
SHORTEST_ENCODED = 6
MOST_CUTS = 10_000
"""Marks of a text at which the beginning of a secret is looked for; no document of this program has as many."""


def spellings(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that finds each secret of at least 4 characters however it is encoded; None without any."""
    return re.compile("|".join(map(re.escape, found))) if (found := forms(secrets)) else None


def forms(secrets: Iterable[str]) -> tuple[str, ...]:
    """All ways in which secrets of at least 4 characters can be encoded, the longest first."""
    found = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
    found = {form for form in found if len(form) >= SHORTEST}
    return tuple(sorted(found, key=lambda f: (-len(f), f)))


def stretches(spelled: Iterable[str], text: str) -> list[tuple[int, int]]:
    """Where any of them stands in a text: start and end of each stretch, in order; those that overlap are one.

    A pattern of all of them tries each at each place; CPython's own search takes about as long for a text that somebody wrote to be slow.
    """
    merged: list[tuple[int, int]] = []
    forms = tuple(spelled)
    whole = (span for form in forms for span in _each(form, text))
    for start, end in sorted([*whole, *_cut(forms, text)]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _each(form: str, text: str) -> Iterator[tuple[int, int]]:
    size = len(form)
    at = text.find(form)
    while at >= 0:
        last, end = at, at + size
        # Those that overlap are one stretch: the last that begins within it, until none does.
        while (further := text.rfind(form, last + 1, end + size - 1)) >= 0:
            last, end = further, further + size
        yield at, end
        at = text.find(form, end)


def _cut(spelled: Iterable[str], text: str) -> Iterator[tuple[int, int]]:
    """Where a text was shortened in the middle of one of them: from its beginning to the mark."""
    at = text.rfind(CUT)
    for _ in range(MOST_CUTS):
        if at < 0:
            return
        if size := max((_begun(form, text, at) for form in spelled), default=0):
            yield at - size, at
        at = text.rfind(CUT, 0, at)


def _begun(form: str, text: str, end: int) -> int:
    """How many of its first characters stand right before ``end``."""
    start = text.find(form[:SHORTEST], max(0, end - len(form) + 1), end)
    while start >= 0:
        if form.startswith(text[start:end]):
            return end - start
        start = text.find(form[:SHORTEST], start + 1, end)
    return 0


def _forms(secret: str) -> Iterator[str]:
    yield secret
    # As texts of others are written on one line.
    yield one_line(secret)
    yield " ".join(secret.split())
    yield from _escaped(secret)
    yield from _encoded(secret.encode("utf-8", "surrogateescape"))
    lines = [line.strip() for line in secret.splitlines()]
    for line in lines if len(lines) > 1 else ():
        if len(line) >= SHORTEST_PART:
            yield line
            yield one_line(line)
            yield from _escaped(line)


def _escaped(text: str) -> Iterator[str]:
    raw = text.encode("utf-8", "surrogateescape")
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield repr(raw)[2:-1]
    for safe in ("", "/"):
        yield quote(raw, safe=safe)
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quote(raw, safe=safe))
        yield quote_plus(raw, safe=safe)
    yield html.escape(text)
    yield shlex.quote(text)[1:-1] if shlex.quote(text) != text else text
    # Ansible prints JSON inside JSON.
    yield json.dumps(json.dumps(text))[3:-3]


def _encoded(raw: bytes) -> Iterator[str]:
    yield raw.hex()
    yield raw.hex().upper()
    for offset in range(3):
        yield from _base64(raw, offset)
    for line in encodebytes(raw).decode().split():
        if len(line) >= SHORTEST_PART * 2:
            yield line


def _base64(raw: bytes, offset: int) -> Iterator[str]:
    """The characters of base64 that depend on the secret alone, where ``offset`` bytes stand before it."""
    text = b64encode(b"\0" * offset + raw).decode()
    start = (offset * 8 + 5) // 6
    end = (offset + len(raw)) * 8 // 6
    core = text[start:end]
    if len(core) >= SHORTEST_ENCODED:
        yield core
        yield core.translate(str.maketrans("+/", "-_"))
