#!/usr/bin/python
"""Waits until the controller has this host, and takes back a drain that is ours."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
short_description: This host as the controller sees it
description:
  - Waits until slurmd has registered with slurmctld.
  - Resumes the host when it is down or drained for a reason of this program, word for word, or one that slurmctld
    gave itself (not responding, rebooted, fewer resources than configured), and its health check passes.
  - A drain by anybody else is left alone, however its reason begins.
  - A host that somebody else gives work to is drained instead, once its jobs are done.
options:
  name: {description: Name of the host in Slurm., type: str, required: true}
  controller: {description: "Name of the controller, for messages.", type: str, required: true}
  health: {description: Command that must succeed before the host is resumed., type: list, elements: str, required: true}
  slurm_user: {description: User slurmctld runs as., type: str, default: slurm}
  owner: {description: Who gives the host work., type: str, default: slurm}
  wait: {description: Seconds until the host must have registered., type: int, default: 300}
"""

EXAMPLES = r"""
- name: Service | See the host in Slurm
  appliance.host.slurm_node:
    name: gpu-1
    controller: head
    health: [/usr/local/sbin/appliance-watch, look]
"""

RETURN = r"""
state: {description: State of the node., type: str, returned: always}
reason: {description: Why it is down or drained., type: str, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.slurm_node import main

if __name__ == "__main__":
    main()
