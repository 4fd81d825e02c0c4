"""Makes homes of people on a file server, where accounts are numbers."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import contextmanager
from typing import Any, Iterator

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import about
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.places import (
    inside,
    is_closed,
    open_folder,
    opened,
    status,
)

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


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    folder = module.params["folder"]
    changes: list[str] = []
    try:
        with _folder(folder, module.check_mode, changes) as at:
            for item in module.params["homes"]:
                _home(folder, at, item, module.check_mode, changes)
    except Problem as problem:
        module.fail_json(msg=str(problem), changed=bool(changes), changes=changes)
    homes = [os.path.join(folder, item["name"]) for item in module.params["homes"]]
    resources = [{"kind": "directory", "name": folder}]
    resources += [{"kind": "home", "name": home} for home in homes]
    module.exit_json(changed=bool(changes), changes=changes, resources=resources)


@contextmanager
def _folder(folder: str, check: bool, changes: list[str]) -> Iterator[int | None]:
    """The folder itself, whatever becomes of its name; None where it is yet to be made."""
    try:
        with about(folder, FileNotFoundError), open_folder(folder):
            pass
    except FileNotFoundError:
        changes.append(folder)
        if check:
            yield None
            return
    with about(folder), open_folder(folder, make=True) as at:
        if not is_closed(os.fstat(at)):
            raise Problem(
                f"{folder}: homes lie only in a folder of root's that others cannot write to; "
                f"look whose it is, then: chown root:root {folder}; chmod 755 {folder}"
            )
        yield at


def _home(
    folder: str, at: int | None, item: dict[str, Any], check: bool, changes: list[str]
) -> None:
    home, name, uid = os.path.join(folder, item["name"]), item["name"], item["uid"]
    with about(home):
        found = None if at is None else status(name, at)
        if found is None:
            changes.append(home)
            if at is not None and not check:
                _make(name, uid, at)
            return
    if not stat.S_ISDIR(found.st_mode):
        raise Problem(f"{home}: is in the way, a directory is wanted there")
    if found.st_uid != uid:
        raise Problem(
            f"{home}: belongs to number {found.st_uid}, {name} has {uid}; "
            f"give {name} that number in base.users, or: chown -R {uid}:{uid} {home}"
        )


def _make(name: str, uid: int, at: int) -> None:
    """Whole or not at all: it comes to its place with all that is in it. What a run left that was killed may be the user's already."""
    new = f".{name}.new"
    below = f"/proc/self/fd/{at}/{new}"
    shutil.rmtree(below, ignore_errors=True)
    os.mkdir(new, 0o700, dir_fd=at)
    if os.path.isdir(SKELETON):
        shutil.copytree(SKELETON, below, symlinks=True, dirs_exist_ok=True)
    for place, folders, files in os.walk(below):
        for entry in (*folders, *files):
            os.lchown(os.path.join(place, entry), uid, uid)
    with inside(new, at) as made, opened(made) as handle:
        os.fchmod(handle, 0o700)
        os.fchown(handle, uid, uid)
    os.rename(new, name, src_dir_fd=at, dst_dir_fd=at)
