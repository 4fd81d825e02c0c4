"""Shared trees as volumes of a project: a PersistentVolume reserved for one claim, that claim, and the members' uids."""

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.kubernetes.exports import readable
from appliance.stages.kubernetes.variables.releases import parsed_release
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.site import Project, Tree

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
RESERVED = "appliance-"
"""How no name of a member's begins (policy appliance-own)."""
PREFIX = f"{RESERVED}tree-"
"""Of a tree's claim."""
NUMBER = "uid.appliance/"
"""Annotation of a project's namespace: the number of a person behind it, the name in Kubernetes as value."""
GROUPS = "gids.appliance/"
"""The same with the numbers of the person's groups, joined by commas."""
OPTIONS = ("nfsvers=4.2", "proto=tcp", "hard", "noatime", "nconnect=8")
"""As the hosts' own mounts; every kernel of a supported system is newer than 5.3, which brought nconnect."""
NOMINAL = "1Gi"
"""A claim and its volume name a size, and NFS keeps none."""
STRICT_RUNTIME, STRICT_MINOR = (2, 0), 33
"""containerd and Kubernetes that know supplementalGroupsPolicy without a feature gate (KEP 3619: beta in 1.33)."""


def claim_of(tree: Tree) -> str:
    """The name a pod mounts it by."""
    return PREFIX + tree.name


def volume_of(space: str, tree: Tree) -> str:
    """Volumes lie in no namespace. A dot parts the names, for neither has one: a-b and c are not a and b-c."""
    return f"{space}.{claim_of(tree)}"


def source_of(site: Site, tree: Tree) -> tuple[str, str]:
    """Server and path, as every host of the cluster mounts it; the server is "" where nothing exports it."""
    path = f"{tree.export}/{tree.path}" if tree.path else tree.export
    return readable(site).get(tree.export, ""), path


def open_to_root(site: Site) -> tuple[str, ...]:
    """Trees on exports of others as PROJECT/CLAIM: only of the site's own it is known that they squash root."""
    own = {export.path for export in site.storage.exports} if site.storage else set()
    projects = site.scheduler.projects if site.scheduler else ()
    return tuple(
        f"{project.name}/{claim_of(tree)}"
        for project in projects
        for tree in project.trees
        if tree.export not in own
    )


def options_of(tree: Tree) -> list[str]:
    """Mount options. Kubelet reads ro only from here and ignores nfs.readOnly of a volume (pkg/volume/nfs, getVolumeSource)."""
    return [*OPTIONS, *(["ro"] if tree.read_only else [])]


def trees(site: Site, project: Project, space: str) -> list[Manifest]:
    """Volume and claim of each of a project's trees."""
    return [made for tree in project.trees for made in _pair(site, space, tree)]


def _pair(site: Site, space: str, tree: Tree) -> list[Manifest]:
    server, path = source_of(site, tree)
    name, claim = volume_of(space, tree), claim_of(tree)
    modes = ["ReadOnlyMany" if tree.read_only else "ReadWriteMany"]
    bound = {"apiVersion": "v1", "kind": CLAIM, "namespace": space, "name": claim}
    volume = {
        "accessModes": modes,
        "capacity": {"storage": NOMINAL},
        "claimRef": bound,
        "mountOptions": options_of(tree),
        "nfs": {"server": server, "path": path},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    asked = {
        "accessModes": modes,
        "resources": {"requests": {"storage": NOMINAL}},
        # Empty and not left out: else the cluster's default class would make a volume of its own.
        "storageClassName": "",
        "volumeName": name,
    }
    return [
        manifest(site.name, "v1", VOLUME, name, {"spec": volume}),
        manifest(site.name, "v1", CLAIM, claim, {"spec": asked}, namespace=space),
    ]


def people(site: Site, project: Project) -> dict[str, str]:
    """Annotations of the namespace of a project with trees: who of base.users may mount them, and under which number.

    Of a project with groups it is everybody with a number: only Kubernetes knows who is in a group.
    """
    if not project.trees:
        return {}
    gids = {group.name: group.gid for group in site.base.groups}
    found: dict[str, str] = {}
    for user in site.base.users:
        name = user.cluster_user or user.name
        if name in project.users or project.groups:
            found[f"{NUMBER}{user.uid}"] = name
            if own := [str(gids[group]) for group in user.groups if group in gids]:
                found[f"{GROUPS}{user.uid}"] = ",".join(own)
    return found


def groups_are_kept(site: Site, profile: Profile) -> bool:
    """Whether kubelet and containerd of this site can exclude the groups of an image's /etc/group. True for an external cluster."""
    own = site.kubernetes
    if own is None or own.external is not None:
        return True
    runtime = own.containerd or site.software.get("containerd") or profile.software.containerd
    release = parsed_release(
        own.version or site.software.get("kubernetes") or profile.software.kubernetes or ""
    )
    if runtime and tuple(int(part) for part in runtime.split(".")[:2]) < STRICT_RUNTIME:
        return False
    return release is None or release.minor >= STRICT_MINOR
