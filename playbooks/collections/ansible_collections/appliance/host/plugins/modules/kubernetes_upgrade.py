#!/usr/bin/python
"""Brings kubeadm, this host's part of the cluster and kubelet to the next release; or back to the one before."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_upgrade
short_description: One host of a cluster, from one release to the next
description:
  - C(begun) makes sure that both releases are to be had, that this host's turn has come, and writes down the way back. On the
    first control plane it saves etcd.
  - C(upgraded) installs kubeadm, upgrades the control plane or this host's part of it, and then kubelet with its configuration.
    When that fails, packages and configuration are put back, and kubelet runs as before.
  - A run that was cut off is taken up where it stopped; one that is still at work is waited for. Whoever calls has drained the host.
options:
  state: {description: How far., type: str, choices: [begun, upgraded], required: true}
  release: {description: As 1.35 or 1.35.2., type: str, required: true}
  node: {description: Name of the host., type: str, required: true}
  control: {description: Whether it carries a control plane., type: bool, default: false}
  first: {description: Whether its control plane is the first., type: bool, default: false}
  apis: {description: Addresses of all control planes., type: list, elements: str, required: true}
  settings: {description: kubelet's configuration file., type: path, required: true}
  content: {description: What stands in it from now on., type: str, required: true}
  backup: {description: Where etcd is saved (at) and how often (keep)., type: dict, default: {}}
  ignore: {description: What kubeadm's preflight may complain of., type: list, elements: str, default: []}
  skip: {description: Phases of kubeadm's upgrade that are left out., type: list, elements: str, default: []}
  wait: {description: Seconds until the host is ready., type: int, default: 600}
"""

EXAMPLES = r"""
- name: Install | Upgrade
  appliance.host.kubernetes_upgrade:
    state: upgraded
    release: "1.35"
    node: gpu-1
    apis: [10.0.0.1]
    settings: /etc/kubernetes/appliance/kubelet.yml
    content: "{}"
"""

RETURN = r"""
tells: {description: What whoever watches should know., type: str, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.kubernetes_upgrade import (
    main,
)

if __name__ == "__main__":
    main()
