"""Plain hosts: a Debian root as the distribution's installer leaves it, built once for each release, and what each finds in it."""

import json
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.lab import mounts, network, seed
from appliance.lab.image import BUILD_SECONDS, NEEDED_GIB, one_build, sources
from appliance.lab.recipe import LIB_FOLDER
from appliance.lab.spec import SIMULATOR_LAYER, Rack, RackHost, cache_root
from appliance.provision import building
from appliance.provision.building import Progress
from appliance.provision.sources import CONFINED, DEB822_FROM, RELEASES, Sources, digest, leave

PACKAGES = ("ca-certificates", "openssh-server", "sudo")
"""Selected in addition to Debian's standard system: "SSH server", and sudo, as without a password of root."""
SIMULATOR_PACKAGES = ("ibsim-utils", "libibmad5", "libibumad3", "libumad2sim0")
SIMULATOR_FILES = (f"{LIB_FOLDER}/umad2sim",)
HOST_KEYS = ("rsa", "ecdsa", "ed25519")
SYSTEM_UNITS, OWN_UNITS = "etc/systemd/system", "usr/local/lib/systemd/system"
MASKED = ("console-getty.service", "getty.target")


@dataclass(frozen=True)
class PlainRecipe:
    """All that decides the content of a release's root."""

    release: str
    sources: Sources
    packages: tuple[str, ...] = PACKAGES
    beside: tuple[str, ...] = SIMULATOR_PACKAGES
    edition: int = 1

    @property
    def digest(self) -> str:
        return digest(json.dumps(asdict(self), sort_keys=True))


def layers(release: str, progress: Progress) -> dict[str, str]:
    """The root's layer, and that of the fabric simulator; built if the cache lacks them."""
    with one_build(progress, f"plain-{release}"):
        recipe = PlainRecipe(release, sources(progress, RELEASES[release]))
        target = cache_root() / "lab" / f"plain-{release}-{recipe.digest}"
        if not target.exists():
            _build(target, recipe, progress)
    return {"base": str(target / "root"), SIMULATOR_LAYER: str(target / "simulator")}


def _build(target: Path, recipe: PlainRecipe, progress: Progress) -> None:
    if mounts.free_gib(target.parent) < NEEDED_GIB:
        raise ApplianceError(f"{target.parent} needs {NEEDED_GIB} GiB of free space for the image")
    fresh = target.with_name(f"building-{target.name}")
    root = fresh / "root"
    root.mkdir(parents=True)
    title = f"building the plain root of Debian {recipe.release}, once (two to three minutes)"
    with building.reported_progress(progress, title, lambda: building.system(root)):
        run(
            (*CONFINED, *_bootstrap(recipe, root)),
            input="\n".join(recipe.sources.lines) + "\n",
            timeout=BUILD_SECONDS,
            hint=f"check that Debian's archive has {RELEASES[recipe.release]}: apt-get update",
        )
        _unpack_simulator(root, fresh / "simulator")
        leave(root, recipe.sources, recipe.release)
    fresh.rename(target)


def _bootstrap(recipe: PlainRecipe, root: Path) -> tuple[str, ...]:
    """Debian's standard system, which its installer offers in addition to a kernel."""
    return (
        "mmdebstrap",
        "--mode=root",
        "--variant=standard",
        "--skip=cleanup/apt",
        "--dpkgopt=force-unsafe-io",
        *(f"--aptopt={line}" for line in recipe.sources.apt_conf.splitlines()),
        f"--include={','.join(recipe.packages)}",
        RELEASES[recipe.release],
        str(root),
        "-",
    )


def _unpack_simulator(root: Path, target: Path) -> None:
    """The release's own fabric simulator, in a layer next to the root, not in it."""
    work = root / "tmp/simulator"
    work.mkdir()
    script = f"cd /tmp/simulator && apt-get -qq download {' '.join(SIMULATOR_PACKAGES)}"
    resolver = root / "etc/resolv.conf"
    resolver.write_text(network.resolver(), encoding="utf-8")
    run((*CONFINED, "chroot", str(root), "sh", "-euc", script), timeout=BUILD_SECONDS)
    for archive in sorted(work.glob("*.deb")):
        run(("dpkg-deb", "-x", str(archive), str(target)))
    shutil.rmtree(work)
    resolver.unlink()


def build_hardware(rack: Rack, host: RackHost) -> None:
    """Substitutes for the host's hardware, kernel and firmware: a separate layer, complete or absent."""
    if host.hardware.exists():
        return
    fresh = host.hardware.with_name("hardware.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name, text in seed.marks(rack, host).items():
        _write(fresh / _below_usr_local(name), text)
    seed.hardware(fresh, rack, host)
    for unit in MASKED:
        mask = fresh / OWN_UNITS / unit
        mask.parent.mkdir(parents=True, exist_ok=True)
        mask.symlink_to("/dev/null")
    if rack.spec.kubernetes:
        enabled = fresh / OWN_UNITS / "multi-user.target.wants" / seed.CLUSTER_UNIT
        _write(fresh / OWN_UNITS / seed.CLUSTER_UNIT, seed.cluster_unit())
        enabled.parent.mkdir(parents=True)
        enabled.symlink_to(f"../{seed.CLUSTER_UNIT}")
    for name in SIMULATOR_FILES if rack.hardware_of(host.name).has_subnet else ():
        shutil.copytree(Path(rack.layers[SIMULATOR_LAYER]) / name, fresh / name, symlinks=True)
    fresh.rename(host.hardware)


def _below_usr_local(name: str) -> str:
    """Units and tmpfiles.d stay out of /etc, which is the host's own."""
    moved = name.replace(SYSTEM_UNITS, OWN_UNITS)
    return moved.replace("etc/tmpfiles.d", "usr/local/lib/tmpfiles.d")


def install(rack: Rack, host: RackHost, client_key: str) -> None:
    """Write the installer's settings into the mounted root: name, network, and the one account."""
    user, root = rack.spec.user, host.root
    for name, text in texts(rack, host).items():
        _write(root / name, text)
    run(("useradd", "--root", str(root), "--create-home", "--shell", "/bin/bash", user))
    _write(root / "etc/sudoers.d" / user, f"{user} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    keys = root / "home" / user / ".ssh/authorized_keys"
    _write(keys, client_key, 0o600)
    keys.parent.chmod(0o700)
    run(("chroot", str(root), "chown", "-R", f"{user}:{user}", f"/home/{user}/.ssh"))
    for kind in HOST_KEYS:
        file = root / f"etc/ssh/ssh_host_{kind}_key"
        file.unlink(missing_ok=True)
        comment = f"root@{host.name}"
        run(("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(file)))
    if _uses_networkd(rack):
        run(("systemctl", f"--root={root}", "--quiet", "enable", "systemd-networkd.service"))


def texts(rack: Rack, host: RackHost) -> dict[str, str]:
    """By file, the content that the installer writes; paths relative to the root."""
    prefix = rack.network.prefixlen
    found = {
        "etc/hostname": f"{host.name}\n",
        "etc/hosts": f"127.0.0.1\tlocalhost\n127.0.1.1\t{host.name}\n\n::1\tlocalhost ip6-localhost ip6-loopback\n",
        "etc/machine-id": f"{uuid.uuid4().hex}\n",
        "etc/resolv.conf": network.resolver(),
        "etc/ssh/sshd_config.d/local.conf": "PasswordAuthentication no\nPermitRootLogin no\n",
    }
    if _uses_networkd(rack):
        # systemd has 80-container-host0.network, and the first by name counts.
        name = "etc/systemd/network/10-host0.network"
        found[name] = (
            f"[Match]\nName=host0\n\n[Network]\nAddress={host.address}/{prefix}\nGateway={rack.gateway}\n"
        )
    else:
        found["etc/network/interfaces"] = (
            "source /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n\nauto host0\n"
            f"iface host0 inet static\n\taddress {host.address}/{prefix}\n\tgateway {rack.gateway}\n"
        )
    return found


def _uses_networkd(rack: Rack) -> bool:
    """Both ways are met with: ifupdown is the installer's, networkd that of cloud images."""
    return int(rack.spec.plain) >= DEB822_FROM


def _write(file: Path, text: str, mode: int | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if mode is not None:
        file.chmod(mode)
