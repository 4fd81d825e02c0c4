"""Keys of an authorized_keys file by fingerprint, without text that could be a secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KIND = re.compile(r"(ssh|ecdsa|sk)-[a-z0-9@.-]{1,60}")
"""Types of keys and certificates as sshd(8) reads them."""
OPTION = re.compile(r'([A-Za-z0-9-]{1,40})(?:="((?:[^"\\]|\\.)*)")?')
PUBLIC = frozenset(
    {"from", "expiry-time", "permitopen", "permitlisten", "tunnel", "principals"},
)
"""Options whose values are addresses, ports, times and names; commands and variables may contain a password."""
LONGEST = 64
"""Maximum characters of a comment, or of one option's value."""
MOST = 200
"""Maximum number of keys listed for one account."""
BYTES = 256 << 10
"""Maximum bytes read of one file: some 500 keys."""
LETTERS = 16
"""Number of last letters of a key by which a command finds its line. The first letters are equal for all keys of a type."""
LONGEST_LINE = 16_384
MOST_OPTIONS = 20
MOST_TOLD = 400
NO_KEY = "lines that are no key"
TOO_MANY = "keys beyond the first"
NOT_READ = "not read:"


class Key:
    """One line that sshd accepts as a key."""

    def __init__(
        self, options: str, kind: str, fingerprint: str, remark: str, end: str = ""
    ) -> None:
        self.fingerprint, self.kind, self.end = fingerprint, kind, end
        self.options, self.remark = _options(options), _remark(remark)

    def told(self, fingerprint: str = "") -> str:
        """Return type, optional fingerprint, comment and options."""
        words = " ".join(filter(None, (self.kind, fingerprint, self.remark)))
        return words + (f", with {', '.join(self.options)}"[:MOST_TOLD] if self.options else "")


def fingerprints(text: str) -> Iterator[tuple[str, str, str]]:
    """Return the fingerprint, readable form and last letters of each key; then the lines that are not keys, with their number."""
    others = set()
    for line in told_lines(text):
        key = read(line)
        if key:
            yield key.fingerprint, key.told(key.fingerprint), key.end
        else:
            others.add(line)
    if others:
        yield "", f"{NO_KEY}: {len(others)}", ""


def told_lines(text: str) -> Iterator[str]:
    """Return the lines that sshd reads, with single blanks."""
    for line in text.split("\n"):
        words = " ".join(line.split())
        if words and not words.startswith("#"):
            yield words


def of_account(name: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return the kind ``key`` of a posture: name and value of each key of an account."""
    others, count = set(), 0
    for line in (line for text in texts for line in told_lines(text)):
        key = read(line)
        if key is None:
            others.add(line)
            continue
        count += 1
        if count <= MOST:
            yield f"{key.fingerprint} of {name}", key.told()
    if others:
        yield f"{NO_KEY} of {name}", str(len(others))
    if count > MOST:
        yield f"{TOO_MANY} {MOST} of {name}", str(count - MOST)


def read(line: str) -> Key | None:
    """Parse a line as sshd(8) does: a key, or a key after options, which contain blanks only in quotes."""
    found = _key("", line)
    if found is None and len(line) <= LONGEST_LINE:
        end = _end_of_options(line)
        found = _key(line[:end], line[end:].lstrip())
    return found


def _key(options: str, rest: str) -> Key | None:
    kind, _, rest = rest.partition(" ")
    word, _, remark = rest.partition(" ")
    if not KIND.fullmatch(kind) or not word.startswith("AAAA"):
        return None
    try:
        blob = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        return None
    # It begins with the length of its kind, and its kind (RFC 4253, 6.6).
    if blob[4 : 4 + int.from_bytes(blob[:4], "big")] != kind.encode():
        return None
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return Key(options, kind, "SHA256:" + digest, remark, word.rstrip("=")[-LETTERS:])


def _end_of_options(line: str) -> int:
    quoted = escaped = False
    for at, char in enumerate(line):
        if char == " " and not quoted:
            return at
        quoted ^= char == '"' and not escaped
        escaped = char == "\\" and not escaped
    return len(line)


def _options(text: str) -> list[str]:
    """Return options by name, with the value if it is not secret, otherwise a digest."""
    told: list[str] = []
    at = 0
    while at < len(text) and len(told) < MOST_OPTIONS:
        found = OPTION.match(text, at)
        if not found:
            told.append(f"others ({_digest(text[at:])})")
            break
        name, value = found.group(1).lower(), found.group(2)
        if value is not None:
            name += f"={_cut(value)}" if name in PUBLIC else f" ({_digest(value)})"
        told.append(name)
        at = found.end() + 1
    return told


def _remark(text: str) -> str:
    """Return the comment without text that resembles a fingerprint and could be mistaken for the key's."""
    return _cut(text.replace("SHA256:", "SHA256 "))


def _cut(text: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 1] + "…"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def retold(things: dict[str, str]) -> dict[str, str]:
    """Convert kind ``key`` from the old form with whole lines to the present one."""
    found: dict[str, str] = {}
    others: dict[str, int] = {}
    for name, value in things.items():
        what, _, account = name.rpartition(" of ")
        if what.startswith("SHA256:") and " " not in what:
            found[name] = _retold(value)
        elif what.startswith((NO_KEY, TOO_MANY, NOT_READ)):
            found[name] = value
        else:
            others[account] = others.get(account, 0) + 1
    found.update((f"{NO_KEY} of {account}", str(count)) for account, count in others.items())
    return found


def retold_line(line: str) -> str:
    """Convert the old form of one key: options, type, fingerprint, comment."""
    if line.startswith((NO_KEY, NOT_READ)):
        return line
    words = line.split()
    at = next((n for n, word in enumerate(words) if word.startswith("SHA256:")), 0)
    if not at or not KIND.fullmatch(words[at - 1]):
        return f"{NO_KEY}: 1"
    remark, _, options = " ".join(words[at + 1 :]).partition(", with ")
    told = Key(" ".join(words[: at - 1]), words[at - 1], "", remark).told(words[at])
    return f"{told}, with {options}" if options else told


def _retold(value: str) -> str:
    """Convert an old value: the line without its key, with two blanks in its place."""
    line, gap, remark = value.partition("  ")
    if not gap and KIND.fullmatch(value.partition(" ")[0].rstrip(",")):
        return value
    options, _, kind = line.rpartition(" ")
    return Key(options, kind, "", remark).told() if KIND.fullmatch(kind) else _digest(value)
