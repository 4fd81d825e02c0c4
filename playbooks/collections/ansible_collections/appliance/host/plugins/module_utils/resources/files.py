"""Puts a role's files, directories and links in place with one call."""

from __future__ import annotations

import base64
import json
import os
import stat
from hashlib import sha256
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    Staged,
    Wanted,
    about,
    attributes_differ,
    differences,
    make_parents,
    mode_of,
    read,
    set_attributes,
    uid_of,
)
from ansible_collections.appliance.host.plugins.module_utils.keywords import settled
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.places import (
    linked,
    open_folder,
    opened,
    removed,
)

OURS = b"# Managed by appliance"
NOT_THERE = (FileNotFoundError, NotADirectoryError)
PLACE = {"owner": {"default": "root"}, "group": {"default": "root"}}
SPEC = {
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"required": True},
            "mode": {"default": "0644"},
            "validate": {"default": ""},
            "sha256": {"default": ""},
            "secret": {"type": "bool", "default": False, "no_log": False},
            "state": {"default": "file", "choices": ["file", "absent"]},
            "ours": {"type": "bool", "default": False},
            **PLACE,
        },
    },
    "directories": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"path": {"required": True}, "mode": {"default": "0755"}, **PLACE},
    },
    "keywords": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"path": {"required": True}, "values": {"type": "dict", "default": {}}},
    },
    "links": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"path": {"required": True}, "target": {"required": True}},
    },
    # Of nested values Ansible's log masks no_log ones by looking for them in the printed argument, which
    # misses whatever repr() writes differently (line ends, quotes); an argument of its own is never printed.
    "contents": {"default": "{}", "no_log": True},
    "rehearse": {"type": "bool", "default": True},
}


class Tree:
    """What one call found, changed and manages."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.check = module.check_mode
        self.contents: dict[str, str] = json.loads(module.params["contents"])
        self.changed: list[str] = []
        self.done: list[str] = []
        self.resources: list[dict[str, Any]] = []
        self.diffs: list[dict[str, str]] = []
        self.staged: list[Staged] = []

    def directory(self, item: dict[str, Any]) -> None:
        """Make a directory or correct its attributes."""
        path = item["path"]
        wanted = (mode_of(item["mode"], path), item["owner"], item["group"])
        self.resources.append({"kind": "directory", "name": path})
        owner = uid_of(item["owner"], path, self.check)
        differences = self._unlike(path, wanted, owner)
        if not differences:
            return
        self._note(path, "", "", differences)
        if not self.check:
            with about(path), open_folder(path, make=True, owner=owner) as at, opened(at) as handle:
                set_attributes(handle, *wanted, path=path)
            self.done.append(path)

    def _unlike(self, path: str, wanted: tuple[int, str, str], owner: int | None) -> list[str]:
        try:
            with about(path, *NOT_THERE), open_folder(path, owner=owner) as at:
                return differences(os.fstat(at), path, *wanted, check=self.check)
        except NotADirectoryError:
            raise Problem(f"{path}: is in the way, a directory is wanted there") from None
        except FileNotFoundError:
            return ["absent -> directory"]

    def link(self, item: dict[str, str]) -> None:
        """Point a link at its target, replacing a file in its place."""
        path, target = item["path"], item["target"]
        self.resources.append({"kind": "link", "name": path, "wanted": {"target": target}})
        if os.path.islink(path) and os.readlink(path) == target:
            return
        if os.path.isdir(path) and not os.path.islink(path):
            raise Problem(f"{path}: is a directory, a link is wanted there")
        self._note(path, "", f"-> {target}\n", [])
        if not self.check:
            parent, name = os.path.split(path)
            with about(path), open_folder(parent, make=True) as at:
                linked(name, at, target)
            self.done.append(path)

    def absent(self, item: dict[str, Any]) -> None:
        """Remove a file or link."""
        path = item["path"]
        if not os.path.lexists(path):
            return
        if os.path.isdir(path) and not os.path.islink(path):
            raise Problem(f"{path}: is a directory, only files are removed")
        if item["ours"] and not (read(path) or b"").startswith(OURS):
            return
        before = "" if item["secret"] else _text(read(path) or b"")
        self._note(path, before, "", ["file -> absent"])
        if not self.check:
            parent, name = os.path.split(path)
            with about(path), open_folder(parent) as at:
                removed(name, at)
            self.done.append(path)

    def stage(self, item: dict[str, Any]) -> None:
        """Compare a file and, when it differs, write and validate its replacement."""
        wanted = _wanted(item, self.contents)
        self.resources.append({"kind": "file", "name": wanted.path, "wanted": _fields(wanted)})
        old = read(wanted.path)
        if old is None and os.path.isdir(wanted.path) and not os.path.islink(wanted.path):
            raise Problem(f"{wanted.path}: is a directory, a file is wanted there")
        attributes = (wanted.mode, wanted.owner, wanted.group)
        differences = (
            ["absent -> file"]
            if old is None
            else attributes_differ(wanted.path, *attributes, check=self.check)
        )
        if old == wanted.data and not differences:
            return
        if wanted.secret:
            self._note(wanted.path, "", "", [*differences, "content is secret"])
        else:
            self._note(wanted.path, _text(old or b""), _text(wanted.data), differences)
        if self.check:
            if self.module.params["rehearse"]:
                self._rehearse(wanted)
        else:
            make_parents(wanted.path)
            self.staged.append(Staged(self.module, wanted))
            self.staged[-1].validate()

    def keywords(self, item: dict[str, Any]) -> None:
        """Stage a file of somebody else's whose keywords are not as wanted; its mode and owner stay."""
        path = item["path"]
        values = {word: str(value) for word, value in item["values"].items()}
        old = read(path)
        if old is None:
            if values:
                raise Problem(f"{path}: is not there, and {', '.join(values)} is to be set in it")
            return
        for word, value in values.items():
            wanted = {"value": value}
            self.resources.append({"kind": "keyword", "name": f"{path} {word}", "wanted": wanted})
        before = old.decode("utf-8", "surrogateescape")
        after = settled(before, values)
        if after == before:
            return
        self._note(path, _text(old), after, [])
        if not self.check:
            now = os.lstat(path)
            data = after.encode("utf-8", "surrogateescape")
            place = (stat.S_IMODE(now.st_mode), str(now.st_uid), str(now.st_gid))
            self.staged.append(Staged(self.module, Wanted(path, data, *place)))

    def commit(self) -> None:
        """Put every staged file in its place, or none: daemons read several together."""
        revocable = any(staged.is_judged_in_place for staged in self.staged)
        try:
            for staged in self.staged:
                staged.commit(revocable)
        except Problem:
            for staged in reversed(self.staged):
                staged.undo()
            raise
        self.done += [staged.wanted.path for staged in self.staged]
        for staged in self.staged:
            staged.settle()

    def discard(self) -> None:
        """Leave nothing behind of files that never came to their place."""
        for staged in self.staged:
            staged.discard()

    def _rehearse(self, wanted: Wanted) -> None:
        words = wanted.validate.split()
        # env(1) is everywhere; what it starts may be yet to be installed.
        program = next((word for word in words if word != "env" and "=" not in word), "")
        if "%s" in wanted.validate and self.module.get_bin_path(program):
            staged = Staged(self.module, wanted, folder=self.module.tmpdir)
            try:
                staged.validate()
            finally:
                staged.discard()

    def _note(self, path: str, before: str, after: str, differences: list[str]) -> None:
        self.changed.append(path)
        about_it = f"{path} ({', '.join(differences)})" if differences else path
        self.diffs.append(
            {"before_header": path, "after_header": about_it, "before": before, "after": after}
        )


def _text(data: bytes) -> str:
    return f"{len(data)} bytes\n" if b"\0" in data else data.decode("utf-8", "replace")


def _wanted(item: dict[str, Any], contents: dict[str, str]) -> Wanted:
    path = item["path"]
    return Wanted(
        path=path,
        data=_content(path, contents, item["sha256"]),
        mode=mode_of(item["mode"], path),
        owner=item["owner"],
        group=item["group"],
        validate=item["validate"],
        secret=item["secret"],
    )


def _content(path: str, contents: dict[str, str], pinned: str) -> bytes:
    """What came from the controller; it sends no pinned file that is there already."""
    there = read(path) if pinned and path not in contents else None
    if there is not None and sha256(there).hexdigest() == pinned:
        return there
    if path not in contents:
        raise Problem(f"{path}: no content came from the controller")
    return base64.b64decode(contents[path])


def _fields(wanted: Wanted) -> dict[str, str]:
    """The fields of a file's state that the caller decides; no digest of what is secret leaves the host."""
    fields = {
        "mode": format(wanted.mode, "04o"),
        **{
            key: name
            for key, name in (("owner", wanted.owner), ("group", wanted.group))
            if not name.isdigit()
        },
    }
    return fields if wanted.secret else {**fields, "sha256": sha256(wanted.data).hexdigest()}


def _apply(tree: Tree, parameters: dict[str, Any]) -> None:
    for kind in ("directories", "links", "files", "keywords"):
        for item in parameters[kind]:
            if not item["path"].startswith("/"):
                raise Problem(f"{item['path']}: the path must be absolute")
    for item in parameters["directories"]:
        tree.directory(item)
    for item in parameters["links"]:
        tree.link(item)
    for item in parameters["files"]:
        tree.absent(item) if item["state"] == "absent" else tree.stage(item)
    for item in parameters["keywords"]:
        tree.keywords(item)
    tree.commit()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    os.umask(stat.S_IWGRP | stat.S_IWOTH)
    tree = Tree(module)
    result: dict[str, Any] = {"invocation": {}}
    try:
        _apply(tree, module.params)
    except Problem as problem:
        module.fail_json(
            msg=str(problem), changed=bool(tree.done), changed_paths=tree.done, **result
        )
    finally:
        tree.discard()
    if module._diff:
        result["diff"] = tree.diffs
    module.exit_json(
        changed=bool(tree.changed), changed_paths=tree.changed, resources=tree.resources, **result
    )
