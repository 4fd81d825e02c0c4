"""An OpenSSH public key on one line: complete, of the stated type, without options (sshd(8), RFC 4253, RFC 5656, RFC 8709)."""

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator

SHORTEST_RSA = 2048
"""Bits. OpenSSH refuses fewer than 1024, RHEL 9's policy fewer than 2048."""
CURVES = {"nistp256": 65, "nistp384": 97, "nistp521": 133}
"""Bytes of an uncompressed point."""
KINDS = (
    "ssh-ed25519",
    "ssh-rsa",
    *(f"ecdsa-sha2-{curve}" for curve in CURVES),
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
COMMENT = 200
MAGIC = b"openssh-key-v1\0"
BEGIN, END = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----"


def complaint(line: str) -> str:
    """Why ``line`` is not usable as a plain public key; empty if it is."""
    kind, _, rest = line.partition(" ")
    body, _, comment = rest.partition(" ")
    if kind not in KINDS or not body:
        return "is not an OpenSSH public key"
    try:
        fields = list(_fields(b64decode(body, validate=True)))
    except (ValueError, struct.error):
        return "is truncated or damaged"
    if not fields or fields[0] != kind.encode():
        return f"is labelled {kind} but contains another type of key"
    if not _whole(kind, fields[1:]):
        return "is truncated or damaged"
    if kind == "ssh-rsa" and _bits(fields[2]) < SHORTEST_RSA:
        return f"is an RSA key of {_bits(fields[2])} bits, which sshd may refuse"
    if len(comment) > COMMENT or not comment.isprintable() or {"{", "}"} & set(comment):
        return "has a comment that is not plain text"
    return ""


def _fields(blob: bytes) -> Iterator[bytes]:
    """The strings of a key, each after its length of four bytes. Raises ValueError if one is truncated."""
    while blob:
        (length,) = struct.unpack(">I", blob[:4])
        if len(blob) < 4 + length:
            raise ValueError("cut")
        yield blob[4 : 4 + length]
        blob = blob[4 + length :]


def _whole(kind: str, parts: list[bytes]) -> bool:
    """The fields that follow the key type; keys on hardware end with their application, such as ssh:."""
    if kind.startswith("sk-"):
        if not parts or not parts[-1].isascii() or not parts[-1]:
            return False
        parts = parts[:-1]
    if "ed25519" in kind:
        return [len(part) for part in parts] == [32]
    if kind == "ssh-rsa":
        return len(parts) == 2 and 1 < _bits(parts[0]) <= 64 and bool(parts[1])
    curve = next(name for name in CURVES if name in kind)
    return (
        len(parts) == 2
        and parts[0] == curve.encode()
        and len(parts[1]) == CURVES[curve]
        and parts[1][:1] == b"\4"
    )


def _bits(number: bytes) -> int:
    return int.from_bytes(number).bit_length()


def of_private(text: bytes) -> str:
    """The public half, base64, that a private key in OpenSSH's format contains unencrypted, also with a passphrase; "" otherwise."""
    lines = text.split()
    armour = b" ".join(lines)
    if not (armour.startswith(BEGIN) and armour.endswith(END)):
        return ""
    try:
        blob = b64decode(b"".join(armour.removeprefix(BEGIN).removesuffix(END).split()))
        if not blob.startswith(MAGIC):
            return ""
        rest = blob[len(MAGIC) :]
        # Cipher, key derivation and its options; then the number of keys, and the public halves (OpenSSH, PROTOCOL.key).
        for _ in range(3):
            (length,) = struct.unpack(">I", rest[:4])
            rest = rest[4 + length :]
        _, length = struct.unpack(">II", rest[:8])
    except (ValueError, struct.error):
        return ""
    return b64encode(rest[8 : 8 + length]).decode()
