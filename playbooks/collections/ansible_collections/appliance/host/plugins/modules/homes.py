#!/usr/bin/python
"""Makes homes of people on a file server, where accounts are numbers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: homes
short_description: Homes of people, on the host that serves them
description:
  - A home is a copy of /etc/skel that belongs to the number of its user, closed to others. It is made once; what lies in it is the
    user's, and no later run looks at it.
  - A home that belongs to another number is refused by name. So is a folder of homes that is not root's, for whoever owns it can
    put a home of theirs in the place of another.
options:
  folder: {description: Where homes lie; made as root's where it is not there., type: str, required: true}
  homes:
    description: Homes.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the user., type: str, required: true}
      uid: {description: Number of the user and of the user's group., type: int, required: true}
"""

EXAMPLES = r"""
- name: Configure | Make the homes
  appliance.host.homes:
    folder: /srv/data/home
    homes: [{name: alice, uid: 2001}]
"""

RETURN = r"""
changes: {description: "What was made, one path each.", type: list, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.homes import main

if __name__ == "__main__":
    main()
