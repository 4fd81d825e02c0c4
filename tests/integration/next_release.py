"""A release of Kubernetes after the rack's own: the same programs, stamped as the next minor release."""

import hashlib
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab import archives
from appliance.lab.kubernetes_build import OWN_PACKAGES, PLACE, RELEASE
from appliance.lab.spec import RackHost

NEXT = "1.21.2"
PAUSE = ("k8s.gcr.io/pause:3.2", "k8s.gcr.io/pause:3.4.1")
COMPONENTS = {
    "control": ("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    "hosts": ("kube-proxy", "pause"),
}
STAND_INS = {
    # kubeadm asks for images through crictl, which Debian 12 does not package; the offline source has brought them.
    "crictl": "#!/bin/sh\n",
}


def stamped(data: bytes, release: str = NEXT) -> bytes:
    """A program that says it is of a release; what is replaced is of one length, so nothing moves."""
    assert len(release) == len(RELEASE)
    told = f"v{release}+".encode()
    # What the API server tells comes from elsewhere, and Debian's source leaves it without a release.
    bare = re.sub(rb"v0\.0\.0-master\+[0-9a-f]{13}", lambda m: told.ljust(len(m[0]), b"0"), data)
    return bare.replace(f"v{RELEASE}".encode(), f"v{release}".encode())


def image(archive: Path, target: Path, release: str = NEXT) -> None:
    """The same image of a release, under the name kubeadm and containerd ask for."""
    with tarfile.open(archive) as opened:
        members = {m.name: opened.extractfile(m) for m in opened.getmembers()}
        data = {name: file.read() for name, file in members.items() if file}
    (entry,) = json.loads(data["manifest.json"])
    layer = stamped(data["layer.tar"], release)
    config = json.loads(data[entry["Config"]])
    config["rootfs"]["diff_ids"] = [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    text = json.dumps(config, sort_keys=True).encode()
    entry["Config"] = f"{hashlib.sha256(text).hexdigest()}.json"
    (name,) = entry["RepoTags"]
    entry["RepoTags"] = [name.replace(RELEASE, release)]
    if release == NEXT:
        entry["RepoTags"] = [tag.replace(*PAUSE) for tag in entry["RepoTags"]]
    made = {
        "layer.tar": layer,
        entry["Config"]: text,
        "manifest.json": json.dumps([entry]).encode(),
    }
    with tarfile.open(target, "w") as opened:
        for part, content in made.items():
            info = tarfile.TarInfo(part)
            info.size, info.mode = len(content), 0o644
            opened.addfile(info, io.BytesIO(content))
    archives.with_digest(target)


def package(archive: Path, folder: Path, target: Path, program: bytes = b"") -> Path:
    """The same package of the next release; ``program``: what stands in the place of its own."""
    name = archive.name.partition("_")[0]
    root = folder / name
    shutil.rmtree(root, ignore_errors=True)
    run(("dpkg-deb", "--extract", str(archive), str(root)))
    binary = root / "usr/bin" / name
    binary.write_bytes(program or stamped(binary.read_bytes()))
    control = {
        "Package": name,
        "Version": f"{NEXT}-1",
        "Architecture": "amd64",
        "Maintainer": "appliance lab",
        "Description": f"{name} {RELEASE}, stamped as {NEXT} for a virtual rack",
    }
    return archives.package(root, control, target)


def made(source: Path, folder: Path) -> Path:
    """What an offline source has more with the next release."""
    place = folder / "next"
    for name in ("packages", "images/control", "images/hosts"):
        (place / name).mkdir(parents=True)
    for name in OWN_PACKAGES:
        old = source / f"packages/{name}_{RELEASE}-1_amd64.deb"
        package(old, folder, place / "packages")
    for group, names in COMPONENTS.items():
        for name in names:
            file = f"images/{group}/{name}"
            image(source / f"{file}.tar", place / f"{file}-{NEXT}.tar")
    return place


def with_a_release(head: RackHost) -> None:
    """Lets the API server of the rack's own release say which that is."""
    archive = head.root / PLACE / "images/control/kube-apiserver.tar"
    image(archive, archive, RELEASE)


def offered(host: RackHost, place: Path) -> None:
    """Puts the next release beside the first into the offline source of a host."""
    source = host.root / PLACE
    shutil.copytree(place, source, dirs_exist_ok=True)
    (source / "packages/Packages").write_text(archives.package_list(source / "packages"))
    for name, text in STAND_INS.items():
        file = host.root / "usr/local/bin" / name
        file.write_text(text)
        file.chmod(0o755)


def replaced(host: RackHost, folder: Path, program: bytes = b"") -> None:
    """Another kubelet of the next release on a host; without a program the one that works."""
    packages = host.root / PLACE / "packages"
    package(packages / f"kubelet_{RELEASE}-1_amd64.deb", folder, packages, program)
    (packages / "Packages").write_text(archives.package_list(packages))
