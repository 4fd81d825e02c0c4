#!/usr/bin/python
"""Keeps the pods of kubeadm's CoreDNS on different hosts; runs on a control plane."""

from __future__ import annotations

DOCUMENTATION = r"""
module: coredns
short_description: Where the pods of kubeadm's CoreDNS run
description:
  - Requires a host of its own for each pod, and adds a PodDisruptionBudget that lets one pod go at a time.
  - A change of the template replaces the pods one after the other. kubeadm writes its own template at each upgrade.
  - A cluster without a Deployment of this name is left as it is.
options:
  spread: {description: Whether at least two hosts can take the pods., type: bool, required: true}
"""

EXAMPLES = r"""
- name: Service | Keep the name server on two hosts
  appliance.host.coredns:
    spread: true
"""

RETURN = r"""
changed: {description: Whether the Deployment or its budget was changed., type: bool, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.coredns import main

if __name__ == "__main__":
    main()
