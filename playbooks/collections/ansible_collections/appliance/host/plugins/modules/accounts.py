#!/usr/bin/python
"""Makes groups and users, and sets the SSH keys of users."""

from __future__ import annotations

DOCUMENTATION = r"""
module: accounts
short_description: Groups and users of a role
description:
  - Users are in the groups named and in no others; with no I(group) of theirs the primary one is that of their own name.
  - The keys given become the whole of ~/.ssh/authorized_keys, so that a key taken from the list is revoked; those of I(keys_apart)
    become a file of root's in I(keys_in), for a home on a file server may not be there, and is not root's to write.
  - In a home all is done with the rights of its user. What stands in the place of ~/.ssh and is no folder of the user's own is renamed.
options:
  groups:
    description: Groups, made before the users.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      gid: {description: Number., type: int}
      system: {description: Take a system number., type: bool, default: false}
  users:
    description: Users.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name., type: str, required: true}
      uid: {description: Number., type: int}
      group: {description: Primary group; one of the user's name otherwise., type: str}
      groups: {description: Further groups., type: list, elements: str, default: []}
      shell: {description: "/bin/bash, or nologin for system users.", type: str}
      home: {description: Directory; made unless the user is a system user., type: str}
      make_home: {description: "Make the home, where the user is new.", type: bool, default: true}
      system: {description: "Take a system number, make no home.", type: bool, default: false}
      keys: {description: OpenSSH public keys., type: list, elements: str, default: []}
      keys_apart: {description: "Write them into I(keys_in), and leave the home alone.", type: bool, default: false}
      locked_password: {description: No password opens the account., type: bool, default: true}
      state: {description: An absent user's files remain., type: str, choices: [present, absent], default: present}
  only_in:
    description: Groups of nobody but users given for them; who was in one and is no longer given at all loses keys and shell, and the account expires.
    type: list
    elements: str
    default: []
  deploys_as:
    description: The account that this is run by; what would take its login, or all keys it has now, is refused.
    type: str
    default: ""
  keys_in:
    description: Folder sshd reads keys from, one file for each user, as AuthorizedKeysFile names it.
    type: str
    default: /etc/ssh/authorized_keys.d
"""

EXAMPLES = r"""
- name: Configure | Make the people's accounts
  appliance.host.accounts:
    groups: [{name: operators}]
    users: [{name: ada, groups: [operators], keys: ["ssh-ed25519 AAAA ada"]}]
    only_in: [operators]
"""

RETURN = r"""
changes: {description: "What was changed, one line each.", type: list, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.accounts import main

if __name__ == "__main__":
    main()
