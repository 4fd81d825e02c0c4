"""Secrets: references in the site, resolved late, and never printed."""

import os
import re
import shlex
import stat
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_origin

from pydantic import BaseModel

from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.config.encodings import forms, stretches
from appliance.config.finding import Finding, InvalidConfig
from appliance.config.vault import Vault
from appliance.errors import ConfigError
from appliance.hidden import hide
from appliance.models.secret import SecretRef
from appliance.models.site import Site

Kept = TypeVar("Kept")


class Secret(str):
    """A resolved secret. ``repr`` and f-strings hide it; ``str()`` is the value, for role variables only."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


class Redactor:
    """Replaces every known secret, in every usual encoding, in text that leaves the program."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = forms(str(s) for s in secrets)

    def __call__(self, text: str) -> str:
        """The text with secrets replaced by ``***``."""
        kept, at = [], 0
        for start, end in stretches(self._forms, text):
            kept += [text[at:start], "***"]
            at = end
        return "".join([*kept, text[at:]])

    def texts(self, document: Kept) -> Kept:
        """The document with secrets masked in every text; texts from a fixed set, such as a state, are kept."""
        return self._within(document) if self._is_in(document) else document

    def _is_in(self, document: object) -> bool:
        """One search of the whole text is much faster than one search of each of a thousand texts."""
        whole = "\n".join(_texts(document))
        return bool(stretches(self._forms, whole))

    def _within(self, value: Any) -> Any:
        if type(value) is str or isinstance(value, Secret):
            return self(str(value))
        if isinstance(value, BaseModel):
            changed = {
                name: self._within(getattr(value, name)) for name in _open_fields(type(value))
            }
            return value.model_copy(update=changed)
        if isinstance(value, Mapping):
            return {self._within(key): self._within(item) for key, item in value.items()}
        if type(value) in {tuple, list}:
            return type(value)(self._within(item) for item in value)
        return value


@cache
def _open_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Fields that may hold any text. Readers need the others unchanged: a fixed set of texts, such as the type of a line."""
    fields = model.model_fields.items()
    return tuple(name for name, field in fields if get_origin(field.annotation) is not Literal)


def _texts(document: object) -> list[str]:
    """Every text in a document. A deployment asks for 35,000: hence no recursion."""
    found: list[str] = []
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(str(value))
        elif isinstance(value, BaseModel):
            waiting += [getattr(value, name) for name in _open_fields(type(value))]
        elif isinstance(value, Mapping):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, (tuple, list)):
            waiting += value
    return found


Secrets = Mapping[str, Secret]

FORMATS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "munge_key": (
        re.compile(r"[A-Za-z0-9+/=]{32,1024}"),
        "one line of 32 to 1024 characters of base64: openssl rand -base64 96 | tr -d '\\n'",
    ),
    "slurmdbd_password": (
        re.compile(r"[A-Za-z0-9_.,:+/=@%-]{8,128}"),
        "one line of 8 to 128 of the characters A-Z a-z 0-9 _ . , : + / = @ % -",
    ),
    "backup_ssh_key": (
        re.compile(
            r"-----BEGIN OPENSSH PRIVATE KEY-----\n[A-Za-z0-9+/=\n]{100,16000}\n-----END OPENSSH PRIVATE KEY-----"
        ),
        'a private key of OpenSSH without passphrase: ssh-keygen -t ed25519 -N "" -f FILE',
    ),
    "runai_admin_password": (
        re.compile(r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])(?=.*[^A-Za-z0-9])[^\x00-\x1f\x7f]{8,128}"),
        "8 to 128 characters with a digit, a lower-case letter, an upper-case letter and another character",
    ),
    "notify.url": (
        re.compile(r"https://[A-Za-z0-9._\[\]:-]{1,260}(/[!-~]{0,2000})?"),
        "one line of the form https://HOST[:PORT]/PATH, without an account",
    ),
    "notify.token": (re.compile(r"[!-~]{1,4096}"), "one line of visible ASCII characters"),
    "notify.key": (re.compile(r"[ -~]{16,4096}"), "one line of 16 to 4096 ASCII characters"),
}
"""What the daemons' files can hold; role slurm asserts the same, but only after other stages have run."""


NOTIFY_URL, NOTIFY_TOKEN, NOTIFY_KEY = "notify.url", "notify.token", "notify.key"
MAIL_PASSWORD = "mail.password"
"""Of the account that sends alert mails; site names contain no dot."""


def references(site: Site) -> dict[str, SecretRef]:
    """All secrets of a site: by their own name, and by "bmc.HOST" and "receiver.NAME" for those next to what they open."""
    bmcs = {f"bmc.{host.name}": host.bmc.password for host in site.hosts if host.bmc}
    mail = site.observe.mail
    told = {f"receiver.{r.name}": ref for r in site.observe.receivers if (ref := r.address)}
    post = {MAIL_PASSWORD: mail.password} if mail and mail.password else {}
    return {**site.secrets, **bmcs, **told, **post, **_of_notify(site)}


def _of_notify(site: Site) -> dict[str, SecretRef]:
    if site.notify is None:
        return {}
    kept = {
        NOTIFY_URL: site.notify.url,
        NOTIFY_TOKEN: site.notify.token,
        NOTIFY_KEY: site.notify.key,
    }
    return {name: ref for name, ref in kept.items() if ref is not None}


def resolve(site: Site, folder: Path) -> dict[str, Secret]:
    """Reads every secret; file and vault paths start at ``folder``. From now on, all output hides them.

    Raises InvalidConfig with one finding for each secret that cannot be read. Messages never contain a value.
    """
    found: dict[str, Secret] = {}
    findings: list[Finding] = []
    vault = Vault(folder)
    for name, ref in references(site).items():
        try:
            found[name] = Secret(_fitting(name, _fetch(ref, folder, vault)))
        except ConfigError as error:
            key = f"secrets.{name}" if name in site.secrets else name
            findings.append(Finding(folder / "site.yml", 0, key, error.message, error.hint))
    hide(found.values(), lambda known: Redactor(known).texts)
    if findings:
        raise InvalidConfig(findings)
    return found


def secret_in(file: Path) -> Secret:
    """The secret in a file that a command names; from now on, all output hides it. Raises ConfigError."""
    value = _read(file)
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode not in (0o600, 0o400):
        raise ConfigError(
            f"{file} has mode {mode:04o}", f"make it private: chmod 600 {shlex.quote(str(file))}"
        )
    return hidden_secret(value)


def hidden_secret(value: str) -> Secret:
    """The value as a secret that all output hides from now on."""
    found = Secret(value.strip())
    hide([found], lambda known: Redactor(known).texts)
    return found


def _fetch(ref: SecretRef, folder: Path, vault: Vault) -> str:
    if ref.file is not None:
        value = _read(folder / ref.file)
    elif ref.env is not None:
        value = os.environ.get(ref.env, "")
        if not value:
            raise ConfigError(
                f"{ref.env} is not set", f"export {ref.env}=... and run this command again"
            )
    else:
        value = vault.read(str(ref.vault))
    if not value.strip():
        raise ConfigError("is empty", "a secret needs at least one character")
    return value


def _fitting(name: str, value: str) -> str:
    pattern, form = FORMATS.get(name, (None, ""))
    if pattern and not pattern.fullmatch(value):
        raise ConfigError("has a format that its daemon cannot read", form)
    return value


def _read(file: Path) -> str:
    try:
        return read_bytes(file).decode("utf-8").rstrip("\r\n")
    except TooLarge:
        raise ConfigError(f"{file} is larger than 1 MB", "a secret must be one line") from None
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read ({error.strerror})", "check its path, owner and mode"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"{file} is not text", f"encode it: base64 -w0 {shlex.quote(str(file))}"
        ) from None
