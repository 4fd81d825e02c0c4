"""The door to ssh-keygen: signatures of files that anybody can verify with OpenSSH alone (ssh-keygen(1), -Y)."""

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters import process
from appliance.errors import CommandFailed, ConfigError
from appliance.ownership import require

NAMESPACE = "appliance-handover"
"""Binds a signature to this use: one made for git or mail is none here."""
KINDS = frozenset({"ED25519", "ED25519-SK", "ECDSA-SK"})
HINT = "install openssh-client 8.2 or newer"
BEGIN, END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
WIDTH = 70
"""Columns of the armour (PROTOCOL.sshsig of OpenSSH)."""


@dataclass(frozen=True)
class Key:
    """A key that can sign: its file, kind and fingerprint."""

    file: Path
    kind: str
    fingerprint: str


def key_of(file: Path) -> Key:
    """What ssh-keygen says of a key file. Raises ConfigError for one that cannot sign a hand-over."""
    if not file.is_file():
        raise ConfigError(f"{file}: no such key file", "make one: ssh-keygen -t ed25519 -f FILE")
    told = process.run(["ssh-keygen", "-l", "-f", str(file)], check=False, hint=HINT)
    found = re.match(r"\d+ (SHA256:\S+) .*\((\S+)\)$", told.stdout.strip())
    if told.returncode or found is None:
        raise ConfigError(f"{file} is no SSH key", "make one: ssh-keygen -t ed25519 -f FILE")
    if found[2] not in KINDS:
        raise ConfigError(
            f"{file} is a key of kind {found[2]}",
            "sign with Ed25519 or a key on a hardware token: ssh-keygen -t ed25519 or -t ed25519-sk",
        )
    return Key(file, found[2], found[1])


def sign(key: Key, file: Path, namespace: str = NAMESPACE) -> Path:
    """Signs a file for a use; the signature lies beside it, as FILE.sig. Raises CommandFailed, as for a key behind a passphrase."""
    hint = "a key with a passphrase signs through ssh-agent: ssh-add KEY; one on a token wants a touch within 60 s"
    process.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key.file), "-n", namespace, str(file)],
        hint=hint,
    )
    return file.with_name(f"{file.name}.sig")


def is_armoured(signature: bytes) -> bool:
    """Whether a signature has exactly the form ssh-keygen writes; its reader forgives more."""
    lines = signature.split(b"\n")
    if lines[0] != BEGIN or lines[-2:] != [END, b""]:
        return False
    try:
        blob = base64.b64decode(b"".join(lines[1:-2]), validate=True)
    except binascii.Error:
        return False
    body = base64.b64encode(blob)
    wrapped = [body[at : at + WIDTH] for at in range(0, len(body), WIDTH)]
    return lines[1:-2] == wrapped


def signer_of(signature: Path, content: bytes, allowed: Path, namespace: str = NAMESPACE) -> str:
    """Who signed, as ``allowed`` (an allowed_signers file) names them; "" where nobody in it did, or not this content.

    Raises ConfigError where it is not there, or somebody else could have put a signer into it.
    """
    if not allowed.is_file():
        raise ConfigError(
            f"{allowed}: no such file",
            "write one line: NAME KEY, as in ssh-keygen(1), ALLOWED SIGNERS",
        )
    require(allowed)
    asked = ["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(allowed)]
    found = process.run(asked, check=False, hint=HINT)
    for name in found.stdout.split("\n") if not found.returncode else []:
        if name and _verifies(name, signature, content, allowed, namespace):
            return name
    return ""


def _verifies(name: str, signature: Path, content: bytes, allowed: Path, namespace: str) -> bool:
    words = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        str(allowed),
        "-I",
        name,
        "-n",
        namespace,
        "-s",
        str(signature),
    ]
    try:
        return process.run(words, input=content, check=False, hint=HINT).returncode == 0
    except CommandFailed:
        return False
