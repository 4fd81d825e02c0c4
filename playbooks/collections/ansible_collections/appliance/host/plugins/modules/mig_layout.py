#!/usr/bin/python
"""Divides the GPUs of a host as declared, with the program that also does it at boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_layout
short_description: GPUs divided as declared
description:
  - Changes only GPUs that differ, each wholly or not at all.
  - A GPU somebody computes on is left alone and is an error that names the processes.
options:
  program: {description: The program appliance-mig on the host., type: path, required: true}
  file: {description: The declared layout on the host., type: path, required: true}
"""

EXAMPLES = r"""
- name: Service | Divide the GPUs
  appliance.host.mig_layout:
    program: /usr/local/sbin/appliance-mig
    file: /etc/appliance/mig.json
"""

RETURN = r"""
gpus: {description: What became of each GPU., type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.mig_layout import main

if __name__ == "__main__":
    main()
