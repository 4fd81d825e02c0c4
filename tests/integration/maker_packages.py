"""Packages named, related and laid out as the makers' are, of the real programs, compiled from the makers' own modules."""

from collections.abc import Iterator
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab.deb import PROGRAM, File, Package
from appliance.lab.kubernetes_build import SOURCES, one_build
from appliance.lab.programs import CONTAINERD, KUBERNETES, Module, built
from tests.integration.api_server import CACHE
from tests.integration.maker_repository import CODENAME

LOOK_ALIKE = "holds nothing: a look-alike, which the others depend on"
CONTAINERD_UNIT = """[Unit]
Description=containerd container runtime
After=network.target

[Service]
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNOFILE=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""
DEPENDS = {
    "kubeadm": "cri-tools (>= 1.30.0)",
    "kubelet": "iptables (>= 1.4.21), kubernetes-cni (>= 1.2.0), mount, util-linux",
}
"""As the packages of 1.35 name them."""


def program(module: Module, name: str) -> File:
    """Compiled where the rack's cache lacks it."""
    with one_build(CACHE, lambda _: None):
        return File((built(CACHE, module, lambda _: None) / name).read_bytes(), PROGRAM)


def kubernetes() -> Iterator[Package]:
    """The project's packages of the release the rack compiles, and the two they depend on."""
    for name in ("kubeadm", "kubelet", "kubectl"):
        files = {f"usr/bin/{name}": program(KUBERNETES, name)}
        if name == "kubelet":
            units = "usr/lib/systemd/system"
            for unit in ("kubelet.service", "10-kubeadm.conf"):
                place = f"kubelet.service.d/{unit}" if unit.endswith(".conf") else unit
                files[f"{units}/{place}"] = File((SOURCES / unit).read_bytes())
        relations = {"Depends": DEPENDS[name]} if name in DEPENDS else {}
        version = f"{KUBERNETES.version}-1.1"
        yield Package(name, version, f"{name}, compiled", files, relations=relations)
    yield Package("cri-tools", "1.35.0-1.1", LOOK_ALIKE)
    yield Package("kubernetes-cni", "1.8.0-1.1", LOOK_ALIKE)


def containerd(folder: Path) -> Package:
    """Docker's package, which brings its own runc and takes the place of the distribution's two."""
    run(("apt-get", "-qq", "download", "runc"), cwd=folder, timeout=120)
    (archive,) = folder.glob("runc_*.deb")
    run(("dpkg-deb", "-x", str(archive), str(folder)))
    files = {f"usr/bin/{name}": program(CONTAINERD, name) for name, _ in CONTAINERD.programs}
    return Package(
        "containerd.io",
        f"{CONTAINERD.version}-1~debian.12~{CODENAME}",
        "containerd, compiled; its runc is Debian's",
        files
        | {
            "usr/bin/runc": File((folder / "usr/sbin/runc").read_bytes(), PROGRAM),
            "usr/lib/systemd/system/containerd.service": File(CONTAINERD_UNIT),
        },
        relations={
            "Conflicts": "containerd, runc",
            "Provides": "containerd, runc",
            "Replaces": "containerd, runc",
            "Depends": "libc6, libseccomp2",
        },
    )
