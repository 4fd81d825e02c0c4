#!/usr/bin/python
"""Turns swap off and keeps it off."""

from __future__ import annotations

DOCUMENTATION = r"""
module: swap
short_description: No swap, now and after each boot
description:
  - Lines of swap in /etc/fstab become comments that say so; swap.target, the swap units there are and the services that make swap
    of compressed memory are masked; what is in use is turned off. Nothing turns it on again.
options: {}
"""

EXAMPLES = r"""
- name: Configure | Turn swap off for good
  appliance.host.swap:
"""

RETURN = r"""
was: {description: What was swapped to., type: list, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.swap import main

if __name__ == "__main__":
    main()
