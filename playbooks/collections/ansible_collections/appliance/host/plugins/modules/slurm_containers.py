#!/usr/bin/python
"""Brings enroot and Pyxis to a host from files that are what they are said to be, and takes away what it brought."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_containers
short_description: enroot's packages, and Pyxis built for the Slurm of this host
description:
  - A file whose SHA-256 digest is not the wanted one is an error before anything is changed.
  - Packages are installed where their version differs from the installed one.
  - Pyxis is built again when its source or the release of Slurm has changed, or the plugin is not as it was built.
  - What was brought is noted on the host; O(state=absent) takes away that and nothing else.
options:
  state: {description: Presence., type: str, choices: [present, absent], default: present}
  folder: {description: Where the files lie on the host., type: path, required: true}
  packages: {description: Packages of enroot., type: list, elements: dict, default: [],
    suboptions: {file: {description: Name., type: str, required: true}, sha256: {description: Digest., type: str, required: true}}}
  pyxis: {description: Source archive of Pyxis., type: dict,
    suboptions: {file: {description: Name., type: str, required: true}, sha256: {description: Digest., type: str, required: true}}}
  at: {description: "Folder of images and containers, for the note.", type: str, default: ""}
  owned: {description: Files the role writes for containers; removed with the rest., type: list, elements: str, default: []}
"""

EXAMPLES = r"""
- name: Install | Install enroot and build Pyxis
  appliance.host.slurm_containers:
    folder: /var/lib/appliance/slurm-containers
    packages: [{file: enroot_4.1.2-1_amd64.deb, sha256: "{{ enroot_digest }}"}]
    pyxis: {file: pyxis-0.24.0.tar.gz, sha256: "{{ pyxis_digest }}"}
"""

RETURN = r"""
slurm: {description: Release of Slurm the plugin is for., type: str, returned: when present}
removed: {description: Whether something was taken away., type: bool, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.slurm_containers import main

if __name__ == "__main__":
    main()
