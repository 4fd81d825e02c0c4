"""Brings one Helm release to a pinned chart version and values; runs where the cluster's kubeconfig is."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.helm import (
    Found,
    Helm,
    Wanted,
    differences,
)
from ansible_collections.appliance.host.plugins.module_utils.helm_archive import (
    chart_of,
    program_of,
)
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, telling_line

MOST_NAMED = 3
"""Things named in one line."""

SPEC = {
    "name": {"required": True},
    "namespace": {"required": True},
    "chart": {"required": True},
    "version": {"required": True},
    "repository": {"default": ""},
    "values": {"type": "dict", "default": {}, "no_log": False},
    "source": {"default": ""},
    "sha256": {"default": ""},
    "state": {"choices": ["present", "absent"], "default": "present"},
    "holders": {"type": "list", "elements": "str", "default": []},
    "driver": {"default": ""},
    "marked": {"default": ""},
    "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
    "timeout": {"type": "int", "default": 600},
    "waits": {"type": "bool", "default": True},
    "rolls_back": {"type": "bool", "default": True},
    "jobs": {"type": "list", "elements": "str", "default": []},
    "login": {"type": "list", "elements": "str", "default": [], "no_log": True},
}


def _bring(given: dict[str, Any], helm: Helm, wanted: Wanted, place: str) -> None:
    """Install or upgrade; a chart with a pinned digest is fetched and compared first."""
    repository = "" if given["source"] else given["repository"]
    helm.clear(wanted, given["jobs"])
    if repository and given["login"]:
        with helm.logged_in(wanted, place, repository, given["login"]) as chart:
            helm.bring(wanted, chart, "")
        return
    if not given["sha256"] or given["source"]:
        helm.bring(wanted, place, repository)
        return
    with helm.folder(wanted) as folder:
        helm.bring(wanted, helm.fetch(wanted, place, repository, given["sha256"], folder), "")


def _absent(module: Any, helm: Helm, wanted: Wanted, found: Found) -> dict[str, Any]:
    """Take it away where it is there and nobody needs it."""
    said = ["installed"] if found.last else []
    if said:
        held = helm.held(module.params["holders"], module.params["driver"])
        if held:
            more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
            raise Problem(
                f"{wanted.name} is still needed by {', '.join(held[:MOST_NAMED])}{more}: "
                f"delete them first, or leave {wanted.name} in the site"
            )
        if not module.check_mode:
            helm.remove(wanted)
    return {"changed": bool(said), "differences": said, "revision": 0, "resources": []}


def has_cluster(kubeconfig: str) -> bool:
    """Whether this host has come into a cluster; a dry run makes none."""
    return os.path.exists(kubeconfig)


def _is_marked(module: Any) -> bool:
    """Whether the release's namespace has the label. Raises Problem."""
    known = ["kubectl", "--kubeconfig", module.params["kubeconfig"], "--request-timeout", "20s"]
    words = ["get", "namespaces", "--selector", module.params["marked"], "--output", "name"]
    code, out, err = module.run_command([*known, *words])
    if code:
        raise Problem(f"namespaces cannot be listed: {telling_line(err or out)}")
    return f"namespace/{module.params['namespace']}" in lines_of(out)


def _apply(module: Any) -> dict[str, Any]:
    given = module.params
    if module.check_mode and not has_cluster(given["kubeconfig"]):
        said = ["not installed"] if given["state"] == "present" else []
        return {"changed": bool(said), "differences": said, "revision": 0, "resources": []}
    if given["state"] == "absent" and given["marked"] and not _is_marked(module):
        return {"changed": False, "differences": [], "revision": 0, "resources": []}
    wanted = Wanted(
        name=given["name"],
        namespace=given["namespace"],
        chart=given["chart"].rsplit("/", 1)[-1],
        version=given["version"],
        values=given["values"],
        timeout=given["timeout"],
        waits=given["waits"],
        rolls_back=given["rolls_back"],
    )
    program = program_of(given["source"])
    place = ""
    if given["state"] == "present":
        place = chart_of(given["source"], given["chart"], wanted.title, given["sha256"])
    helm = Helm(module.run_command, program, given["kubeconfig"])
    with helm.alone(wanted, wait=not module.check_mode):
        found = helm.settled(wanted, wait=not module.check_mode)
        if given["state"] == "absent":
            return _absent(module, helm, wanted, found)
        said = differences(wanted, found, helm)
        if said and not module.check_mode:
            helm.recover(wanted, found)
            _bring(given, helm, wanted, place)
            found = helm.settled(wanted, wait=False)
    result: dict[str, Any] = {
        "changed": bool(said),
        "differences": said,
        "revision": found.revision,
        "resources": [],
    }
    if module._diff and said:
        title = f"release {wanted.name} in {wanted.namespace}"
        before = "".join(f"{line}\n" for line in said)
        after = f"{wanted.chart}-{wanted.version}\n"
        result["diff"] = {
            "before": before,
            "after": after,
            "before_header": title,
            "after_header": title,
        }
    return result


def main() -> None:
    """Run the module."""
    # A module's arguments go to the host's journal; of values nobody knows which are secret.
    module = AnsibleModule(SPEC, supports_check_mode=True, no_log=True)
    try:
        result = _apply(module)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
