"""Runs a program that looks at a host, or that settles what a file says."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import telling_line

SPEC = {
    "argv": {"type": "list", "elements": "str", "required": True},
    "creates": {"type": "str", "default": ""},
    "changes": {"type": "str", "choices": ["never", "always", "output"], "default": "never"},
    "looks": {"type": "bool", "default": False},
    "prints": {"type": "str", "default": ""},
    "lacks": {"type": "str", "default": ""},
    "every_line": {"type": "str", "default": ""},
    "attempts": {"type": "int", "default": 1},
    "delay": {"type": "float", "default": 1.0},
    "fails": {"type": "str", "default": ""},
}


def attempt(module: Any) -> tuple[str, str]:
    """What one run printed, and why that was not good; "" where it was."""
    code, out, err = module.run_command(module.params["argv"], environ_update={"LC_ALL": "C"})
    if code:
        return out, telling_line(err or out) or f"exit status {code}"
    return out, unlike(module.params, out)


def unlike(wanted: dict[str, Any], out: str) -> str:
    """How the output differs from what is wanted of it; "" where it does not."""
    if wanted["prints"] not in out:
        return telling_line(out) or f"no {wanted['prints']} in its output"
    if wanted["lacks"] and re.search(wanted["lacks"], out):
        return telling_line(out)
    line = wanted["every_line"]
    others = [one.strip() for one in lines_of(out) if one.strip() != line]
    if line and (others or not out.strip()):
        return f"{', '.join(others[:3]) or 'nothing'} in place of {line}"
    return ""


def settled(module: Any) -> dict[str, Any]:
    """Runs it until it is good or out of attempts."""
    attempts = 1 if module.check_mode else module.params["attempts"]
    for left in reversed(range(attempts)):
        out, why = attempt(module)
        if not why:
            how = module.params["changes"]
            return {
                "changed": how == "always" or (how == "output" and bool(out.strip())),
                "out": out,
            }
        if left:
            time.sleep(module.params["delay"])
    said = f"{' '.join(module.params['argv'])}: {why}"
    return {
        "failed": True,
        "msg": f"{module.params['fails']}: {said}" if module.params["fails"] else said,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    creates = module.params["creates"]
    if creates and os.path.lexists(creates):
        module.exit_json(changed=False, out="")
    if module.check_mode and not module.params["looks"]:
        module.exit_json(changed=module.params["changes"] == "always", out="")
    result = settled(module)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
