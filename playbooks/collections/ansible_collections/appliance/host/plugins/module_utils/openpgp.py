"""One OpenPGP certificate, read strictly and written anew: nothing reaches a keyring but what its primary key signed."""

from __future__ import annotations

import base64
import binascii
import re

from ansible_collections.appliance.host.plugins.module_utils.openpgp_signature import (
    LIFETIME,
    PrimaryKey,
    Signature,
    framed,
    length_of,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 1 << 18
MOST_PACKETS = 500
MOST_JUDGED = 100
"""Signatures that claim to be the primary key's: each costs up to 40 ms of one processor, with the largest numbers of DSA."""
BEGIN, END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
_HEADER = re.compile(r"[A-Za-z-]+:.*")
_TEXT = re.compile(r"[A-Za-z0-9+/]+={0,2}")
SIGNATURE, PUBLIC_KEY, USER_ID, SUBKEY, ATTRIBUTE = 2, 6, 13, 14, 17
SECRET = (5, 7)
OF_KEY, OF_USER_ID, OF_SUBKEY = (0x1F, 0x20), (0x10, 0x11, 0x12, 0x13, 0x30), (0x18, 0x28)
"""Types of signatures by what they are about (RFC 4880, 5.2.1)."""


class AnotherKey(Problem):
    """One key, and not the wanted one."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"its fingerprint is {fingerprint}")
        self.fingerprint = fingerprint


class Certificate:
    """A primary key with what it signed itself. ``packets``: tag and body, in the order of RFC 4880, 11.1."""

    def __init__(self, fingerprint: str, packets: list[tuple[int, bytes]], expires: int) -> None:
        self.fingerprint = fingerprint
        self.packets = packets
        self.expires = expires

    def written(self, path: str) -> bytes:
        """The content of a keyring: apt takes packets from ``.gpg`` and armour from ``.asc``, rpm armour only."""
        data = b"".join(_packet(tag, body) for tag, body in self.packets)
        return data if path.endswith(".gpg") else _armoured(data)


def certificate(text: bytes, wanted: str) -> Certificate:
    """The one certificate of a key file, armoured or not. Raises Problem for anything beside it, AnotherKey for one instead of it."""
    if len(text) > MOST_BYTES:
        raise Problem(f"it has more than {MOST_BYTES:,} bytes")
    found = list(_packets(_unarmoured(text)))
    primary = [body for tag, body in found if tag == PUBLIC_KEY]
    if len(primary) > 1:
        known = ", ".join(PrimaryKey(body).fingerprint for body in primary[:5])
        raise Problem(f"it holds {len(primary)} keys: {known}")
    if found[0][0] != PUBLIC_KEY:
        raise Problem("it does not begin with a public key")
    key = PrimaryKey(primary[0])
    if key.fingerprint != wanted:
        # Before any signature is verified: the numbers of a key that nobody wants can be as large as to cost hours.
        raise AnotherKey(key.fingerprint)
    return _certificate(key, found[1:])


def _unarmoured(text: bytes) -> bytes:
    """The packets of a text (RFC 4880, 6.2). apt decodes every block of it, and gpg ends where the first text has its padding."""
    if text[:1] and text[0] & 0x80:
        return text
    lines = [line.strip() for line in text.decode("ascii", "replace").strip().split("\n")]
    if BEGIN not in lines:
        raise Problem("it is no OpenPGP key")
    if lines[0] != BEGIN or lines[-1] != END or "" not in lines:
        raise Problem("it holds more than one block of text, or a part of one")
    blank = lines.index("")
    inner = [line for line in lines[blank + 1 : -1] if line]
    told = inner.pop()[1:] if inner and re.fullmatch("=[A-Za-z0-9+/]{4}", inner[-1]) else ""
    body = "".join(inner)
    if not all(map(_HEADER.fullmatch, lines[1:blank])) or not _TEXT.fullmatch(body):
        raise Problem("it holds more than one block of text, or a damaged one")
    try:
        data = base64.b64decode(body, validate=True)
    except binascii.Error:
        raise Problem("its text is no base64") from None
    if told and base64.b64decode(told) != _crc24(data).to_bytes(3, "big"):
        raise Problem("its text is damaged: the checksum is another")
    return data


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet (RFC 4880, 4.2). Raises Problem where it is not packets to its last byte."""
    at, count = 0, 0
    while at < len(data):
        tag, start, end = _header(data, at)
        count += 1
        if end > len(data) or count > MOST_PACKETS:
            raise Problem(
                "it is cut off" if end > len(data) else f"more than {MOST_PACKETS} packets"
            )
        if tag in SECRET:
            raise Problem("it holds a secret key: it must not be handed out")
        if tag not in (SIGNATURE, PUBLIC_KEY, USER_ID, SUBKEY, ATTRIBUTE):
            raise Problem(f"it holds a packet of type {tag}, which is no part of a public key")
        yield tag, data[start:end]
        at = end
    if not count:
        raise Problem("it is empty")


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Tag, and where the body begins and ends."""
    head = data[at]
    if not head & 0x80:
        raise Problem("it goes on with something that is no OpenPGP packet")
    if head & 0x40:
        if data[at + 1 : at + 2] and 224 <= data[at + 1] < 255:
            raise Problem("it holds a packet in parts")
        length, start = length_of(data, at + 1)
        return head & 0x3F, start, start + length
    size = (1, 2, 4, 0)[head & 3]
    if not size:
        raise Problem("it holds a packet without a length")
    start = at + 1 + size
    return head >> 2 & 0xF, start, start + int.from_bytes(data[at + 1 : start], "big")


def _certificate(key: PrimaryKey, found: list[tuple[int, bytes]]) -> Certificate:
    kept: dict[int, list[tuple[int, bytes]]] = {PUBLIC_KEY: [], USER_ID: [], SUBKEY: []}
    lives, judged = [], 0
    about: tuple[int, bytes] = (PUBLIC_KEY, b"")
    written = True
    for tag, body in found:
        if tag != SIGNATURE:
            about, written = (tag, body), False
            continue
        if about[0] == ATTRIBUTE:
            continue
        signature = Signature.read(body)
        if signature is None or not signature.claims(key):
            continue
        judged += 1
        if judged > MOST_JUDGED:
            raise Problem(f"it holds more than {MOST_JUDGED} signatures of its own")
        if not _counts(key, signature, about):
            continue
        if not written:
            kept[about[0]].append(about)
            written = True
        kept[about[0]].append((SIGNATURE, signature.plain()))
        if about[0] != SUBKEY:
            lives += signature.numbers(LIFETIME)
    if not kept[USER_ID]:
        raise Problem("the key has signed no user id of its own")
    packets = [(PUBLIC_KEY, key.body), *kept[PUBLIC_KEY], *kept[USER_ID], *kept[SUBKEY]]
    lives = [seconds for seconds in lives if seconds]
    return Certificate(key.fingerprint, packets, key.made + max(lives) if lives else 0)


def _counts(key: PrimaryKey, signature: Signature, about: tuple[int, bytes]) -> bool:
    """Whether the key signed this. Old releases of rpm trust a subkey whoever bound it (CVE-2021-3521), so each is verified."""
    tag, body = about
    if tag == PUBLIC_KEY:
        return signature.kind in OF_KEY and key.signed(signature, b"", needed=False)
    if tag == USER_ID:
        named = b"\xb4" + len(body).to_bytes(4, "big") + body
        return signature.kind in OF_USER_ID and key.signed(signature, named, needed=False)
    fits = signature.kind in OF_SUBKEY and len(body) < 1 << 16
    return fits and key.signed(signature, framed(body), needed=True)


def _packet(tag: int, body: bytes) -> bytes:
    """A packet as gpg exports it."""
    size = 1 if len(body) < 1 << 8 else 2 if len(body) < 1 << 16 else 4
    head = 0x80 | tag << 2 | {1: 0, 2: 1, 4: 2}[size]
    return bytes([head]) + len(body).to_bytes(size, "big") + body


def _armoured(data: bytes) -> bytes:
    text = base64.b64encode(data).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    checksum = base64.b64encode(_crc24(data).to_bytes(3, "big")).decode()
    return "\n".join([BEGIN, "", *lines, f"={checksum}", END, ""]).encode()


def _crc24(data: bytes) -> int:
    """RFC 4880, 6.1."""
    found = 0xB704CE
    for byte in data:
        found ^= byte << 16
        for _ in range(8):
            found <<= 1
            if found & 0x1000000:
                found ^= 0x1864CFB
    return found
