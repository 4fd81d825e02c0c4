"""Signatures of an OpenPGP key over itself: RSA, DSA and Ed25519, in the standard library (RFC 4880, RFC 8032)."""

from __future__ import annotations

import hashlib

from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RSA, RSA_SIGN, DSA, EDDSA = 1, 3, 17, 22
ED25519 = bytes.fromhex("092b06010401da470f01")
HASHES = {2: "sha1", 3: "ripemd160", 8: "sha256", 9: "sha384", 10: "sha512", 11: "sha224"}
DER = {
    2: "3021300906052b0e03021a05000414",
    3: "3021300906052b2403020105000414",
    8: "3031300d060960864801650304020105000420",
    9: "3041300d060960864801650304020205000430",
    10: "3051300d060960864801650304020305000440",
    11: "302d300d06096086480165030402040500041c",
}
"""What stands before a digest in RSA's padding (RFC 4880, 5.2.2)."""
MOST_RSA_BITS, MOST_EXPONENT_BITS, MOST_DSA_BITS, MOST_ORDER_BITS = 8192, 64, 4096, 512
"""Of RSA's two numbers and of DSA's p and q. gpg makes keys of up to 4096 bits, of DSA 3072 with a q of 256."""
LIFETIME, ISSUER, EMBEDDED, ISSUER_FINGERPRINT = 9, 16, 32, 33


BINDS, BOUND_BACK = 0x18, 0x19
MOST_EMBEDDED = 4096
"""Bytes: an RSA signature of 8192 bits has 1,024, and its subpackets a few dozen."""


def length_of(data: bytes, at: int) -> tuple[int, int]:
    """A length of the new format, and where what it is of begins (RFC 4880, 4.2.2)."""
    first = data[at] if at < len(data) else 0
    if first < 192:
        return first, at + 1
    if first < 255:
        second = data[at + 1] if at + 1 < len(data) else 0
        return (first - 192 << 8) + second + 192, at + 2
    return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5


def framed(body: bytes) -> bytes:
    """A key's body as it is hashed."""
    return b"\x99" + len(body).to_bytes(2, "big") + body


def numbers(data: bytes, count: int) -> list[int]:
    """So many multiprecision integers that fill ``data``; none where they do not (RFC 4880, 3.2)."""
    found, at = [], 0
    while at + 2 <= len(data):
        end = at + 2 + (int.from_bytes(data[at : at + 2], "big") + 7 >> 3)
        if end > len(data):
            return []
        found.append(int.from_bytes(data[at + 2 : end], "big"))
        at = end
    return found if at == len(data) and len(found) == count else []


class Signature:
    """A signature packet of version 3 or 4. ``hashed`` and ``unhashed``: subpackets as they stand in it."""

    def __init__(self, body: bytes, kind: int, hashed: bytes, unhashed: bytes, rest: int) -> None:
        self.body, self.kind, self.hashed, self.unhashed = body, kind, hashed, unhashed
        self.version = body[0]
        self.algorithm, self.hash = body[15:17] if self.version == 3 else body[2:4]
        self.start, self.values = body[rest : rest + 2], body[rest + 2 :]

    @classmethod
    def read(cls, body: bytes) -> Signature | None:
        """None for what no version 3 or 4 is, or is cut off."""
        if body[:2] == b"\3\5" and len(body) > 19:
            return cls(body, body[2], b"", b"", 17)
        if body[:1] != b"\4" or len(body) < 10:
            return None
        middle = 6 + int.from_bytes(body[4:6], "big")
        end = middle + 2 + int.from_bytes(body[middle : middle + 2], "big")
        if end + 2 > len(body):
            return None
        return cls(body, body[1], body[6:middle], body[middle + 2 : end], end)

    def claims(self, key: PrimaryKey) -> bool:
        """Whether it says that this key made it, or does not say who did."""
        if self.version == 3:
            return self.body[7:15] == key.id
        stated = {text for kind, text in self._said() if kind == ISSUER}
        whole = {text[1:] for kind, text in self._said() if kind == ISSUER_FINGERPRINT}
        return stated <= {key.id} and whole <= {bytes.fromhex(key.fingerprint)}

    def numbers(self, kind: int) -> list[int]:
        """What its signed subpackets of a kind say."""
        return [int.from_bytes(text, "big") for k, text in subpackets(self.hashed) if k == kind]

    def plain(self) -> bytes:
        """The packet's body, of what is not signed no more than who made it and a signature by the subkey that this one binds."""
        if self.version == 3:
            return self.body
        kept = b"".join(_subpacket(kind, text) for kind, text in self._kept())
        head = self.body[: 6 + len(self.hashed)] + len(kept).to_bytes(2, "big")
        return head + kept + self.start + self.values

    def _kept(self) -> Iterator[tuple[int, bytes]]:
        for kind, text in subpackets(self.unhashed):
            if kind in (ISSUER, ISSUER_FINGERPRINT):
                yield kind, text
            elif kind == EMBEDDED and self.kind == BINDS and (back := _bound_back(text)):
                yield kind, back

    def digest(self, text: bytes) -> bytes:
        """That of ``text`` and of what it says itself (RFC 4880, 5.2.4); empty for a hash that is not known here."""
        if self.version == 3:
            text += self.body[2:7]
        else:
            own = self.body[: 6 + len(self.hashed)]
            text += own + b"\4\xff" + len(own).to_bytes(4, "big")
        try:
            return hashlib.new(HASHES[self.hash], text).digest()
        except (KeyError, ValueError):
            return b""

    def _said(self) -> Iterator[tuple[int, bytes]]:
        yield from subpackets(self.hashed)
        yield from subpackets(self.unhashed)


def _bound_back(text: bytes) -> bytes:
    """A subkey's signature over its primary key (RFC 4880, 5.2.1), which gpg and rpm verify; empty for what does not read as one."""
    found = Signature.read(text) if len(text) <= MOST_EMBEDDED else None
    if found is None or found.version != 4 or found.kind != BOUND_BACK:
        return b""
    return found.plain()


def subpackets(area: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each (RFC 4880, 5.2.3.1)."""
    at = 0
    while at < len(area):
        length, start = length_of(area, at)
        if length < 1 or start + length > len(area):
            return
        yield area[start] & 0x7F, area[start + 1 : start + length]
        at = start + length


def _subpacket(kind: int, text: bytes) -> bytes:
    size = len(text) + 1
    head = bytes([size]) if size < 192 else b"\xff" + size.to_bytes(4, "big")
    return head + bytes([kind]) + text


class PrimaryKey:
    """A public key of version 4."""

    def __init__(self, body: bytes) -> None:
        if body[:1] != b"\4" or not 6 < len(body) < 1 << 16:
            raise Problem("its key is not of version 4")
        self.body = body
        self.made = int.from_bytes(body[1:5], "big")
        self.fingerprint = hashlib.sha1(framed(body)).hexdigest().upper()
        self.id = bytes.fromhex(self.fingerprint)[-8:]
        self.algorithm = body[5]

    def signed(self, signature: Signature, text: bytes, needed: bool) -> bool:
        """Whether it signed ``text`` as part of itself. A key of an algorithm that is not known here has ``not needed``."""
        judge = {RSA: _by_rsa, RSA_SIGN: _by_rsa, DSA: _by_dsa, EDDSA: _by_ed25519}
        if self.algorithm not in judge:
            return not needed
        digest = signature.digest(framed(self.body) + text)
        if signature.algorithm != self.algorithm or not digest or digest[:2] != signature.start:
            return False
        return judge[self.algorithm](self.body[6:], signature, digest)


def _by_rsa(public: bytes, signature: Signature, digest: bytes) -> bool:
    key, made = numbers(public, 2), numbers(signature.values, 1)
    if not key or not made or key[0] < 3:
        return False
    modulus, exponent = key
    if modulus.bit_length() > MOST_RSA_BITS or exponent.bit_length() > MOST_EXPONENT_BITS:
        return False
    text = bytes.fromhex(DER[signature.hash]) + digest
    size = modulus.bit_length() + 7 >> 3
    padded = b"\0\1" + b"\xff" * (size - len(text) - 3) + b"\0" + text
    return len(padded) == size and pow(made[0], exponent, modulus) == int.from_bytes(padded, "big")


def _by_dsa(public: bytes, signature: Signature, digest: bytes) -> bool:
    key, made = numbers(public, 4), numbers(signature.values, 2)
    if not key or not made:
        return False
    (p, q, g, y), (r, s) = key, made
    if p.bit_length() > MOST_DSA_BITS or q.bit_length() > MOST_ORDER_BITS:
        return False
    if p < 3 or q < 3 or not (0 < r < q and 0 < s < q):
        return False
    hashed = int.from_bytes(digest, "big") >> max(0, 8 * len(digest) - q.bit_length())
    try:
        inverse = pow(s, -1, q)
    except ValueError:
        return False
    return pow(g, hashed * inverse % q, p) * pow(y, r * inverse % q, p) % p % q == r


P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def _by_ed25519(public: bytes, signature: Signature, digest: bytes) -> bool:
    made = numbers(signature.values, 2)
    point = numbers(public[len(ED25519) :], 1)
    if public[: len(ED25519)] != ED25519 or not made or not point or point[0] >> 256 != 0x40:
        return False
    if max(made) >> 256:
        return False
    # OpenPGP has both as big numbers, of which leading zeros are gone; they are octets in the order of RFC 8032.
    first, second = (number.to_bytes(32, "big") for number in made)
    own = (point[0] & (1 << 256) - 1).to_bytes(32, "big")
    scalar = int.from_bytes(second, "little")
    key, commitment = _point(own), _point(first)
    if key is None or commitment is None or scalar >= ORDER:
        return False
    text = hashlib.sha512(first + own + digest).digest()
    right = _sum(commitment, _times(int.from_bytes(text, "little") % ORDER, key))
    return _same(_times(scalar, _base()), right)


def _base() -> tuple[int, int, int, int]:
    found = _point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    if found is None:
        raise AssertionError("the base point of the curve is a constant")
    return found


def _point(octets: bytes) -> tuple[int, int, int, int] | None:
    """RFC 8032, 5.1.3."""
    y = int.from_bytes(octets, "little")
    odd, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and odd):
        return None
    if x & 1 != odd:
        x = P - x
    return x, y, 1, x * y % P


def _sum(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(scalar: int, point: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    found = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            found = _sum(found, point)
        point = _sum(point, point)
        scalar >>= 1
    return found


def _same(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    crossed = (one[0] * other[2] - other[0] * one[2], one[1] * other[2] - other[1] * one[2])
    return not any(number % P for number in crossed)
