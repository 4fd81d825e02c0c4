"""Imports image archives that lie on the host, for sites without a registry, and keeps them from kubelet's garbage collection."""

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
PIN = "io.cri-containerd.pinned"
"""containerd 1.7 and newer report an image with this label as pinned, and kubelet's garbage collection leaves it."""
LIST = "/var/lib/appliance/kubernetes/images.json"
"""The probe reads which images this host must have."""


def archives(folders: list[str]) -> list[str]:
    """Every archive of the folders, by name."""
    return sorted(
        os.path.join(folder, name)
        for folder in folders
        for name in (os.listdir(folder) if os.path.isdir(folder) else [])
        if name.endswith(".tar")
    )


def wanted_of(paths: list[str], spared: list[str]) -> dict[str, list[str]]:
    """The names in each archive; an archive that holds nothing but ``spared`` images is left out."""
    found = {path: names(path) for path in paths}
    return {
        path: held
        for path, held in found.items()
        if not held or not {repository(name) for name in held} <= set(spared)
    }


def repository(image: str) -> str:
    """The last part of an image's repository: etcd of registry.k8s.io/etcd:3.6.6-0."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def names(archive: str) -> list[str]:
    """What the images of a docker archive are called; empty where it cannot be read, which its digest explains."""
    try:
        with tarfile.open(archive) as opened:
            member = opened.extractfile("manifest.json")
            manifest = json.load(member) if member else []
        return [name for image in manifest for name in image.get("RepoTags") or []]
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError):
        return []


def stated(archive: str) -> str:
    """The digest its source states; empty where it states none."""
    try:
        return stated_sha256(archive)
    except OSError:
        return ""


def store(found: list[str], path: str = LIST) -> bool:
    """Write the list, whole or not at all; whether it differs from the one before."""
    text = json.dumps(found)
    try:
        with open(path) as file:
            if file.read() == text:
                return False
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.replace(f"{path}.new", path)
    return True


def _ctr(module: Any, *words: str) -> str:
    code, out, err = module.run_command([*CTR, "-n", module.params["namespace"], *words])
    if code:
        said = lines_of((err or out).strip()) or ["no reason given"]
        module.fail_json(msg=f"ctr {' '.join(words)}: {said[-1]}")
    return str(out)


def _known(module: Any, *filters: str) -> set[str]:
    return set(_ctr(module, "images", "ls", "-q", *filters).split())


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
            "spared": {"type": "list", "elements": "str", "default": []},
            "namespace": {"default": "k8s.io"},
        },
        supports_check_mode=True,
    )
    paths = archives(module.params["folders"])
    try:
        for archive in paths:
            guarded(archive)
            guarded(archive + ".sha256")
    except Problem as problem:
        module.fail_json(msg=str(problem))
    there = wanted_of(paths, module.params["spared"])
    if not paths and not os.path.exists(LIST):
        module.exit_json(changed=False, imported=[])
    present = _known(module)
    wanted = [path for path, held in there.items() if not held or set(held) - present]
    ours = {name for held in there.values() for name in held}
    unpinned = (ours & present) - _known(module, f'labels."{PIN}"==pinned')
    noted = False
    if not module.check_mode:
        for archive in wanted:
            _import(module, archive)
        after = _known(module) if wanted else present
        for name in sorted(unpinned | ((ours & after) - present)):
            _ctr(module, "images", "label", name, f"{PIN}=pinned")
        noted = store(sorted(ours & after))
    module.exit_json(changed=bool(wanted or unpinned or noted), imported=wanted)
