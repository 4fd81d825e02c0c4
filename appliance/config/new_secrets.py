"""Random secrets for a new site, each in a file that only its owner can read."""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

MUNGE_KEY_BYTES = 128
PASSWORD_BYTES = 24
ENCRYPTION_KEY_BYTES = 32
CLUSTER_KEY = "kubernetes_encryption_key"


def _munge_key() -> str:
    return b64encode(secrets.token_bytes(MUNGE_KEY_BYTES)).decode()


def _password() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


def _encryption_key() -> str:
    return b64encode(secrets.token_bytes(ENCRYPTION_KEY_BYTES)).decode()


OF_SLURM: Mapping[str, Callable[[], str]] = {
    "munge_key": _munge_key,
    "slurmdbd_password": _password,
}
OF_KUBERNETES: Mapping[str, Callable[[], str]] = {CLUSTER_KEY: _encryption_key}


def write_secrets(
    folder: Path, *, slurm: bool = True, kubernetes: bool = False
) -> tuple[Path, ...]:
    """Writes ``folder/<name>`` (mode 0600) for each secret that these sections need; existing files are kept.

    Returns the files in the order of their names. In site.yml: ``<name>: {file: secrets/<name>}``.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    makers = {**(OF_SLURM if slurm else {}), **(OF_KUBERNETES if kubernetes else {})}
    return tuple(_write(folder / name, maker) for name, maker in sorted(makers.items()))


def _write(file: Path, maker: Callable[[], str]) -> Path:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(maker() + "\n", encoding="utf-8")
    return file
