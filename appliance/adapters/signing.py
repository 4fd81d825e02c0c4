"""The adapter for ssh-keygen: signatures of files that OpenSSH alone can verify (ssh-keygen(1), -Y)."""

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters import process
from appliance.errors import CommandFailed, ConfigError
from appliance.ownership import require

NAMESPACE = "appliance-handover"
"""Binds a signature to this use: signatures for git or mail are not valid here."""
KINDS = frozenset({"ED25519", "ED25519-SK", "ECDSA-SK"})
HINT = "install openssh-client 8.2 or newer"
BEGIN, END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
WIDTH = 70
"""Columns of the armour (PROTOCOL.sshsig of OpenSSH)."""


@dataclass(frozen=True)
class Key:
    """A key that can sign: its file, type and fingerprint."""

    file: Path
    kind: str
    fingerprint: str


def key_of(file: Path) -> Key:
    """Reads a key file with ssh-keygen. Raises ConfigError for one that cannot sign a hand-over."""
    if not file.is_file():
        raise ConfigError(f"{file}: no such key file", "create one: ssh-keygen -t ed25519 -f FILE")
    told = process.run(["ssh-keygen", "-l", "-f", str(file)], check=False, hint=HINT)
    found = re.match(r"\d+ (SHA256:\S+) .*\((\S+)\)$", told.stdout.strip())
    if told.returncode or found is None:
        raise ConfigError(f"{file} is not an SSH key", "create one: ssh-keygen -t ed25519 -f FILE")
    if found[2] not in KINDS:
        raise ConfigError(
            f"{file} is a key of type {found[2]}",
            "sign with Ed25519 or a key on a hardware token: ssh-keygen -t ed25519 or -t ed25519-sk",
        )
    return Key(file, found[2], found[1])


def sign(key: Key, file: Path, namespace: str = NAMESPACE) -> Path:
    """Signs a file for a use; the signature is next to it, as FILE.sig. Raises CommandFailed, also for a key with a passphrase."""
    hint = "load a key with a passphrase into ssh-agent: ssh-add KEY; touch a hardware token within 60 s"
    process.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key.file), "-n", namespace, str(file)],
        hint=hint,
    )
    return file.with_name(f"{file.name}.sig")


def is_armoured(signature: bytes) -> bool:
    """Whether a signature has exactly the format of ssh-keygen, whose parser accepts more."""
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
    """The signer's name in ``allowed`` (an allowed_signers file); "" if none of its signers signed this content.

    Raises ConfigError if the file does not exist, or if another user could have changed it.
    """
    if not allowed.is_file():
        raise ConfigError(
            f"{allowed}: no such file",
            "write one line: NAME KEY, as described in ssh-keygen(1), ALLOWED SIGNERS",
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
