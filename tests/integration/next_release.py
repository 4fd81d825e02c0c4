"""A release of Kubernetes after the rack's own: the same programs, stamped as the next minor release."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab import archives
from appliance.lab.kubernetes_build import OWN_PACKAGES, PLACE, RELEASE
from appliance.lab.spec import RackHost

NEXT = "1.36.4"
COMPONENTS = {
    "control": ("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    "hosts": ("kube-proxy",),
}


def stamped(data: bytes) -> bytes:
    """A program that says it is of the next release; what is replaced is of one length, so nothing moves."""
    assert len(NEXT) == len(RELEASE)
    return data.replace(f"v{RELEASE}".encode(), f"v{NEXT}".encode())


def image(archive: Path, target: Path) -> None:
    """The same image of the next release, under the name kubeadm asks for."""
    with tarfile.open(archive) as opened:
        members = {m.name: opened.extractfile(m) for m in opened.getmembers()}
        data = {name: file.read() for name, file in members.items() if file}
    (entry,) = json.loads(data["manifest.json"])
    layer = stamped(data["layer.tar"])
    config = json.loads(data[entry["Config"]])
    config["rootfs"]["diff_ids"] = [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    text = json.dumps(config, sort_keys=True).encode()
    entry["Config"] = f"{hashlib.sha256(text).hexdigest()}.json"
    (name,) = entry["RepoTags"]
    entry["RepoTags"] = [name.replace(RELEASE, NEXT)]
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


def offered(host: RackHost, place: Path) -> None:
    """Puts the next release beside the first into the offline source of a host."""
    source = host.root / PLACE
    shutil.copytree(place, source, dirs_exist_ok=True)
    (source / "packages/Packages").write_text(archives.package_list(source / "packages"))


def replaced(host: RackHost, folder: Path, program: bytes = b"") -> None:
    """Another kubelet of the next release on a host; without a program the one that works."""
    packages = host.root / PLACE / "packages"
    package(packages / f"kubelet_{RELEASE}-1_amd64.deb", folder, packages, program)
    (packages / "Packages").write_text(archives.package_list(packages))
