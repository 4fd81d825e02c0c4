#!/usr/bin/python
"""Applies manifests, of files on the control plane or given as they are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_manifests
short_description: Manifests into the cluster
description:
  - Applies each file, and the files of each folder, by name. Nothing is deleted. A file that others than root can change is refused.
  - What is too large for the annotation kubectl keeps, as definitions of Calico's operator, is applied by the server.
  - A kind whose definition came a moment ago is waited for.
  - In check mode the API server tries them without storing anything. What needs a cluster, a kind or a namespace that does not exist yet
    counts as a change.
options:
  places: {description: Files and folders on this host; a folder may be missing., type: list, elements: path, default: []}
  manifests: {description: Resources that stand in no file., type: list, elements: dict, default: []}
"""

EXAMPLES = r"""
- name: Service | Apply manifests
  appliance.host.kubernetes_manifests:
    places: [/opt/source/manifests]
"""

RETURN = r"""
applied: {description: What changed., type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.kubernetes_manifests import (
    main,
)

if __name__ == "__main__":
    main()
