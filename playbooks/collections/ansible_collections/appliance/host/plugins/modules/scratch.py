#!/usr/bin/python
"""Makes one file system of blank disks, and refuses disks that hold anything else."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch
short_description: One XFS on one disk, or on an array (RAID 0) of several
description:
  - The devices are judged before anything is made. A device is missing, named twice, holds what is not of this label, or is blank while
    another one is not; each of these is an error that names the device.
  - Links such as those of /dev/disk/by-id are followed. Signatures are read from the devices themselves.
  - All blank, they become the file system. An array of this label without a file system gets one. Nothing is ever overwritten.
options:
  state: {description: V(judged) makes nothing., type: str, choices: [judged, present], default: present}
  devices: {description: Paths of the disks., type: list, elements: str, required: true}
  label: {description: Label of the file system and name of the array; XFS allows 12 characters., type: str, required: true}
"""

EXAMPLES = r"""
- name: Configure | Make the file system for scratch
  appliance.host.scratch:
    devices: [/dev/disk/by-id/nvme-A, /dev/disk/by-id/nvme-B]
    label: app-scratch
"""

RETURN = r"""
blank: {description: Devices that were blank., type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.scratch import main

if __name__ == "__main__":
    main()
