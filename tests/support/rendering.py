"""What Ansible would write on a host: all templates of a stage's roles, rendered by its own library and without a host."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # noqa: TID251 - reads the roles' own files
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from ansible.utils.collection_loader import AnsibleCollectionConfig

from appliance.config.data import root

FACTS = {
    "distribution": "Debian",
    "distribution_release": "bookworm",
    "distribution_major_version": "12",
    "distribution_version": "12",
    "os_family": "Debian",
}
WORD = re.compile(r"[a-z_][a-z0-9_]+")
Rendered = dict[str, str]
"""Text of a file, or why there is none, by "role/path"."""

if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([])


def rendered(roles: tuple[str, ...], host: str, given: Mapping[str, Any]) -> Rendered:
    """All templates of ``roles`` for one host, with the variables the program gives them."""
    return {
        f"{role}/{name}": _render(role, name, host, _used(role, name, given))
        for role in roles
        for name in _templates(role)
    }


_done: dict[tuple[str, str, str, str], str] = {}


def _render(role: str, name: str, host: str, given: dict[str, Any]) -> str:
    """Once for each set of what a template uses; Ansible takes milliseconds for each."""
    key = (role, name, host, repr(sorted(given.items())))
    if key not in _done:
        variables = {"inventory_hostname": host, "ansible_facts": FACTS, "ansible_managed": "m"}
        templar = Templar(loader=DataLoader(), variables={**variables, **_own(role), **given})
        try:
            _done[key] = str(templar.template(trust_as_template(_templates(role)[name])))
        except Exception as error:  # noqa: BLE001 - a template of a feature this host has not
            _done[key] = f"not rendered: {type(error).__name__}"
    return _done[key]


def _used(role: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a template reads, by way of the role's own variables, too."""
    seen, left = set(), set(WORD.findall(_templates(role)[name]))
    own = _own(role)
    while left:
        seen |= left
        left = {w for n in left if n in own for w in WORD.findall(str(own[n]))} - seen
    return {key: value for key, value in given.items() if key in seen}


@cache
def _templates(role: str) -> dict[str, str]:
    folder = root() / "roles" / role / "templates"
    return {str(f.relative_to(folder)): f.read_text() for f in sorted(folder.rglob("*.j2"))}


@cache
def _own(role: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("defaults/main.yml", "vars/main.yml", "vars/Debian.yml"):
        file = Path(root()) / "roles" / role / name
        if file.exists():
            found |= _trusted(yaml.safe_load(file.read_text()) or {})
    return found


def _trusted(value: Any) -> Any:
    """The roles' own texts are templates; what the program gives is none."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: _trusted(inner) for key, inner in value.items()}
    return [_trusted(inner) for inner in value] if isinstance(value, list) else value
