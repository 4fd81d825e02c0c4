"""Divides the GPUs of a host as declared, with the program that also does it at boot."""

from __future__ import annotations

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

GOOD = frozenset({"unchanged", "changed"})


def parse(said: str) -> list[dict[str, Any]]:
    """The program's answer by GPU, nothing where there is none."""
    try:
        gpus = json.loads(said)
    except ValueError:
        return []
    return gpus if isinstance(gpus, list) else []


def trouble(gpus: list[dict[str, Any]]) -> str:
    """What is not as declared, in one line: GPUs with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu["state"] not in GOOD:
            reasons.setdefault(f"{gpu['state']}: {gpu['why']}", []).append(str(gpu["gpu"]))
    return "; ".join(f"GPU {', '.join(names)} {why}" for why, names in reasons.items())


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {"program": {"type": "path", "required": True}, "file": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    program, file = module.params["program"], module.params["file"]
    if module.check_mode and not module.get_bin_path(program):
        module.exit_json(changed=True, gpus=[])
    verb = "plan" if module.check_mode else "apply"
    code, out, err = module.run_command([program, verb, "--json", "--file", file])
    gpus = parse(out)
    if code and not module.check_mode:
        said = lines_of((err or out).strip()) or [f"appliance-mig ended with {code}"]
        module.fail_json(msg=trouble(gpus) or said[-1], gpus=gpus)
    module.exit_json(changed=any(gpu["state"] != "unchanged" for gpu in gpus), gpus=gpus)
