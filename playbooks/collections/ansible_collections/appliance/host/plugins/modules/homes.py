#!/usr/bin/python
"""Makes homes of people on a file server, where accounts are numbers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: homes
short_description: Homes of people, on the host that serves them
description:
  - A home is a copy of /etc/skel that belongs to the number of its user, closed to others. It is made once; what lies in it is the
    user's, and no later run looks at it.
  - A home that belongs to another number is refused by name. So is a folder of homes that is not root's, for whoever owns it can
    put a home of theirs in the place of another.
options:
  folder: {description: Where homes lie; made as root's where it is not there., type: str, required: true}
  homes:
    description: Homes.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the user., type: str, required: true}
      uid: {description: Number of the user and of the user's group., type: int, required: true}
"""

EXAMPLES = r"""
- name: Configure | Make the homes
  appliance.host.homes:
    folder: /srv/data/home
    homes: [{name: alice, uid: 2001}]
"""

RETURN = r"""
changes: {description: What was made, one path each., type: list, returned: always}
resources: {description: What is managed, as kind and name., type: list, returned: always}
"""

import os
import shutil
import stat

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import about
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

SPEC = {
    "folder": {"required": True},
    "homes": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"required": True}, "uid": {"type": "int", "required": True}},
    },
}
SKELETON = "/etc/skel"
OPEN = stat.S_IWGRP | stat.S_IWOTH


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    folder, changes = module.params["folder"], []
    try:
        changes += _folder(folder, module.check_mode)
        for item in module.params["homes"]:
            changes += _home(folder, item["name"], item["uid"], module.check_mode)
    except Problem as problem:
        module.fail_json(msg=str(problem), changed=bool(changes), changes=changes)
    paths = [folder, *(os.path.join(folder, item["name"]) for item in module.params["homes"])]
    module.exit_json(
        changed=bool(changes),
        changes=changes,
        resources=[{"kind": "directory", "name": path} for path in paths],
    )


def _folder(folder: str, check: bool) -> list[str]:
    found = _found(folder)
    if found is None:
        if not check:
            with about(folder):
                os.makedirs(folder, 0o755)
                os.chmod(folder, 0o755)
        return [folder]
    if found.st_uid != os.geteuid() or found.st_mode & OPEN:
        raise Problem(
            f"{folder}: homes lie only in a folder of root's that others cannot write to; "
            f"look whose it is, then: chown root:root {folder}; chmod 755 {folder}"
        )
    return []


def _home(folder: str, name: str, uid: int, check: bool) -> list[str]:
    home = os.path.join(folder, name)
    found = _found(home)
    if found is not None:
        if found.st_uid != uid:
            raise Problem(
                f"{home}: belongs to number {found.st_uid}, {name} has {uid}; "
                f"give {name} that number in base.users, or: chown -R {uid}:{uid} {home}"
            )
        return []
    if not check:
        with about(home):
            _make(home, uid)
    return [home]


def _make(home: str, uid: int) -> None:
    """Whole or not at all: it comes to its place with all that is in it."""
    new = os.path.join(os.path.dirname(home), f".{os.path.basename(home)}.new")
    shutil.rmtree(new, ignore_errors=True)
    os.mkdir(new, 0o700)
    if os.path.isdir(SKELETON):
        shutil.copytree(SKELETON, new, symlinks=True, dirs_exist_ok=True)
    for place, folders, files in os.walk(new):
        for entry in (*folders, *files):
            os.lchown(os.path.join(place, entry), uid, uid)
    os.chmod(new, 0o700)
    os.lchown(new, uid, uid)
    os.rename(new, home)


def _found(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise Problem(f"{path}: is in the way, a directory is wanted there")
    return found


if __name__ == "__main__":
    main()
