#!/usr/bin/python
"""Brings the NVIDIA driver of this host to a release: installed, loaded, answering; or back to the one before."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_driver
short_description: The NVIDIA driver in one release, changed on a running host
description:
  - All parts of the driver are kept in one and the same version, held against other upgrades. An installed version of the wanted
    release stays; a newer one of the same branch is not taken by itself.
  - Where a driver is loaded, the services that use it are stopped, the modules unloaded, the packages changed and the modules loaded.
    A process that has a GPU open ends the change before anything is touched. Whoever calls has drained the host.
  - When the new driver does not load, or fewer GPUs answer than before, the version before is put back.
  - A run that was cut off is taken up where it stopped.
  - Where the modules do not go, or nouveau does not, RV(reboot) is true. Reboot and call again then.
options:
  packages: {description: 'Names, as alternatives separated by "|"; all come in the driver''s version.', type: list, elements: str, required: true}
  release: {description: "Branch or version, as 580 or 580.95.05.", type: str, required: true}
  pins: {description: "Name to exact version that is restored: that build, else an available one of the same release.", type: dict, default: {}}
  source: {description: "File of the package source, whose lists alone are fetched; all where it is empty.", type: str, default: ""}
  clients: {description: "Units that use the driver, in the order in which they start; those there are.", type: list, elements: str, default: []}
  container: {description: The kernel is not this host's own; secure boot and nouveau are not looked at., type: bool, default: false}
"""

EXAMPLES = r"""
- name: Install | Bring the driver to its release
  appliance.host.gpu_driver:
    packages: [nvidia-kernel-open-dkms, nvidia-driver-cuda]
    release: "580"
"""

RETURN = r"""
version: {description: The driver's version., type: str, returned: always}
before: {description: The version that was loaded before., type: str, returned: always}
reboot: {description: Whether the host must be rebooted for the driver to load., type: bool, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.gpu_driver import main

if __name__ == "__main__":
    main()
