#!/usr/bin/python
"""Puts a role's files, directories and links in place with one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Files, directories and links of a role, in one call
description:
  - The action plugin renders every template on the controller with the task's variables; the module compares
    content, mode, owner and group and replaces what differs, each file whole and at once.
  - All new files are written beside their places and validated before the first one is put in place.
  - Where a validation fails, every file of the call is as it was before.
  - No content reaches the host's journal or syslog, be it marked secret or not.
  - Missing parent directories are made with mode 0755. A link in the place of a file is replaced by the file.
options:
  files:
    description: Files. Order is directories, links, files as listed.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path on the host., type: str, required: true}
      src:
        description: Template on the controller; templates/<path>.j2 of the role if not given (files/<path> without template).
        type: str
      content: {description: Text instead of a template., type: str}
      content_base64: {description: Bytes instead of a template., type: str}
      template: {description: Render src with Jinja (trim_blocks and lstrip_blocks are on)., type: bool, default: true}
      sha256:
        description: Digest of src, of any bytes, with template false. The action plugin refuses another, and sends no file that the host has.
        type: str
        default: ""
      mode: {description: Octal., type: str, default: "0644"}
      owner: {description: User., type: str, default: root}
      group: {description: Group., type: str, default: root}
      validate:
        description: Command that must succeed. With %s it sees the new file before it is used; without, it runs with the
          file in place, and the old one is put back when it fails.
        type: str
        default: ""
      secret: {description: Keep content out of diffs and of a validation's reason., type: bool, default: false}
      state: {description: Presence., type: str, choices: [file, absent], default: file}
      ours: {description: "Absent, only where its first line says that it is managed by appliance.", type: bool, default: false}
  directories:
    description: Directories.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: str, required: true}
      mode: {description: Octal., type: str, default: "0755"}
      owner: {description: User., type: str, default: root}
      group: {description: Group., type: str, default: root}
  keywords:
    description:
      - Lines of files that are somebody else's, each a keyword, blanks and a value, as in login.defs(5). A line that says otherwise is kept as a
        remark before ours, and comes back when the keyword is no longer given; what nobody gave here is never touched.
      - A file that is not there is an error only where a keyword is wanted of it.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: str, required: true}
      values: {description: Keyword to value., type: dict, default: {}}
  links:
    description: Symbolic links.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path of the link., type: str, required: true}
      target: {description: What it points to., type: str, required: true}
  rehearse:
    description: Whether check mode validates new files. M(appliance.host.apply) does not, where packages or accounts that a validation may
      need would only be there without check mode.
    type: bool
    default: true
  contents:
    description: JSON of path to base64, made by the action plugin; src, content, content_base64 and template end there.
    type: str
    default: "{}"
"""

EXAMPLES = r"""
- name: Configure | Put the daemon's files in place
  appliance.host.files:
    directories:
      - path: /etc/daemon
        mode: "0750"
    files:
      - path: /etc/daemon/daemon.conf
        validate: daemon --check %s
      - path: /etc/daemon/key
        content: "{{ daemon_key }}"
        mode: "0400"
        secret: true
"""

RETURN = r"""
changed_paths: {description: What was changed., type: list, returned: always}
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.files import main

if __name__ == "__main__":
    main()
