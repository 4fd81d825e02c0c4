"""Values of ansible-vault files, decrypted by Ansible's own library."""

import os
import shlex
import tempfile
from pathlib import Path

from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.config.document import parse
from appliance.config.finding import InvalidConfig
from appliance.errors import ConfigError
from appliance.ownership import require

PASSWORD_FILE = "ANSIBLE_VAULT_PASSWORD_FILE"


class Vault:
    """The vault files of one site, each decrypted once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, dict[str, object]] = {}

    def read(self, place: str) -> str:
        """The value at ``file#key``. Raises ConfigError; messages never contain decrypted text."""
        name, _, key = place.partition("#")
        if name not in self._open:
            self._open[name] = _decrypt(self.folder / name)
        values = self._open[name]
        if key not in values:
            raise ConfigError(
                f'{name} has no key "{key}"', f"its keys are {', '.join(values) or 'none'}"
            )
        value = values[key]
        if not isinstance(value, str):
            raise ConfigError(f"{key} of {name} is not text", "put its value in quotes")
        return value.rstrip("\r\n")


def _decrypt(file: Path) -> dict[str, object]:
    # The import creates Ansible's folder for temporary files below HOME, which a service's user may lack.
    os.environ.setdefault("ANSIBLE_LOCAL_TEMP", tempfile.gettempdir())
    # The import takes 0.3 s; only sites with a vault pay for it.
    from ansible.errors import AnsibleError
    from ansible.parsing.vault import VaultLib, VaultSecret

    password = _password()
    try:
        text = VaultLib([("default", VaultSecret(password))]).decrypt(read_bytes(file))
        data = parse(text.decode(), file).data
    except TooLarge:
        raise ConfigError(
            f"{file} is larger than 1 MB", "name a vault file; none is that large"
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror})", "check its path") from None
    except AnsibleError:
        remedy = f"check the password in {os.environ[PASSWORD_FILE]}: ansible-vault view {shlex.quote(str(file))}"
        raise ConfigError(f"{file} cannot be decrypted", remedy) from None
    except (InvalidConfig, UnicodeDecodeError):
        raise _no_keys(file) from None
    if not isinstance(data, dict):
        raise _no_keys(file)
    return data


def _no_keys(file: Path) -> ConfigError:
    return ConfigError(
        f"{file} is not a mapping of keys and values",
        f"ansible-vault edit {shlex.quote(str(file))}",
    )


def _password() -> bytes:
    name = os.environ.get(PASSWORD_FILE)
    if not name:
        raise ConfigError(
            f"{PASSWORD_FILE} is not set",
            f"export {PASSWORD_FILE}=FILE, a file with the vault's password",
        )
    try:
        file = Path(name).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{PASSWORD_FILE}: {name} is in the home of an unknown user", "check the path"
        ) from None
    require(file)
    try:
        executable = os.access(file, os.X_OK)
        password = read_bytes(file).strip()
    except OSError as error:
        raise ConfigError(
            f"{PASSWORD_FILE}: {file} cannot be read ({error.strerror})", "check the path"
        ) from None
    except TooLarge:
        raise ConfigError(
            f"{PASSWORD_FILE}: {file} is larger than 1 MB",
            "name the file that contains the password",
        ) from None
    if executable:
        raise ConfigError(
            f"{PASSWORD_FILE}: {file} is executable",
            "name a file that contains the password; scripts are not supported",
        )
    if not password:
        raise ConfigError(f"{PASSWORD_FILE}: {file} is empty", "write the password into it")
    return password
