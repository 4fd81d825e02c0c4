"""The private key a site logs in with: read once for all hosts, and told as what is wrong with it, not as a host's fault."""

import threading
from pathlib import Path

from paramiko.pkey import PKey, UnknownKeyType  # noqa: TID251 - this module is part of the door
from paramiko.ssh_exception import PasswordRequiredException, SSHException  # noqa: TID251 - the same door

from appliance.errors import ConnectionFailed

PROTECTED = "give the site a key without a passphrase, or leave access.private_key out and load it into the agent: ssh-add"
KINDS = "name a private key of kind ed25519, ECDSA or RSA in access.private_key"


class UserKeys:
    """Private keys by their files. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[Path, PKey | ConnectionFailed] = {}

    def of(self, file: Path) -> PKey:
        """The key, with the certificate that lies beside it. Raises ConnectionFailed; OSError where the file is not read.

        paramiko, given the file's name, tries it as a key of each kind, and tells of the last.
        """
        with self._lock:
            if file not in self._keys:
                self._keys[file] = _read(file)
            found = self._keys[file]
        if isinstance(found, ConnectionFailed):
            raise ConnectionFailed(found.message, found.hint)
        return found


def fingerprint(file: Path) -> str:
    """Of the public half, as ssh-keygen -l has it. Raises ConnectionFailed; OSError where the file is not read."""
    found = _read(file)
    if isinstance(found, ConnectionFailed):
        raise ConnectionFailed(found.message, found.hint)
    return found.fingerprint


def _read(file: Path) -> PKey | ConnectionFailed:
    try:
        return PKey.from_path(file)
    # cryptography says by a TypeError that a passphrase is missing.
    except (TypeError, PasswordRequiredException):
        return ConnectionFailed(f"{file} is protected by a passphrase", PROTECTED)
    except (SSHException, ValueError, UnknownKeyType):
        return ConnectionFailed(f"{file} is no private key this program can use", KINDS)
