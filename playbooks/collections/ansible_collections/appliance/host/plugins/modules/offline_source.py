#!/usr/bin/python
"""Looks whether a part of an offline source is there, and nobody but root can change it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: offline_source
short_description: A part of an offline source, which only root may write
description:
  - Tells whether a file or folder is there. Changes nothing.
  - Fails where somebody else than root can write to it, to anything in it, or to a folder above it. Package managers read such a
    source as root, and trust what lies there.
options:
  path: {description: A file or folder on the host., type: path, required: true}
"""

EXAMPLES = r"""
- name: Preflight | Look at the offline source
  appliance.host.offline_source:
    path: /opt/source/packages
"""

RETURN = r"""
exists: {description: Whether it is there., type: bool, returned: always}
isdir: {description: Whether it is a folder., type: bool, returned: always}
"""

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


if __name__ == "__main__":
    main()
