"""Adds the site's options to commands in remedies and hints, so that they work wherever they are pasted."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel

T = TypeVar("T")

WITH_SITE = frozenset(
    {
        "accept",
        "backup create",
        "backup list",
        "backup restore",
        "backup verify",
        "baseline accept",
        "baseline show",
        "bios apply",
        "bios firmware",
        "bios show",
        "bios status",
        "bios update",
        "bundle fetch",
        "bundle plan",
        "console",
        "deploy",
        "discover",
        "etcd abandon",
        "etcd list",
        "etcd repair",
        "etcd restore",
        "etcd save",
        "fabric show",
        "fabric topology",
        "health",
        "history",
        "images lock",
        "images show",
        "inventory",
        "kubeconfig",
        "mig apply",
        "mig disable",
        "mig plan",
        "mig show",
        "node add",
        "node assign",
        "node conditions",
        "node drain",
        "node reboot",
        "node remove",
        "node replace",
        "node return",
        "node show",
        "plan",
        "power cycle",
        "power off",
        "power on",
        "power status",
        "profile capture",
        "provision install",
        "provision media",
        "queue apply",
        "queue plan",
        "queue render",
        "queue show",
        "queue status",
        "rehearse",
        "report",
        "support-bundle",
        "trust",
        "update apply",
        "update back",
        "update plan",
        "validate",
        "waive",
    }
)
"""Commands that take --site and --profile."""
_NAMES = "|".join(sorted(map(re.escape, WITH_SITE), key=len, reverse=True))
_COMMAND = re.compile(rf"(?<![\w./-])appliance (?P<verb>{_NAMES})(?![\w-])")
_END = re.compile(r"[;,)\n`]|(?<![\w./-])appliance ")
_ADDRESSED = re.compile(r"(?:^|\s)(?:--site|-s|--inventory|-i)\b")


@dataclass(frozen=True)
class Address:
    """The site and profile named on the command line; none: the embedded rack."""

    inventory: Path | None = None
    profile: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options, quoted for a shell."""
        given = (("--site", self.inventory), ("--profile", self.profile))
        return tuple(f"{flag} {shlex.quote(str(value))}" for flag, value in given if value)

    def absolute(self) -> "Address":
        """Return the same with absolute paths, for readers in other folders."""
        is_file = self.profile and ("/" in self.profile or self.profile.endswith((".yml", ".yaml")))
        profile = str(Path(self.profile).absolute()) if self.profile and is_file else self.profile
        return Address(self.inventory and self.inventory.absolute(), profile)


def addressed(text: str, address: Address) -> str:
    """Return ``text`` with site and profile in each command that takes them and does not name a site."""
    words = " ".join(address.words)
    if not words or "appliance " not in text:
        return text

    def named(found: re.Match[str]) -> str:
        rest = text[found.end() :]
        end = _END.search(rest)
        said = rest[: end.start()] if end else rest
        return found[0] if _ADDRESSED.search(said) else f"{found[0]} {words}"

    return _COMMAND.sub(named, text)


def for_the_control_machine(text: str) -> str:
    """Return a remedy for readers on another machine: its first command that needs the site names where to type it."""
    return _COMMAND.sub(lambda found: f"on the control machine: {found[0]}", text, count=1)


def told(value: T, address: Address) -> T:
    """Return models, mappings and sequences with every text in them addressed."""
    return cast(T, _addressed_all(value, address)) if address.words else value


def _addressed_all(value: Any, address: Address) -> Any:
    if isinstance(value, str):
        # A member of an enumeration is not prose.
        return addressed(value, address) if type(value) is str else value
    if isinstance(value, BaseModel):
        return _model(value, address)
    if isinstance(value, Mapping):
        return {key: _addressed_all(item, address) for key, item in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_addressed_all(item, address) for item in value)
    return value


def _model(model: BaseModel, address: Address) -> BaseModel:
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    changed = {name: _addressed_all(value, address) for name, value in fields.items()}
    update = {name: value for name, value in changed.items() if value != fields[name]}
    return model.model_copy(update=update) if update else model
