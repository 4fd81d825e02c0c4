"""Keeps the pods of kubeadm's CoreDNS on different hosts, of which a drain empties one at a time."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

ADMIN = "/etc/kubernetes/admin.conf"
KUBECTL = ("kubectl", "--kubeconfig", ADMIN, "--request-timeout", "20s", "-n", "kube-system")
NAME = "coredns"
LABELS = {"k8s-app": "kube-dns"}
"""kubeadm's, for the Deployment's pods (cmd/kubeadm/app/phases/addons/dns)."""
PRIORITY = "system-cluster-critical"
PATIENCE = 60.0

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
TOGETHER = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "podAffinityTerm": {
                    "labelSelector": {
                        "matchExpressions": [
                            {"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}
                        ]
                    },
                    "topologyKey": "kubernetes.io/hostname",
                },
                "weight": 100,
            }
        ]
    }
}
"""As kubeadm writes it."""


def difference(deployment: dict[str, Any], spread: bool) -> dict[str, Any]:
    """What the pods' template lacks; empty for nothing."""
    spec = deployment["spec"]["template"]["spec"]
    rules = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    found: dict[str, Any] = {}
    if spread and rules != APART["podAntiAffinity"]:
        found["affinity"] = {**APART, "$patch": "replace"}
    elif not spread and required in rules:
        found["affinity"] = {**TOGETHER, "$patch": "replace"}
    if spec.get("priorityClassName") != PRIORITY:
        found["priorityClassName"] = PRIORITY
    return found


def budget() -> dict[str, Any]:
    """Of the pods, all but one run on."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": "kube-system"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
    }


class Cluster:
    """The door to kubectl on a control plane."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def get(self, kind: str) -> dict[str, Any]:
        """An object; empty where there is none."""
        out = self.run(["get", kind, NAME, "--ignore-not-found", "-o", "json"])
        found: dict[str, Any] = json.loads(out) if out.strip() else {}
        return found

    def run(self, words: list[str], data: str | None = None) -> str:
        """What kubectl printed. While a member of etcd joins, the others may give up a write."""
        end = time.monotonic() + PATIENCE
        while True:
            code, out, err = self.module.run_command([*KUBECTL, *words], data=data)
            if not code:
                return str(out)
            if time.monotonic() > end:
                self.module.fail_json(msg=f"kubectl {words[0]} {NAME}: {(err or out).strip()}")
            time.sleep(2)


def changes(cluster: Any, spread: bool) -> list[tuple[list[str], str | None]]:
    """kubectl's words, each with what it reads."""
    deployment = cluster.get("deployment")
    if not deployment:
        return []
    found: list[tuple[list[str], str | None]] = []
    known = cluster.get("poddisruptionbudget")
    wanted = {"minAvailable": None, **budget()["spec"]}
    if spread and {key: known.get("spec", {}).get(key) for key in wanted} != wanted:
        found.append((["apply", "-f", "-"], json.dumps(budget())))
    elif known and not spread:
        found.append((["delete", "poddisruptionbudget", NAME], None))
    if lacks := difference(deployment, spread):
        patch = {"spec": {"template": {"spec": lacks}}}
        words = ["patch", "deployment", NAME, "--type", "strategic", "--patch", json.dumps(patch)]
        found.append((words, None))
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule({"spread": {"type": "bool", "required": True}}, supports_check_mode=True)
    if module.check_mode and not os.path.exists(ADMIN):
        module.exit_json(changed=True)
    cluster = Cluster(module)
    wanted = changes(cluster, module.params["spread"])
    for words, data in [] if module.check_mode else wanted:
        cluster.run(words, data)
    module.exit_json(changed=bool(wanted))
