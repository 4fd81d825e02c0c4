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
  needs: {description: What must be there., type: str, choices: ["", file, folder], default: ""}
  missing: {description: What is said where it is not., type: str, default: ""}
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

from ansible_collections.appliance.host.plugins.module_utils.resources.offline_source import main

if __name__ == "__main__":
    main()
