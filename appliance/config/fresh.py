"""Fresh random secrets for a new site, each in a file only its owner can read."""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

MUNGE_KEY_BYTES = 128
PASSWORD_BYTES = 24


def _munge_key() -> str:
    return b64encode(secrets.token_bytes(MUNGE_KEY_BYTES)).decode()


def _password() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


MAKERS: Mapping[str, Callable[[], str]] = {
    "munge_key": _munge_key,
    "slurmdbd_password": _password,
}


CLUSTER_KEY = "kubernetes_encryption_key"


def _encryption_key() -> str:
    return b64encode(secrets.token_bytes(32)).decode()


def write_cluster_key(folder: Path) -> Path:
    """Write the key a site with Kubernetes needs besides; one that is there is kept."""
    return _write(folder / CLUSTER_KEY, _encryption_key)


def write_secrets(folder: Path) -> tuple[Path, ...]:
    """Write ``folder/<name>`` (mode 0600) for each secret a site needs; one that is there is kept.

    Returns the files by the order of their names. In site.yml: ``<name>: {file: secrets/<name>}``.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return tuple(_write(folder / name, maker) for name, maker in sorted(MAKERS.items()))


def _write(file: Path, maker: Callable[[], str]) -> Path:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(maker() + "\n", encoding="utf-8")
    return file
