"""Runs a program that looks at a host, or that settles what a file says."""

from __future__ import annotations

import re
import time
from glob import glob
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
    "lines": {"type": "list", "elements": "str", "default": []},
    "lists": {"type": "list", "elements": "str", "default": []},
    "unlisted": {"type": "str", "default": "it does not list %s"},
    "tolerates": {"type": "str", "default": ""},
    "attempts": {"type": "int", "default": 1},
    "delay": {"type": "float", "default": 1.0},
    "fails": {"type": "str", "default": ""},
}


def unlike(wanted: dict[str, Any], out: str) -> str:
    """How the output differs from what is wanted of it; "" where it does not."""
    if not re.search(wanted["prints"], out):
        return telling_line(out) or f"no {wanted['prints']} in its output"
    if wanted["lacks"] and (found := re.search(wanted["lacks"], out)):
        return telling_line(out) or f"{found[0]!r} in its output"
    line = wanted["every_line"]
    others = [one.strip() for one in lines_of(out) if one.strip() != line]
    if line and (others or not out.strip()):
        return f"{', '.join(others[:3]) or 'nothing'} in place of {line}"
    return ""


def complaint(given: dict[str, Any], code: int, out: str, err: str) -> str:
    """What is said of one run; "" where it was good, or failed by a reason that is tolerated."""
    if code and given["tolerates"] and re.search(given["tolerates"], err):
        return ""
    printed = lines_of(out)
    missing = [line for line in given["lists"] if line not in printed]
    if missing and not code:
        return str(given["unlisted"]).replace("%s", ", ".join(missing))
    if given["lines"] and printed != given["lines"]:
        why = err.strip() or f"prints {', '.join(printed) or 'nothing'}"
    elif code:
        why = telling_line(err or out) or f"exit status {code}"
    else:
        why = unlike(given, out)
    said = f"{' '.join(given['argv'])}: {why}"
    return "" if not why else f"{given['fails']}: {said}" if given["fails"] else said


def settled(module: Any) -> dict[str, Any]:
    """Runs it until it is good or out of attempts."""
    given = module.params
    attempts = 1 if module.check_mode else given["attempts"]
    for left in reversed(range(attempts)):
        code, out, err = module.run_command(given["argv"], environ_update={"LC_ALL": "C"})
        why = complaint(given, code, out, err)
        if not why:
            printed = given["changes"] == "output" and bool(out.strip())
            return {"changed": given["changes"] == "always" or printed, "out": out}
        if left:
            time.sleep(given["delay"])
    return {"failed": True, "msg": why}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    creates = module.params["creates"]
    if creates and glob(creates):
        module.exit_json(changed=False, out="")
    if module.check_mode and not module.params["looks"]:
        module.exit_json(changed=module.params["changes"] == "always", out="")
    result = settled(module)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
