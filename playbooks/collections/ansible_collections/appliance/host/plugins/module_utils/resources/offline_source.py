"""Looks whether a part of an offline source is there, and nobody but root can change it."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.guarded import guarded_below
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem


def main() -> None:
    """Run the module."""
    module = AnsibleModule({"path": {"type": "path", "required": True}}, supports_check_mode=True)
    path: str = module.params["path"]
    try:
        if os.path.lexists(path):
            guarded_below(path)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=False, exists=os.path.exists(path), isdir=os.path.isdir(path))
