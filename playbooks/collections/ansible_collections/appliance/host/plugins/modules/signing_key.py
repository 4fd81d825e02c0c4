#!/usr/bin/python
"""Puts a repository's signing key in place, if it is the one that was named."""

from __future__ import annotations

DOCUMENTATION = r"""
module: signing_key
short_description: A repository's OpenPGP key, accepted by its fingerprint only
description:
  - Fetches the key where the file is not there or is another one; nothing is written unless its fingerprint is the one given.
  - Fetches it again where it expires within 30 days. A maker gives the same key a longer life, and apt refuses what is signed
    by a copy that does not know.
  - Keeps nothing of what was fetched but this one key, its user ids and its subkeys with the signatures it made itself. A second
    key, a secret one and anything beside the key are refused; a kept file with more than the key is written anew.
options:
  url: {description: Where the key is., type: str, required: true}
  fingerprint: {description: Forty hexadecimal digits., type: str, required: true}
  path: {description: Where it is kept., type: path, required: true}
"""

EXAMPLES = r"""
- name: Install | Trust the repository's key
  appliance.host.signing_key:
    url: https://mirror.example/nvidia/3bf863cc.pub
    fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
    path: /usr/share/keyrings/appliance-nvidia.asc
"""

RETURN = r"""
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.signing_key import main

if __name__ == "__main__":
    main()
