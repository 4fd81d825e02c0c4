#!/usr/bin/python
"""Puts a program in place from its maker's archive, if that is the one that was named."""

from __future__ import annotations

DOCUMENTATION = r"""
module: archived_program
short_description: A program from an archive whose digest is pinned
description:
  - Fetches the archive where the program is not there, is from another archive, or was changed since; nothing is written unless the
    archive's SHA-256 is the one given. What it was made from is noted beside it.
options:
  url: {description: "Where the archive is, a tar compressed with gzip.", type: str, required: true}
  sha256: {description: Digest of the archive., type: str, required: true}
  member: {description: The program's path in the archive., type: str, required: true}
  path: {description: Where it is put., type: path, required: true}
"""

EXAMPLES = r"""
- name: Install | Bring Helm
  appliance.host.archived_program:
    url: https://mirror.example/helm-v3.21.4-linux-amd64.tar.gz
    sha256: 61f88ab166748cb19604d7884cb100ae9ccb13804ddeb98e08af167eacbb6a14
    member: linux-amd64/helm
    path: /usr/local/lib/appliance/helm
"""

RETURN = r"""
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.archived_program import main

if __name__ == "__main__":
    main()
