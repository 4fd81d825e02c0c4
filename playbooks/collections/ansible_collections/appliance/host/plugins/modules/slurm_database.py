#!/usr/bin/python
"""Makes slurmdbd's database and the user that may use it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_database
short_description: Database and database user of slurmdbd
description:
  - Logs in as the user; only where that fails the database, the user, the password and the rights are set, as root
    over the local socket.
  - The password goes to the client through its standard input, never through arguments or logs.
options:
  name: {description: Database., type: str, required: true}
  user: {description: Database user on localhost., type: str, required: true}
  password: {description: Its password., type: str, required: true}
"""

EXAMPLES = r"""
- name: Service | Make the database
  appliance.host.slurm_database:
    name: slurm_acct_db
    user: slurm
    password: "{{ slurm_database_password }}"
"""

RETURN = r"""
name: {description: The database., type: str, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.slurm_database import main

if __name__ == "__main__":
    main()
