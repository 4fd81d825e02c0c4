#!/usr/bin/python
"""Makes a control plane with kubeadm, and brings it to a changed configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_control
short_description: The control plane of this host
description:
  - C(make) without a cluster runs C(kubeadm init), again after one that was cut off. Every bootstrap token it makes is deleted.
  - With a cluster whose configuration differs writes the static pods and the stored configuration anew.
  - Waits in every case until the API says that it is ready.
options:
  config: {description: kubeadm's configuration., type: path, required: true}
  make: {description: Whether this host makes the cluster; one that has joined only follows its configuration., type: bool, default: true}
  skip: {description: Phases of init that are left out., type: list, elements: str, default: []}
  wait: {description: Seconds the API may take., type: int, default: 600}
"""

EXAMPLES = r"""
- name: Service | Make the cluster
  appliance.host.kubeadm_control:
    config: /etc/kubernetes/appliance/kubeadm.yml
"""

RETURN = r"""
done: {description: "What was done, made or updated or empty.", type: str, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.kubeadm_control import main

if __name__ == "__main__":
    main()
