#!/usr/bin/python
"""Writes kernel parameters to a file of sysctl.d and sets those that differ."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sysctl
short_description: Kernel parameters of a role, on disk and live
description:
  - Values that differ are set live, then all are written to one file.
  - In a container, keys that belong to the machine's kernel are not touched and left out of the file; so are those of IPv6 where the kernel has none.
options:
  settings: {description: Key to value., type: dict, required: true}
  file: {description: Absolute path below /etc/sysctl.d., type: str, required: true}
"""

EXAMPLES = r"""
- name: Configure | Set kernel parameters
  appliance.host.sysctl:
    settings: {vm.swappiness: 1}
    file: /etc/sysctl.d/60-appliance-example.conf
"""

RETURN = r"""
not_settable: {description: "Keys left out: the machine's in a container, IPv6's without IPv6.", type: list, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.sysctl import main

if __name__ == "__main__":
    main()
