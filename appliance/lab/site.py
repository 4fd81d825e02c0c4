"""The site folder of a rack: what an owner would write by hand for machines like these."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from appliance.adapters.process import run
from appliance.config import document
from appliance.config.finding import InvalidConfig
from appliance.config.new_secrets import write_secrets
from appliance.config.template import filled
from appliance.lab import containers, hall, kubernetes_build, repository, vms
from appliance.lab.programs import KAI
from appliance.lab.seed import SIMULATED_AREAS, public_host_key
from appliance.lab.spec import IMAGE_LAYER, Rack
from appliance.provision.building import Progress
from appliance.stages.mig.table import mig_table


def client_key(rack: Rack) -> str:
    """Make the key pair the control host logs in with, once; returns the public half."""
    key = rack.access_dir / "id_ed25519"
    public = Path(f"{key}.pub")
    if not public.exists():
        rack.access_dir.mkdir(parents=True, exist_ok=True)
        key.unlink(missing_ok=True)
        comment = f"appliance lab {rack.name}"
        run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(key)))
    return public.read_text(encoding="utf-8")


WRITTEN = "site.sha256"
"""File next to the site's folder: digest of site.yml when it was last written here, without owners."""


def write(rack: Rack, progress: Progress, *, reset: bool = False) -> None:
    """Write site.yml, known_hosts and secrets/. The hosts' roots must be mounted; for virtual machines the hall must exist.

    A site.yml that was changed by hand is kept, unless ``reset``. Owners of hosts stay as ``appliance node assign``
    wrote them. For plain hosts, and for those of another site, only known_hosts is written, for ``lab shell``.
    """
    if rack.spec.plain or rack.spec.members:
        (rack.access_dir / "known_hosts").write_text(known_hosts(rack), encoding="utf-8")
        return
    write_secrets(rack.site_dir / "secrets", kubernetes=rack.spec.kubernetes)
    if rack.spec.is_virtual:
        vms.write_access(rack)
    else:
        (rack.site_dir / "known_hosts").write_text(known_hosts(rack), encoding="utf-8")
    pinned = containers.write(rack.site_dir)
    file = rack.site_dir / "site.yml"
    _write_site(rack, file, render(rack, pinned, owners(file)), progress, reset)


def _write_site(rack: Rack, file: Path, text: str, progress: Progress, reset: bool) -> None:
    note = rack.state_dir / WRITTEN
    found = file.read_bytes() if file.exists() else None
    known = note.read_text(encoding="utf-8") if note.exists() else ""
    is_ours = found is None or digest(found) in {known, digest(text.encode())}
    if not (is_ours or reset):
        progress(
            f"{file} was changed by hand and is kept; to overwrite it: "
            f"appliance lab up --name {rack.name} --reset-site"
        )
        return
    if found is not None and not is_ours:
        kept = file.with_name("site.yml.before")
        kept.write_bytes(found)
        progress(f"{file} is overwritten; the previous version is {kept}")
    # Write the note first: if the program is killed in between, the file is kept too long, but not lost.
    note.write_text(digest(text.encode()), encoding="utf-8")
    file.write_text(text, encoding="utf-8")


def digest(text: bytes) -> str:
    """Digest of a site.yml without the owners of its hosts, which another verb changes."""
    return hashlib.sha256(re.sub(rb"(?m)^ +owner:.*\n", b"", text)).hexdigest()


def owners(file: Path) -> Mapping[str, str]:
    """The owner of a host in the file, "" if it names none; empty if there is no such file."""
    with suppress(InvalidConfig):
        data = document.read(file).data
        hosts = data.get("hosts") if isinstance(data, dict) else None
        found = [h for h in hosts if isinstance(h, dict)] if isinstance(hosts, list) else []
        return {str(h.get("name")): str(h.get("owner", "")) for h in found}
    return {}


def has_own_device_plugin(rack: Rack) -> bool:
    """Whether the site brings its own device plugin, according to site.yml."""
    with suppress(InvalidConfig):
        data = document.read(rack.site_dir / "site.yml").data
        section = data.get("kubernetes") if isinstance(data, dict) else None
        return isinstance(section, dict) and section.get("device_plugin") == "own"
    return False


def known_hosts(rack: Rack) -> str:
    """The pinned key of every host, by name and by address."""
    return "".join(f"{host.name},{host.address} {public_host_key(host)}\n" for host in rack.hosts)


def render(
    rack: Rack,
    pinned: Mapping[str, containers.Pinned] | None = None,
    owned: Mapping[str, str] | None = None,
) -> str:
    """The text of site.yml. ``pinned``: the files that bring containers into jobs, if the folder has them.

    ``owned``: the owner by host. Of other hosts, the first GPU hosts belong to Slurm.
    """
    gpu_hosts = [host for host in rack.hosts if host.is_gpu]
    first = {host.name: "slurm" for host in gpu_hosts[: rack.spec.slurm]}
    template = files("appliance.lab").joinpath("templates/site.yml.j2").read_text(encoding="utf-8")
    return filled(
        template,
        rack=rack,
        profile=_profile(rack.spec.profile),
        owners=first | dict(owned or {}),
        classes=_classes(rack),
        simulated=SIMULATED_AREAS,
        release=kubernetes_build.RELEASE,
        containerd=kubernetes_build.CONTAINERD,
        source=f"/{kubernetes_build.PLACE}",
        trial_image=kubernetes_build.HOST_IMAGES["busybox"],
        kai=".".join(KAI.version.split(".")[:2]),
        mirror=repository.address(rack),
        key=repository.KEY,
        fingerprint=repository.fingerprint(rack),
        containers=pinned or {},
        machines=_machines(rack),
        image=rack.layers.get(IMAGE_LAYER, ""),
        bmc=hall,
        nameservers=vms.nameservers() if rack.spec.is_virtual else [],
        enroot=containers.ENROOT,
        pyxis=containers.PYXIS,
        **(_complete(rack) if rack.spec.complete else {}),
    )


def _complete(rack: Rack) -> Mapping[str, object]:
    """Additions to a complete rack's site: the first GPU host of Kubernetes divides a GPU, if its product supports it."""
    divided, *whole = [h.name for h in rack.hosts if h.is_gpu][rack.spec.slurm :]
    own = rack.hardware_of(divided)
    can_divide = mig_table().of(own.model.name) is not None
    names = whole if can_divide else [divided, *whole]
    gpus = sum(rack.hardware_of(name).gpus for name in names)
    return {
        "divided": divided if can_divide else "",
        "gpus": gpus,
        "half": gpus // 2,
        "user_key": client_key(rack).strip(),
    }


def _classes(rack: Rack) -> Mapping[str, str]:
    """The class of each host that differs from the site's."""
    gpu_hosts = (host.name for host in rack.hosts if host.is_gpu)
    of = dict(zip(gpu_hosts, rack.spec.class_of_each, strict=False))
    return {host: _profile(name) for host, name in of.items() if name != rack.spec.profile}


def _machines(rack: Rack) -> Mapping[str, hall.Machine]:
    if not rack.spec.is_virtual:
        return {}
    return {machine.name: machine for machine in vms.hall_of(rack).machines}


def _profile(name: str) -> str:
    """A file is named in full, because a site takes a path as relative to its own folder."""
    is_file = "/" in name or name.endswith((".yml", ".yaml"))
    return str(Path(name).absolute()) if is_file else name
