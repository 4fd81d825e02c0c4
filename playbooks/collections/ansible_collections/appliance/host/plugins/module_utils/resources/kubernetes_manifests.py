"""Applies manifests that lie on the control plane."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.guarded import guarded
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

KUBECTL = ("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "--request-timeout", "60s")

TOO_LARGE = "metadata.annotations: Too long"
NOT_YET = ("no matches for kind", "could not find the requested resource")
"""What kubectl says of a kind the API server does not serve, or not yet."""
PATIENCE = 30.0


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
    return [line for line in lines_of(said) if line.strip() and not line.endswith("unchanged")]


def versions(said: str) -> dict[str, str]:
    """The version of each resource of a list, by kind, namespace and name."""
    found = json.loads(said) if said.strip() else {}
    items = found.get("items", [found] if found else [])
    return {
        "/".join(filter(None, (item["kind"], meta.get("namespace"), meta["name"]))): meta[
            "resourceVersion"
        ]
        for item in items
        for meta in (item["metadata"],)
    }


def _apply(module: Any, file: str) -> list[str]:
    dry = ["--dry-run=server"] if module.check_mode else []
    end = time.monotonic() + (0 if module.check_mode else PATIENCE)
    while True:
        code, out, err = module.run_command([*KUBECTL, "apply", "-f", file, *dry])
        if TOO_LARGE in err:
            return _by_server(module, file, dry)
        if not code:
            return changed(out)
        if time.monotonic() > end or not any(words in err for words in NOT_YET):
            _refused(module, file, err or out)
        time.sleep(2)


def _by_server(module: Any, file: str, dry: list[str]) -> list[str]:
    """The server says of nothing that it is unchanged; its version tells."""
    get = [*KUBECTL, "get", "--ignore-not-found", "-f", file, "-o", "json"]
    before = versions(module.run_command(get)[1])
    force = ["--server-side", "--force-conflicts", "--field-manager", "appliance"]
    code, out, err = module.run_command([*KUBECTL, "apply", *force, "-f", file, *dry])
    if code:
        _refused(module, file, err or out)
    after = versions(module.run_command(get)[1])
    return [f"{name} applied" for name in after if after[name] != before.get(name)]


def _refused(module: Any, file: str, text: str) -> None:
    said = lines_of(text.strip()) or ["no reason given"]
    module.fail_json(msg=f"{file} is not accepted: {said[-1]}")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {"places": {"type": "list", "elements": "path", "required": True}}, supports_check_mode=True
    )
    wanted = files(module.params["places"])
    try:
        for file in wanted:
            guarded(file)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    applied = [line for file in wanted for line in _apply(module, file)]
    module.exit_json(changed=bool(applied), applied=applied)
