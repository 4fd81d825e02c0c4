#!/usr/bin/python
"""Applies manifests that lie on the control plane."""

# ruff: noqa: E402 - Ansible wants the documentation before the imports.
from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_manifests
short_description: Manifests into the cluster
description:
  - Applies each file, and the files of each folder, by name. Nothing is deleted.
options:
  places: {description: Files and folders on this host; a folder may be missing., type: list, elements: path, required: true}
"""

EXAMPLES = r"""
- name: Service | Apply manifests
  kubernetes_manifests:
    places: [/opt/source/manifests]
"""

RETURN = r"""
applied: {description: What changed., type: list, returned: always}
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

KUBECTL = ("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "--request-timeout", "60s")


def files(places: list[str]) -> list[str]:
    """The manifests of these places, folders by name."""
    found: list[str] = []
    for place in places:
        if os.path.isdir(place):
            names = sorted(n for n in os.listdir(place) if n.endswith((".yml", ".yaml")))
            found += [os.path.join(place, name) for name in names]
        elif os.path.exists(place):
            found.append(place)
    return found


def changed(said: str) -> list[str]:
    """What kubectl apply did not leave as it was."""
    return [line for line in said.splitlines() if line.strip() and not line.endswith("unchanged")]


def _apply(module: Any, file: str) -> list[str]:
    dry = ["--dry-run=server"] if module.check_mode else []
    code, out, err = module.run_command([*KUBECTL, "apply", "-f", file, *dry])
    if code:
        said = (err or out).strip().splitlines() or ["no reason given"]
        module.fail_json(msg=f"{file} is not accepted: {said[-1]}")
    return changed(out)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {"places": {"type": "list", "elements": "path", "required": True}}, supports_check_mode=True
    )
    applied = [line for file in files(module.params["places"]) for line in _apply(module, file)]
    module.exit_json(changed=bool(applied), applied=applied)


if __name__ == "__main__":
    main()
