"""The rack's own package repository: look-alikes of NVIDIA's packages, signed by a key made for this rack, served to it."""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from appliance.adapters.process import run, spawn
from appliance.errors import ApplianceError
from appliance.lab import deb, nvml, processes
from appliance.lab.driver import packages
from appliance.lab.driver.packages import Driver
from appliance.lab.spec import Rack, RackHost, cache_root

PORT = 8070
KEY = "appliance-lab.asc"
SECONDS = 10.0


def start(rack: Rack) -> None:
    """Create the repository if it does not exist, and serve it if it is not served."""
    if not (served(rack) / "InRelease").exists():
        # Another site may change its driver's branch, and NVIDIA's repository offers all of them.
        every = packages.every_driver() if rack.spec.members else ()
        publish(rack, every or packages.drivers_of(rack.hardware.driver_branch))
    if processes.recall(_pid(rack)) is None:
        _serve(rack)


def stop(rack: Rack) -> None:
    """End what serves it."""
    pid = processes.recall(_pid(rack))
    if pid is not None:
        processes.kill(pid)


def address(rack: Rack) -> str:
    """Address at which the hosts reach it."""
    return f"http://{rack.gateway}:{PORT}"


def served(rack: Rack) -> Path:
    """The folder that is served: packages and lists side by side, as in NVIDIA's own."""
    return rack.state_dir / "repository" / "served"


def fingerprint(rack: Rack) -> str:
    """Fingerprint of the signing key: forty hexadecimal digits; empty before the repository exists."""
    file = rack.state_dir / "repository" / "fingerprint"
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def publish(rack: Rack, drivers: Sequence[Driver]) -> None:
    """Offer these driver versions, and no others; hosts see the new lists all at once."""
    folder = served(rack)
    fresh = folder.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    paragraphs = []
    for package, file in _built(drivers, rack.hardware.driver_branch):
        shutil.copyfile(file, fresh / file.name)
        paragraphs.append(deb.index(package, file))
    (fresh / "Packages").write_text("\n".join(paragraphs), encoding="utf-8")
    sign(rack, fresh)
    old = folder.with_name("old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def sign(rack: Rack, folder: Path, home: Path | None = None) -> None:
    """Write Release, InRelease and the public key; ``home`` is another keyring than the rack's own."""
    with _keyring(home or _own_keyring(rack)) as gpg:
        (folder / "Release").write_text(_release(folder), encoding="utf-8")
        release = str(folder / "Release")
        run((*gpg, "--yes", "--clearsign", "--output", str(folder / "InRelease"), release))
        public = run((*gpg, "--armor", "--export")).stdout
        if home is None:
            (folder / KEY).write_text(public, encoding="utf-8")


def make_keyring(home: Path, owner: str) -> str:
    """Creates a signing key in a separate keyring; returns its fingerprint."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    with _keyring(home) as gpg:
        run((*gpg, "--quick-generate-key", owner, "ed25519", "sign", "never"))
        told = run((*gpg, "--with-colons", "--list-keys")).stdout
    return next(line.split(":")[9] for line in told.splitlines() if line.startswith("fpr:"))


def preinstall(rack: Rack, host: RackHost) -> None:
    """Put the driver into a host that has never booted, as an image with a driver would."""
    newest = packages.drivers_of(rack.hardware.driver_branch)[-1]
    found = {p.name: file for p, file in _built((newest,), rack.hardware.driver_branch)}
    wanted = ("nvidia-kernel-open-dkms", "nvidia-driver-cuda")
    archives = (str(found[name]) for name in wanted)
    run(("dpkg", f"--root={host.root}", "--force-unsafe-io", "--install", *archives))


def _built(drivers: Sequence[Driver], branch: str) -> Iterator[tuple[deb.Package, Path]]:
    """Every package with its file, built if the cache lacks it."""
    layer = nvml.build(cache_root() / "lab")
    wanted = [package for driver in drivers for package in packages.of_driver(driver, layer)]
    branches = dict.fromkeys((branch, *(driver.branch for driver in drivers)))
    beside = {p.file_name: p for name in branches for p in packages.others(name)}
    for package in (*wanted, *beside.values(), *packages.doca()):
        yield package, archive_of(package)


def archive_of(package: deb.Package) -> Path:
    """The package's file, built if the cache lacks it."""
    folder = cache_root() / "lab" / "debs"
    parts = [package.control.encode()]
    parts += [f"{p} {f.mode}".encode() + f.data for p, f in sorted(package.files.items())]
    parts += [f"{p} {t}".encode() for p, t in sorted(package.links.items())]
    place = folder / hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
    target = place / package.file_name
    if not target.exists():
        fresh = place.with_name(f".{place.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        deb.build(package, fresh)
        place.mkdir(exist_ok=True)
        (fresh / package.file_name).rename(target)
        shutil.rmtree(fresh)
    return target


def _release(folder: Path) -> str:
    data = (folder / "Packages").read_bytes()
    return (
        "Origin: appliance lab\nLabel: appliance lab, simulated\nArchitectures: amd64 all\n"
        f"Date: {formatdate(usegmt=True)}\n"
        f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} Packages\n"
    )


def _own_keyring(rack: Rack) -> Path:
    home = rack.state_dir / "repository" / "keyring"
    if not fingerprint(rack):
        shutil.rmtree(home, ignore_errors=True)
        made = make_keyring(home, f"appliance lab {rack.name}")
        (rack.state_dir / "repository" / "fingerprint").write_text(f"{made}\n", encoding="utf-8")
    return home


@contextmanager
def _keyring(home: Path) -> Iterator[tuple[str, ...]]:
    """Arguments of gpg for a keyring; its agent is ended."""
    try:
        yield ("gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")  # fmt: skip
    finally:
        run(("gpgconf", "--homedir", str(home), "--kill", "all"), check=False)


def _serve(rack: Rack) -> None:
    folder = rack.state_dir / "repository"
    argv = (sys.executable, "-I", "-m", "http.server", str(PORT), "--bind", str(rack.gateway))
    started = spawn(
        (*argv, "--directory", str(served(rack))),
        env={processes.MARK: str(rack.state_dir)},
        log=folder / "server.log",
    )
    processes.remember(started, _pid(rack))
    deadline = time.monotonic() + SECONDS
    while not _answers(rack):
        if time.monotonic() > deadline:
            raise ApplianceError(
                f"the rack's package repository does not answer at {address(rack)}",
                f"see {folder / 'server.log'}",
            )
        time.sleep(0.05)


def _answers(rack: Rack) -> bool:
    try:
        with urlopen(f"{address(rack)}/InRelease", timeout=2) as answer:
            return bool(answer.read(1))
    except (URLError, OSError):
        return False


def _pid(rack: Rack) -> Path:
    return rack.state_dir / "repository" / "server.json"
