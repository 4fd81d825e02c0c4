"""Raising, reading and removing a whole rack."""

import fcntl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from appliance.adapters.process import run
from appliance.config.load import load_profile
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import (
    cgroups,
    compiling,
    fabric,
    hall,
    image,
    kubernetes_build,
    machine,
    machine_image,
    mounts,
    network,
    plain,
    processes,
    repository,
    requirements,
    seed,
    site,
    spec,
    ssh,
    vms,
)
from appliance.lab.device_plugin import bundle as device_plugin
from appliance.lab.hardware import Hardware, of_profile
from appliance.lab.programs import KAI
from appliance.lab.spec import (
    EMBEDDED,
    IMAGE_LAYER,
    STATE_ROOT,
    Member,
    Rack,
    RackHost,
    RackSpec,
    cache_root,
    complete,
    folder_of,
    load,
)
from appliance.provision.building import Progress

__all__ = [
    "Member",
    "Rack",
    "RackHost",
    "RackSpec",
    "complete",
    "down",
    "embedded",
    "load",
    "rebuild",
    "up",
]

SSH_SECONDS = 60.0
BOOT_SECONDS = 90.0
COMPILED_ONCE = "about 15 min on two idle processors, because Kubernetes is compiled once; --without kubernetes: 3 min"
ENABLED_UNITS = ("systemd-networkd.service", "ssh.service")


def up(wanted: RackSpec, progress: Progress, *, reset_site: bool = False) -> Rack:
    """Create the rack, or start its stopped parts; returns when every host has booted.

    Virtual machines stay unchanged, off at first: their BMCs are started, which power them on by command.
    ``reset_site``: site.yml is written again, even if it was changed by hand.
    Raises ConfigError if this machine is not suitable for a rack, before anything is created.
    """
    requirements.require(virtual=wanted.is_virtual)
    with _locked(wanted.name, progress):
        rack = _existing(wanted) or _new(wanted, progress)
        network.raise_bridge(rack)
        repository.start(rack)
        public_key = site.client_key(rack)
        started: list[RackHost] = []
        if wanted.is_virtual:
            vms.start(rack)
        else:
            started = [host for host in rack.hosts if _start(rack, host, public_key)]
        site.write(rack, progress, reset=reset_site)
        if rack.hardware.has_subnet:
            fabric.start(rack)
        if started:
            progress(f"starting {_names(started)}")
            _wait(rack, started, progress)
            _hand_out_gpus(rack, started)
        return rack


def embedded(profile: str | None, *, kubernetes: bool = True) -> RackSpec:
    """The default rack without a site: the existing rack, or a complete one; without ``kubernetes`` one with Slurm only.

    Raises ConfigError if plain hosts exist, which belong to no site, or a cluster that the options exclude.
    """
    standing = load(EMBEDDED)
    if standing and standing.spec.plain:
        raise ConfigError(
            f"the hosts of rack {EMBEDDED} are plain: they belong to your own site",
            f"select it with --site DIR, or remove the rack: appliance lab down --name {EMBEDDED}",
        )
    if standing and standing.spec.kubernetes and not kubernetes:
        raise ConfigError(
            f"rack {EMBEDDED} runs with Kubernetes, but --without kubernetes needs one without it",
            "appliance lab down, or omit --without",
        )
    if standing and profile in (None, standing.spec.profile):
        return standing.spec
    wanted = RackSpec(EMBEDDED, profile="hpc" if profile is None else profile)
    return complete(wanted) if kubernetes else wanted


def cluster_keys() -> dict[str, dict[str, str]]:
    """Keys of a site that only a rack's cluster has, by section: its releases, its source, and what it has none of."""
    return {
        "kubernetes": {
            "version": kubernetes_build.RELEASE,
            "containerd": kubernetes_build.CONTAINERD,
            "network": "bridge",
            "network_policies": "supplied",
            "source": f"/{kubernetes_build.PLACE}",
            "trial_image": kubernetes_build.HOST_IMAGES["busybox"],
            "device_plugin": "own",
        },
        "scheduler": {"rdma": "host"},
        "software": {"kai": ".".join(KAI.version.split(".")[:2])},
    }


def described(wanted: RackSpec) -> str:
    """Its hosts in words, and how long it takes to raise and deploy them."""
    hosts = f"{wanted.hosts} hosts"
    if not wanted.kubernetes:
        return f"{hosts} with Slurm alone (about 3 min, the first time 5)"
    is_warm = compiling.is_compiled(cache_root() / "lab")
    took = "about 5 min" if is_warm else COMPILED_ONCE
    return f"{hosts} with Kubernetes and KAI, {wanted.slurm} of them Slurm's ({took})"


def start(rack: Rack, host: RackHost) -> None:
    """Start one host that was stopped and wait until it has booted."""
    with _locked(rack.name, lambda _: None):
        machine.start(rack, host)
        _wait(rack, [host], lambda _: None)


def rebuild(rack: Rack, host: RackHost) -> None:
    """Replace one host by a new machine of the same hardware: its disk is blank, and its host key is new.

    The site's known_hosts keeps the old key. Returns when sshd answers. Raises ConfigError for virtual machines.
    """
    if rack.spec.is_virtual:
        raise ConfigError(
            f"{host.name} is a virtual machine, which is installed from its BMC",
            f"appliance provision install --reinstall {host.name}",
        )
    with _locked(rack.name, lambda _: None):
        machine.discard(host)
        mounts.remove(host.folder)
        _start(rack, host, site.client_key(rack))
        # Its new key is not pinned, so that nothing can be run there.
        if ssh.wait_for([host], SSH_SECONDS):
            raise ApplianceError(
                f"{host.name} did not answer ssh within {SSH_SECONDS:g} s",
                f"see {host.folder / 'console.log'}",
            )


def down(name: str) -> bool:
    """Remove everything of the rack; False if there was nothing. Interrupted builds go with it.

    Raises ConfigError: no name of a rack.
    """
    folder = folder_of(name)
    image.sweep()
    if not folder.exists():
        return False
    with _locked(name, lambda _: None):
        # The file is written before anything else, so without it the folder is all there is.
        rack = load(name)
        if rack:
            fabric.stop(rack)
            repository.stop(rack)
            processes.end_marked(rack.state_dir)
            if rack.spec.is_virtual:
                hall.stop(vms.hall_of(rack))
            else:
                for host in rack.hosts:
                    machine.discard(host)
            network.lower_bridge(rack)
        mounts.remove(folder)
    (STATE_ROOT / f".{name}.lock").unlink(missing_ok=True)
    return True


def _existing(wanted: RackSpec) -> Rack | None:
    rack = load(wanted.name)
    if rack and rack.spec != wanted:
        raise ApplianceError(
            f"rack {rack.name} runs with {rack.spec.hosts} hosts and profile {rack.spec.profile}"
            + (f" with {rack.spec.gpu}" if rack.spec.gpu else "")
            + (f" and classes {rack.spec.classes}" if rack.spec.classes else "")
            + (" for Kubernetes" if rack.spec.kubernetes else "")
            + (" with queues" if rack.spec.complete else "")
            + (f" of plain Debian {rack.spec.plain}" if rack.spec.plain else "")
            + (" of virtual machines" if rack.spec.is_virtual else "")
            + (f" with {rack.spec.control} control planes" if rack.spec.control > 1 else ""),
            f"appliance lab down --name {rack.name}, or use another --name",
        )
    return rack


def _new(wanted: RackSpec, progress: Progress) -> Rack:
    classes = {name: of_profile(load_profile(name)) for name in wanted.class_of_each}
    # A head has a port in the fabric that it manages, if any class has one.
    hardware = next((own for own in classes.values() if own.has_subnet), None)
    hardware = hardware or of_profile(load_profile(wanted.profile), wanted.gpu)
    if not wanted.is_virtual:
        layers = (
            plain.layers(wanted.plain, progress)
            if wanted.plain
            else image.layers(progress, wanted.kubernetes)
        )
        return _numbered(wanted, layers, hardware, progress, classes)
    requirements.require_room(wanted)
    # The fabric simulator is of the containers' image, and no other class needs one.
    layers = image.layers(progress) if hardware.has_subnet else {}
    with machine_image.kept(progress) as folder:
        return _numbered(wanted, layers | {IMAGE_LAYER: str(folder)}, hardware, progress)


def _numbered(
    wanted: RackSpec,
    layers: dict[str, str],
    hardware: Hardware,
    progress: Progress,
    classes: Mapping[str, Hardware] = MappingProxyType({}),
) -> Rack:
    with _locked("", progress):
        rack = spec.numbered(wanted, network.free_index(), layers, hardware, classes)
        spec.save(rack)
    return rack


def _start(rack: Rack, host: RackHost, public_key: str) -> bool:
    """Boot a host that does not run; its first boot finds everything in place."""
    if machine.is_running(host):
        if cgroups.is_frozen(host):
            raise ApplianceError(
                f"{host.name} is frozen", f"appliance lab fault {host.name} freeze --clear"
            )
        return False
    host.folder.mkdir(parents=True, exist_ok=True)
    if rack.spec.plain:
        plain.build_hardware(rack, host)
    mounts.mount_host(rack, host)
    seeded = host.folder / "seeded"
    if not seeded.exists():
        _first_day(rack, host, public_key)
        seeded.touch()
    machine.start(rack, host)
    return True


def _first_day(rack: Rack, host: RackHost, public_key: str) -> None:
    if rack.spec.plain:
        plain.install(rack, host, public_key)
        return
    seed.seed(rack, host, public_key)
    _enable(rack, host)
    is_known = rack.spec.kubernetes and (rack.site_dir / "site.yml").exists()
    if is_known and host.is_gpu and site.has_own_device_plugin(rack):
        run(("systemctl", f"--root={host.root}", "--quiet", "enable", device_plugin.UNIT))


def _enable(rack: Rack, host: RackHost) -> None:
    cluster = (seed.CLUSTER_UNIT,) if rack.spec.kubernetes else ()
    units = (*ENABLED_UNITS, *cluster)
    run(("systemctl", f"--root={host.root}", "--quiet", "enable", *units))
    run(
        (
            "systemctl",
            f"--root={host.root}",
            "--quiet",
            "mask",
            "systemd-networkd-wait-online.service",
            "getty.target",
            "console-getty.service",
        )
    )


def _hand_out_gpus(rack: Rack, hosts: Sequence[RackHost]) -> None:
    """If the site brings its own device plugin, it is a unit of the hosts; otherwise a chart brings it as pods."""
    if not rack.spec.kubernetes or rack.spec.plain:
        return
    # Where the site is written elsewhere, it follows: it has the rack's own.
    is_own = bool(rack.spec.members) or site.has_own_device_plugin(rack)
    do = "enable" if is_own else "disable"
    for host in hosts:
        if host.is_gpu:
            done = ssh.on_host(rack, host, ("systemctl", do, "--now", device_plugin.UNIT))
            if done.returncode:
                raise ApplianceError(
                    f"{host.name}: {device_plugin.UNIT} cannot be switched: {done.stderr.strip()}",
                    f"appliance lab down --name {rack.name}, then start it again",
                )


def _wait(rack: Rack, hosts: Sequence[RackHost], progress: Progress) -> None:
    silent = ssh.wait_for(hosts, SSH_SECONDS)
    if silent:
        log = silent[0].folder / "console.log"
        raise ApplianceError(
            f"{_names(silent)} did not answer ssh within {SSH_SECONDS:g} s", f"see {log}"
        )
    for host in hosts:
        state = _boot_state(rack, host)
        if state == "degraded":
            failed = ssh.on_host(
                rack, host, ("systemctl", "--failed", "--plain", "--no-legend")
            ).stdout
            units = ", ".join(line.split()[0] for line in failed.splitlines() if line.strip())
            progress(f"{host.name} is degraded: {units}")
        elif state != "running":
            raise ApplianceError(
                f"{host.name} did not finish booting within {BOOT_SECONDS:g} s ({state})",
                f"see {host.folder / 'console.log'}",
            )


def _boot_state(rack: Rack, host: RackHost) -> str:
    deadline = time.monotonic() + BOOT_SECONDS
    while True:
        state = ssh.on_host(rack, host, ("systemctl", "is-system-running")).stdout.strip()
        if state in {"running", "degraded"} or time.monotonic() > deadline:
            return state or "no answer"
        time.sleep(0.2)


def _names(hosts: Sequence[RackHost]) -> str:
    return ", ".join(host.name for host in hosts)


@contextmanager
def _locked(name: str, progress: Progress) -> Iterator[None]:
    """One change to a rack at a time; the lock dies with its holder."""
    STATE_ROOT.mkdir(parents=True, exist_ok=True)
    file: Path = STATE_ROOT / f".{name}.lock"
    with file.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another command on this rack")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
