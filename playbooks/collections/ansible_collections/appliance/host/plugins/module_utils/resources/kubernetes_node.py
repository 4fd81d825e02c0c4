"""A node as the cluster sees it: ready, labelled, owned; runs on a control plane."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

ADMIN = "/etc/kubernetes/admin.conf"
KUBECTL = ("kubectl", "--kubeconfig", ADMIN, "--request-timeout", "20s")
TAINT = "appliance/owner"
DRAINED = "appliance/drained"
ON_DEMAND, HEALTH = "appliance: MIG on demand", "appliance: health: "
"""Reasons of hosts that cordon themselves, and end that themselves."""
MAINTENANCE = "appliance: maintenance: "
"""Prefix of an operator's reason, who ends it; also in appliance.models.drain."""
PATIENCE = 60.0


def ready(node: dict[str, Any]) -> tuple[bool, str]:
    """Whether the node is ready, and what it says of it."""
    for condition in node.get("status", {}).get("conditions", []):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True", str(condition.get("message", ""))
    return False, "kubelet has not reported yet"


def differences(
    node: dict[str, Any], labels: dict[str, str], families: list[str], owner: str
) -> list[list[str]]:
    """kubectl's words for what must change."""
    name = node["metadata"]["name"]
    found = node["metadata"].get("labels", {})
    wrong = [f"{key}={value}" for key, value in labels.items() if found.get(key) != value]
    ours = (key for key in sorted(found) if key.startswith(tuple(families)))
    wrong += [f"{key}-" for key in ours if key not in labels]
    words = [["label", "--overwrite", "node", name, *wrong]] if wrong else []
    taints = [t for t in node.get("spec", {}).get("taints") or [] if t.get("key") == TAINT]
    right = [t for t in taints if t.get("value") == owner and t.get("effect") == "NoExecute"]
    if owner == "kubernetes" and taints:
        words.append(["taint", "node", name, f"{TAINT}-"])
    elif owner != "kubernetes" and (not right or len(taints) > 1):
        words.append(["taint", "--overwrite", "node", name, f"{TAINT}={owner}:NoExecute"])
    reason = node["metadata"].get("annotations", {}).get(DRAINED, ON_DEMAND)
    if reason != ON_DEMAND and not reason.startswith((HEALTH, MAINTENANCE)):
        # The mark goes last: a run cut off between the two comes back to it.
        words += [["uncordon", name], ["annotate", "node", name, f"{DRAINED}-"]]
    return words


def _node(module: Any) -> dict[str, Any]:
    code, out, _ = module.run_command(
        [*KUBECTL, "get", "node", module.params["name"], "-o", "json"]
    )
    found: dict[str, Any] = json.loads(out) if not code else {}
    return found


def _wait(module: Any) -> dict[str, Any]:
    end = time.monotonic() + module.params["wait"]
    while True:
        node = _node(module)
        is_ready, said = ready(node)
        if is_ready:
            return node
        if time.monotonic() > end:
            name = module.params["name"]
            why = said if node else "the cluster has no node of this name"
            module.fail_json(msg=f"{name} is not ready: {why} (journalctl -u kubelet on {name})")
        time.sleep(2)


def _tell(module: Any, line: list[str]) -> None:
    """kubectl, until the API takes it: while a member of etcd joins, the others may give up a write."""
    end = time.monotonic() + PATIENCE
    while True:
        code, out, err = module.run_command([*KUBECTL, *line])
        if not code:
            return
        if time.monotonic() > end:
            module.fail_json(msg=f"kubectl {line[0]}: {(err or out).strip()}")
        time.sleep(2)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "name": {"required": True},
            "labels": {"type": "dict", "default": {}},
            "families": {"type": "list", "elements": "str", "default": []},
            "owner": {"default": "kubernetes"},
            "wait": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    if module.check_mode and not os.path.exists(ADMIN):
        module.exit_json(changed=True, waited=0)
    began = time.monotonic()
    node = _node(module) if module.check_mode else _wait(module)
    wanted = (module.params[key] for key in ("labels", "families", "owner"))
    words = differences(node, *wanted) if node else []
    for line in [] if module.check_mode else words:
        _tell(module, line)
    module.exit_json(changed=bool(words), waited=int(time.monotonic() - began))
