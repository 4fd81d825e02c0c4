"""Brings packages to the wanted presence and version with apt-get or dnf."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.apt import Apt, available
from ansible_collections.appliance.host.plugins.module_utils.dnf import Dnf
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.releases import chosen

SPEC = {
    "present": {"type": "list", "elements": "str", "default": []},
    "absent": {"type": "list", "elements": "str", "default": []},
    "purge": {"type": "bool", "default": False},
    "pins": {"type": "dict", "default": {}},
    "releases": {"type": "dict", "default": {}},
}


def _tools(module: Any) -> Any:
    if available():
        return Apt(module)
    if module.get_bin_path("dnf"):
        return Dnf(module)
    raise Problem("neither apt-get nor dnf is on this host: it is of no supported system")


def _apply(module: Any) -> dict[str, Any]:
    tools = _tools(module)
    names = list(module.params["present"])
    pins = {name: str(version) for name, version in module.params["pins"].items()}
    releases = {n: str(r) for n, r in module.params["releases"].items()}
    tools.read()
    tools.mend()
    free = {n: v for n, v in pins.items() if n not in releases and not tools.is_held(n)}
    exact = {n: v for n, v in pins.items() if n not in free}
    exact = {**chosen(tools, {n: r for n, r in releases.items() if n not in exact}), **exact}
    behind = [name for name, version in free.items() if tools.is_behind(name, version)]
    wanted = tools.missing([n for n in names if n not in behind], exact) + behind
    unwanted = tools.unwanted(module.params["absent"])
    if wanted or unwanted:
        tools.apply(wanted, unwanted, purge=module.params["purge"])
    if not module.check_mode:
        _caught_up(tools, {name: free[name] for name in behind})
    tools.keep(list(releases))
    return _result(module, tools, [*names, *(name for name in pins if name not in names)])


def _caught_up(tools: Any, least: dict[str, str]) -> None:
    for name, version in least.items():
        if tools.real_name(name) and tools.is_behind(name, version):
            raise Problem(
                f"package {name}: {tools.version(name)} is older than the {version} that was proved, and no repository of this"
                " host offers that or a newer one: name one that does in section repositories"
            )


def _result(module: Any, tools: Any, names: list[str]) -> dict[str, Any]:
    found = {tools.real_name(name) for name in names}
    if not module.check_mode and "" in found:
        gone = [name for name in names if not tools.real_name(name)]
        raise Problem(
            f"package {gone[0]}: not installed although the package manager reported success"
        )
    versions = {name: tools.version(name) for name in sorted(found) if name}
    resources = [{"kind": "package", "name": name} for name in versions]
    return {"changed": tools.changed, "versions": versions, "resources": resources}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    try:
        result = _apply(module)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
