"""The site's private login key: read once for all hosts; its problems are reported as its own, not as a host's."""

import threading
from pathlib import Path

from paramiko.pkey import PKey, UnknownKeyType  # noqa: TID251 - this module is part of the door
from paramiko.ssh_exception import PasswordRequiredException, SSHException  # noqa: TID251 - the same door

from appliance.errors import ConnectionFailed

PROTECTED = "use a key without a passphrase, or remove access.private_key and load the key into the agent: ssh-add"
KINDS = "name a private key of type ed25519, ECDSA or RSA in access.private_key"


class UserKeys:
    """Private keys by file. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[Path, PKey | ConnectionFailed] = {}

    def of(self, file: Path) -> PKey:
        """The key, with the certificate next to it. Raises ConnectionFailed; OSError if the file cannot be read.

        paramiko, given a file name, tries each key type, and reports the error of the last.
        """
        with self._lock:
            if file not in self._keys:
                self._keys[file] = _read(file)
            found = self._keys[file]
        if isinstance(found, ConnectionFailed):
            raise ConnectionFailed(found.message, found.hint)
        return found


def fingerprint(file: Path) -> str:
    """Fingerprint of the public half, in the format of ssh-keygen -l. Raises ConnectionFailed; OSError if the file cannot be read."""
    found = _read(file)
    if isinstance(found, ConnectionFailed):
        raise ConnectionFailed(found.message, found.hint)
    return found.fingerprint


def _read(file: Path) -> PKey | ConnectionFailed:
    try:
        return PKey.from_path(file)
    # cryptography reports a missing passphrase as a TypeError.
    except (TypeError, PasswordRequiredException):
        return ConnectionFailed(f"{file} is protected by a passphrase", PROTECTED)
    except (SSHException, ValueError, UnknownKeyType):
        return ConnectionFailed(f"{file} is not a usable private key", KINDS)
