#!/usr/bin/python
"""Registers the cluster, its accounts and their users in Slurm's accounting."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Cluster, accounts and users in slurmdbd
description:
  - Reads what is there with two questions and adds what is missing with one command per account.
  - Only adds. Who must lose an account is taken out with sacctmgr, so that no run cuts off a person an administrator
    let in.
options:
  cluster: {description: Name of the cluster., type: str, required: true}
  accounts:
    description: Accounts and the users who may charge them.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Account., type: str, required: true}
      users: {description: Users., type: list, elements: str, default: []}
  wait: {description: Seconds slurmdbd may take to answer after its start., type: int, default: 60}
"""

EXAMPLES = r"""
- name: Service | Register the cluster
  appliance.host.slurm_accounts:
    cluster: appliance
    accounts: [{name: physics, users: [ada]}]
"""

RETURN = r"""
added: {description: "What was added, one line each.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.slurm_accounts import main

if __name__ == "__main__":
    main()
