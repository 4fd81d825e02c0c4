#!/usr/bin/python
"""Brings systemd units to the wanted state, in the order given."""

from __future__ import annotations

DOCUMENTATION = r"""
module: units
short_description: Units of a role, enabled and started
description:
  - Reloads systemd first when a unit file or drop-in is not, or not as it is now, what it has loaded.
  - A unit that dies at its start, or whose condition is not met, is an error with its last journal line.
  - Where systemd does not run (an image is being made), units are enabled only.
options:
  units:
    description: Units, treated in this order. A name without suffix is a service.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Unit., type: str, required: true}
      enabled: {description: At boot; true unless state is stopped., type: bool}
      state:
        description: Now. One that is kept is nobody's here, and need not be there; it is restarted where it runs and what it watches is newer.
        type: str
        choices: [started, stopped, restarted, reloaded, kept]
        default: started
      masked: {description: Forbidden., type: bool, default: false}
      watches:
        description: Files; a started unit is restarted when one of them is newer than its start, so that a run which was cut
          off between writing and restarting is made good by the next one.
        type: list
        elements: str
        default: []
"""

EXAMPLES = r"""
- name: Service | Run the daemon
  appliance.host.units:
    units:
      - name: daemon
        watches: [/etc/daemon/daemon.conf]
"""

RETURN = r"""
units: {description: What was done per unit., type: dict, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.units import main

if __name__ == "__main__":
    main()
