"""Looks whether a part of an offline source is there, and nobody but root can change it."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.guarded import guarded_below
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

SPEC = {
    "path": {"type": "path", "required": True},
    "needs": {"default": "", "choices": ["", "file", "folder"]},
    "missing": {"default": ""},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    path: str = module.params["path"]
    there = {"": True, "file": os.path.isfile(path), "folder": os.path.isdir(path)}
    try:
        if os.path.lexists(path):
            guarded_below(path)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    if not there[module.params["needs"]]:
        module.fail_json(msg=module.params["missing"] or f"there is no {path} on this host")
    module.exit_json(changed=False, exists=os.path.exists(path), isdir=os.path.isdir(path))
