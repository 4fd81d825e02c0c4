#!/usr/bin/python
"""Brings what runs to what the files say: the host's name, tables of the firewall; and says what sshd must go by."""

from __future__ import annotations

DOCUMENTATION = r"""
module: live
short_description: What is in force now, whatever the files say
description:
  - Takes the host's name, and loads tables of the firewall from their files where they are not loaded so.
  - A file that is loaded replaces its table whole and at once; connections that are open stay.
  - Of sshd nothing is changed; the values given are what the host is judged by afterwards.
  - Files of strangers are moved below /var/lib/appliance/purged, and what has read them reads anew.
options:
  strangers: {description: Absolute paths of files that are moved away., type: list, elements: str, default: []}
  hostname: {description: The host's name., type: str, default: ""}
  tables:
    description: Tables of nftables.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Family and name., type: str, required: true}
      file: {description: The file that makes it., type: str, required: true}
  mounts:
    description: File systems of units that are mounted; what a remount forbids or allows otherwise is put right.
    type: list
    elements: dict
    default: []
    suboptions:
      at: {description: Mount point., type: str, required: true}
      what: {description: "Device, directory or NFS path.", type: str, required: true}
      options: {description: Options of the unit; bind takes over what its source forbids., type: str, default: ""}
  sshd: {description: "What sshd must go by, keyword in lower case to value.", type: dict, default: {}}
"""

EXAMPLES = r"""
- name: Service | Load the firewall where somebody changed it
  appliance.host.live:
    tables:
      - name: inet filter
        file: /etc/nftables.d/filter.nft
"""

RETURN = r"""
loaded: {description: Tables that were loaded anew., type: list, returned: always}
resources: {description: "What is managed, as kind, name and what is wanted.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.live import main

if __name__ == "__main__":
    main()
