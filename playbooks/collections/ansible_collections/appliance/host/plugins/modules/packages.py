#!/usr/bin/python
"""Brings packages to the wanted presence and version with apt-get or dnf."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Packages of a role, in one transaction
description:
  - One query decides whether anything is to do. An interrupted dpkg is finished first.
  - The package lists are fetched only when they are missing or a package cannot be found.
  - Waits up to 300 s for another package manager. Recommended packages are not installed; changed
    configuration files are kept. A package on hold stays on hold, a pin may change its version.
options:
  present: {description: Names; a virtual name is met by any installed provider., type: list, elements: str, default: []}
  absent: {description: Names., type: list, elements: str, default: []}
  purge: {description: Configuration files of O(absent) go with them., type: bool, default: false}
  pins:
    description:
      - Name to the version that is to be restored. Of what is held, here or by O(releases), exactly that one, be it older; of all else
        that or a newer one, whatever is on offer.
    type: dict
    default: {}
  releases:
    description:
      - Name to the release, as 1.35 or 1.35.4. A version of it that is installed stays, else the newest one on offer is
        installed. Held against upgrades by anybody else; with dnf the file of the repository does that. A pin comes before it.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Install | Install the packages
  appliance.host.packages:
    present: "{{ __daemon_packages }}"
    pins: "{{ appliance_repair_pins | default({}) }}"
    releases: {daemon: "2.3"}
"""

RETURN = r"""
versions: {description: Installed versions by package name., type: dict, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.packages import main

if __name__ == "__main__":
    main()
