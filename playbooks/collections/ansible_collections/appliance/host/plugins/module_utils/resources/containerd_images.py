"""Imports image archives that lie on the host, for sites without a registry."""

from __future__ import annotations

import json
import os
import tarfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    sha256,
    stated_sha256,
)
from ansible_collections.appliance.host.plugins.module_utils.guarded import guarded
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

CTR = ("ctr", "--address", "/run/containerd/containerd.sock")


def archives(folders: list[str]) -> list[str]:
    """Every archive of the folders, by name."""
    return sorted(
        os.path.join(folder, name)
        for folder in folders
        for name in (os.listdir(folder) if os.path.isdir(folder) else [])
        if name.endswith(".tar")
    )


def names(archive: str) -> list[str]:
    """What the images of a docker archive are called."""
    with tarfile.open(archive) as opened:
        member = opened.extractfile("manifest.json")
        manifest = json.load(member) if member else []
    return [name for image in manifest for name in image.get("RepoTags") or []]


def lacking(archive: str, present: set[str]) -> bool:
    """Whether an image of it is not there yet; of an archive that cannot be read, its digest tells why."""
    try:
        return bool(set(names(archive)) - present)
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError):
        return True


def stated(archive: str) -> str:
    """The digest its source states; empty where it states none."""
    try:
        return stated_sha256(archive)
    except OSError:
        return ""


def _known(module: Any) -> set[str]:
    code, out, err = module.run_command(
        [*CTR, "-n", module.params["namespace"], "images", "ls", "-q"]
    )
    if code:
        module.fail_json(msg=f"containerd does not list its images: {(err or out).strip()}")
    return set(out.split())


def _import(module: Any, archive: str) -> None:
    # Unpacked by the runtime when a container wants it, with the snapshotter of its own configuration.
    told = stated(archive)
    if told != sha256(archive):
        why = "is not what its .sha256 says" if told else "has no .sha256 beside it"
        module.fail_json(msg=f"{archive} {why}: copy the offline source again")
    code, out, err = module.run_command(
        [*CTR, "-n", module.params["namespace"], "images", "import", "--no-unpack", archive]
    )
    if code:
        said = lines_of((err or out).strip()) or ["no reason given"]
        module.fail_json(msg=f"{archive} cannot be imported: {said[-1]}")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "folders": {"type": "list", "elements": "path", "required": True},
            "namespace": {"default": "k8s.io"},
        },
        supports_check_mode=True,
    )
    there = archives(module.params["folders"])
    try:
        for archive in there:
            guarded(archive)
            guarded(archive + ".sha256")
    except Problem as problem:
        module.fail_json(msg=str(problem))
    present = _known(module)
    wanted = [archive for archive in there if lacking(archive, present)]
    if not module.check_mode:
        for archive in wanted:
            _import(module, archive)
    module.exit_json(changed=bool(wanted), imported=wanted)
