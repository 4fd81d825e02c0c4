"""Applies manifests, of files on the control plane or given as they are."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.guarded import guarded
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

ADMIN = "/etc/kubernetes/admin.conf"
KUBECTL = ("kubectl", "--kubeconfig", ADMIN, "--request-timeout", "60s")
GIVEN = "-"
"""kubectl's word for its standard input."""

TOO_LARGE = "metadata.annotations: Too long"
NOT_YET = ("no matches for kind", "could not find the requested resource")
"""What kubectl says of a kind the API server does not serve, or not yet."""
MISSING = (*NOT_YET, "(NotFound)")
"""What a dry run lacks: what an earlier entry would have made, had it not been a dry run, too."""
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


def _apply(module: Any, file: str, data: str | None = None) -> list[str]:
    dry = ["--dry-run=server"] if module.check_mode else []
    end = time.monotonic() + (0 if module.check_mode else PATIENCE)
    while True:
        code, out, err = module.run_command([*KUBECTL, "apply", "-f", file, *dry], data=data)
        if TOO_LARGE in err:
            return _by_server(module, file, dry, data)
        if not code:
            return changed(out)
        if module.check_mode and any(words in err for words in MISSING):
            return [f"{_named(file)} would be applied"]
        if time.monotonic() > end or not any(words in err for words in NOT_YET):
            _refused(module, file, err or out)
        time.sleep(2)


def _by_server(module: Any, file: str, dry: list[str], data: str | None = None) -> list[str]:
    """The server says of nothing that it is unchanged; its version tells."""
    get = [*KUBECTL, "get", "--ignore-not-found", "-f", file, "-o", "json"]
    before = versions(module.run_command(get, data=data)[1])
    force = ["--server-side", "--force-conflicts", "--field-manager", "appliance"]
    code, out, err = module.run_command([*KUBECTL, "apply", *force, "-f", file, *dry], data=data)
    if code:
        _refused(module, file, err or out)
    after = versions(module.run_command(get, data=data)[1])
    return [f"{name} applied" for name in after if after[name] != before.get(name)]


def _named(file: str) -> str:
    return "a manifest of the role" if file == GIVEN else file


def _refused(module: Any, file: str, text: str) -> None:
    said = lines_of(text.strip()) or ["no reason given"]
    module.fail_json(msg=f"{_named(file)} is not accepted: {said[-1]}")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "places": {"type": "list", "elements": "path", "default": []},
            "manifests": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    given, wanted = module.params["manifests"], files(module.params["places"])
    try:
        for file in wanted:
            guarded(file)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    if module.check_mode and not os.path.exists(ADMIN):
        names = [*wanted, *([GIVEN] if given else [])]
        module.exit_json(changed=bool(names), applied=list(map(_named, names)))
    applied = [line for file in wanted for line in _apply(module, file)]
    if given:
        whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": given})
        applied += _apply(module, GIVEN, whole)
    module.exit_json(changed=bool(applied), applied=applied)
