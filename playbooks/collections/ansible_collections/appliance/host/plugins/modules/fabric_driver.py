#!/usr/bin/python
"""Brings the network adapters' driver of this host: the kernel's own, or NVIDIA's DOCA-OFED in a release."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_driver
short_description: DOCA-OFED in one release, or the kernel's own driver
description:
  - An installed version of the wanted release stays, and is held against other upgrades where apt is.
  - A driver that is in use is changed by a reboot, never by unloading it under the connection this module comes through. Whoever calls it
    has freed the host of work. Call again after the reboot.
  - DOCA-OFED that somebody else installed is left alone where the kernel's driver is wanted.
options:
  driver: {description: Which one., type: str, choices: [inbox, doca], required: true}
  release: {description: "Of DOCA, as 3.1 or 3.1.0; only with doca.", type: str, default: ""}
  source: {description: "File of the package source; where it is, DOCA-OFED is this appliance's.", type: path, required: true}
  may_reboot: {description: Somebody has consented to a reboot., type: bool, default: true}
"""

EXAMPLES = r"""
- name: Install | Bring DOCA-OFED
  appliance.host.fabric_driver:
    driver: doca
    release: "3.1"
    source: /etc/apt/sources.list.d/appliance-doca.sources
"""

RETURN = r"""
reboot: {description: Whether the host must be rebooted for the driver to load., type: bool, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.fabric_driver import main

if __name__ == "__main__":
    main()
