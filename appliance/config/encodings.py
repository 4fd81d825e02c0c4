"""The encodings in which a secret can appear in logs, reports and tracebacks."""

import html
import json
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from appliance.text import CUT, one_line

SHORTEST = 4
SHORTEST_PART = 8
SHORTEST_ENCODED = 6
WIDTHS = (64, 76)
"""Characters per line of base64 (RFC 7468; RFC 2045)."""
GO = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}
MOST_CUTS = 10_000
"""Ellipses of a text that are searched for the beginning of a secret; no document of this program has as many."""


def spellings(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that finds each secret of at least 4 characters in any encoding; None without secrets."""
    return re.compile("|".join(map(re.escape, found))) if (found := forms(secrets)) else None


def forms(secrets: Iterable[str]) -> tuple[str, ...]:
    """All encodings of secrets of at least 4 characters, the longest first."""
    found = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
    found = {form for form in found if len(form) >= SHORTEST}
    return tuple(sorted(found, key=lambda f: (-len(f), f)))


def stretches(spelled: Iterable[str], text: str) -> list[tuple[int, int]]:
    """Where the secrets occur in a text: start and end of each range, in order; overlapping ranges are merged.

    A single pattern of all secrets tries each at each position; CPython's own search is as slow only on texts made to be slow.
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
        # Overlapping matches form one range: extend it by the last match that begins within it.
        while (further := text.rfind(form, last + 1, end + size - 1)) >= 0:
            last, end = further, further + size
        yield at, end
        at = text.find(form, end)


def _cut(spelled: Iterable[str], text: str) -> Iterator[tuple[int, int]]:
    """Where a text was shortened in the middle of a secret: from its beginning to the ellipsis."""
    at = text.rfind(CUT)
    for _ in range(MOST_CUTS):
        if at < 0:
            return
        if size := max((_begun(form, text, at) for form in spelled), default=0):
            yield at - size, at
        at = text.rfind(CUT, 0, at)


def _begun(form: str, text: str, end: int) -> int:
    """How many of its first characters come right before ``end``."""
    start = text.find(form[:SHORTEST], max(0, end - len(form) + 1), end)
    while start >= 0:
        if form.startswith(text[start:end]):
            return end - start
        start = text.find(form[:SHORTEST], start + 1, end)
    return 0


def _forms(secret: str) -> Iterator[str]:
    yield secret
    # As texts of other programs are joined into one line.
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
    # JSON as Go writes it (encoding/json, HTMLEscape), and as PHP and many BMCs do.
    for whole in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield whole.translate(GO)
        yield whole.replace("/", "\\/")
    yield html.escape(text)
    # Quotes as Jinja and Go escape them.
    yield html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    # As sh -x prints it.
    yield text.replace("'", "'\\''")
    yield shlex.quote(text)[1:-1] if shlex.quote(text) != text else text
    # Ansible prints JSON inside JSON.
    yield json.dumps(json.dumps(text))[3:-3]


def _encoded(raw: bytes) -> Iterator[str]:
    yield raw.hex()
    yield raw.hex().upper()
    for offset in range(3):
        yield from _base64(raw, offset)
    # In lines, as encodebytes, base64(1) and MIME, and PEM and openssl(1) wrap them.
    whole = b64encode(raw).decode()
    for width in WIDTHS:
        for line in (whole[at : at + width] for at in range(0, len(whole), width)):
            if len(line) >= SHORTEST_PART * 2:
                yield line


def _base64(raw: bytes, offset: int) -> Iterator[str]:
    """The characters of base64 that depend only on the secret, if ``offset`` bytes precede it."""
    text = b64encode(b"\0" * offset + raw).decode()
    start = (offset * 8 + 5) // 6
    end = (offset + len(raw)) * 8 // 6
    core = text[start:end]
    if len(core) >= SHORTEST_ENCODED:
        yield core
        yield core.translate(str.maketrans("+/", "-_"))
