"""Package repositories laid out as their makers lay out theirs, with packages of the same names, signed by a key made here."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab import deb, repository
from appliance.lab.deb import PROGRAM, File, Package

LOOK_ALIKE = "makes no cluster: a look-alike for trying repositories"
CODENAME = "bookworm"
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


def kubernetes(version: str) -> tuple[Package, ...]:
    """What the project's repository of a minor release has: programs that tell their release and do nothing."""
    release = version.split("-")[0]
    told = f'#!/bin/sh\n[ "$1" = version ] && echo v{release} && exit\n[ "$1" = --version ] && echo Kubernetes v{release} && exit\n'
    refuse = f"echo '[ERROR Look] {LOOK_ALIKE}' >&2\nexit 1\n"
    return tuple(
        Package(
            name,
            version,
            f"{name} ({LOOK_ALIKE})",
            {f"usr/bin/{name}": File(told + refuse, PROGRAM)},
        )
        for name in ("kubeadm", "kubelet", "kubectl")
    )


def containerd(release: str) -> Package:
    """Docker's package: a service that runs, and a client that is content."""
    return Package(
        "containerd.io",
        f"{release}-1~debian.12~{CODENAME}",
        f"containerd ({LOOK_ALIKE})",
        {
            "usr/lib/systemd/system/containerd.service": File(UNIT),
            "usr/bin/ctr": File("#!/bin/sh\nexit 0\n", PROGRAM),
        },
        relations={"Conflicts": "containerd, runc", "Provides": "containerd, runc"},
    )


@dataclass(frozen=True)
class Makers:
    """Both repositories below one folder that is served; ``home`` is the keyring that signs."""

    folder: Path
    home: Path
    fingerprint: str

    def publish(self, minor: str, versions: Sequence[str], home: Path | None = None) -> Path:
        """Look-alikes of a minor release of Kubernetes; signed by ``home``."""
        packages = [p for version in versions for p in kubernetes(version)]
        return self.publish_packages(minor, packages, home)

    def publish_packages(
        self, minor: str, packages: Sequence[Package], home: Path | None = None
    ) -> Path:
        """The repository of a minor release of Kubernetes: flat, its key beside it."""
        place = self.folder / f"kubernetes/v{minor}/deb"
        _lists(place, place, packages, ".")
        _sign(place, {"Packages": place / "Packages"}, "", home or self.home)
        _key(place / "Release.key", self.home)
        return place

    def publish_containerd(self, releases: Sequence[str]) -> Path:
        """Look-alikes of Docker's package."""
        return self.publish_docker([containerd(release) for release in releases])

    def publish_docker(self, packages: Sequence[Package]) -> Path:
        """Docker's: a pool, one suite per release of the system, a component; its key at the top."""
        top = self.folder / "docker"
        suite, pool = top / f"dists/{CODENAME}", f"dists/{CODENAME}/pool/stable/amd64"
        below = suite / "stable/binary-amd64"
        _lists(below, top / pool, packages, pool)
        fields = f"Suite: {CODENAME}\nCodename: {CODENAME}\nComponents: stable\n"
        _sign(suite, {"stable/binary-amd64/Packages": below / "Packages"}, fields, self.home)
        _key(top / "gpg", self.home)
        return suite

    def publish_helm(self, version: str) -> tuple[str, str]:
        """An archive as Helm's makers pack theirs; its name below the folder, and its digest."""
        program = f"#!/bin/sh\necho {version}\n".encode()
        entry = tarfile.TarInfo("linux-amd64/helm")
        entry.size = len(program)
        file = self.folder / f"helm-{version}-linux-amd64.tar.gz"
        with tarfile.open(file, "w:gz") as made:
            made.addfile(entry, io.BytesIO(program))
        return file.name, hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def served(folder: Path, home: Path, address: str, port: int) -> Iterator[Makers]:
    """Serves a folder at an address of this machine; the key that signs is made now."""
    folder.mkdir(parents=True)
    handler = partial(_Silent, directory=str(folder))
    server = ThreadingHTTPServer((address, port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Makers(folder, home, repository.make_keyring(home, "the makers of this test"))
    finally:
        server.shutdown()
        server.server_close()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _lists(lists: Path, pool: Path, packages: Sequence[Package], below: str) -> None:
    for folder in (lists, pool):
        folder.mkdir(parents=True, exist_ok=True)
    paragraphs = []
    for package in packages:
        file = deb.build(package, pool)
        paragraphs.append(deb.index(package, file).replace("./", f"{below}/"))
    (lists / "Packages").write_text("\n".join(paragraphs), encoding="utf-8")


def _sign(place: Path, lists: Mapping[str, Path], fields: str, home: Path) -> None:
    said = [
        f" {hashlib.sha256(file.read_bytes()).hexdigest()} {file.stat().st_size} {name}\n"
        for name, file in lists.items()
    ]
    head = f"Origin: a maker\nLabel: a maker\nArchitectures: amd64 all\n{fields}"
    text = f"{head}Date: {formatdate(usegmt=True)}\nSHA256:\n{''.join(said)}"
    (place / "Release").write_text(text, encoding="utf-8")
    signed = ("--yes", "--clearsign", "--output", str(place / "InRelease"), str(place / "Release"))
    _gpg(home, *signed)


def _key(file: Path, home: Path) -> None:
    file.write_text(_gpg(home, "--armor", "--export"), encoding="utf-8")


def _gpg(home: Path, *words: str) -> str:
    common = ("--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
    try:
        return run(("gpg", "--homedir", str(home), *common, *words)).stdout
    finally:
        run(("gpgconf", "--homedir", str(home), "--kill", "all"), check=False)
