#!/usr/bin/python
"""A node as the cluster sees it: ready, labelled, owned; runs on a control plane."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_node
short_description: Readiness, labels and owner of a node
description:
  - Waits until the node is ready.
  - A host somebody else gives work to carries the taint C(appliance/owner=NAME:NoExecute), which pods of the cluster's own
    services tolerate; a host of Kubernetes carries none.
  - A cordon of this appliance, told by the annotation C(appliance/drained), is taken back; any other is left as it is,
    and that of MIG on demand, which takes it back itself when GPUs are divided.
options:
  name: {description: Node., type: str, required: true}
  labels: {description: Labels it shall have., type: dict, default: {}}
  families: {description: Beginnings of label names of which it shall have no others than those., type: list, elements: str, default: []}
  owner: {description: Who gives it work., type: str, default: kubernetes}
  wait: {description: Seconds it may take to be ready., type: int, default: 600}
"""

EXAMPLES = r"""
- name: Service | See this host ready
  appliance.host.kubernetes_node:
    name: gpu-1
    owner: slurm
"""

RETURN = r"""
waited: {description: Seconds until it was ready., type: int, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.kubernetes_node import main

if __name__ == "__main__":
    main()
