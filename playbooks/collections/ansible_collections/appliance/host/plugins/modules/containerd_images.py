#!/usr/bin/python
"""Imports image archives that lie on the host, for sites without a registry, and keeps them from kubelet's garbage collection."""

from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_images
short_description: Image archives into containerd
description:
  - Imports each archive (*.tar) of the folders that holds an image whose name containerd does not know.
  - The digest beside an archive (archive.tar.sha256) is compared first; an archive that differs or has none is refused,
    and one that others than root can change.
  - Labels these images as pinned, and lists them in /var/lib/appliance/kubernetes/images.json.
options:
  folders: {description: Folders on the host., type: list, elements: path, required: true}
  spared: {description: "Images that this host does not need, by the last part of their repositories.", type: list, elements: str, default: []}
  namespace: {description: Of containerd., type: str, default: k8s.io}
"""

EXAMPLES = r"""
- name: Service | Import images
  appliance.host.containerd_images:
    folders: [/opt/source/images/hosts]
"""

RETURN = r"""
imported: {description: Archives that were imported., type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.containerd_images import main

if __name__ == "__main__":
    main()
