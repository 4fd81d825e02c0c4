"""Checks containers in Slurm jobs: Pyxis for the running Slurm, enroot and its requirements."""

from collections.abc import Iterator
from typing import Any

from appliance.checks.causes import Cause, is_unknown
from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.bound import Bound
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host, Role
from appliance.stages.slurm import ids
from appliance.stages.slurm.facts import Containers, Plugin
from appliance.stages.slurm.variables.containers import container_folder
from appliance.stages.storage import ids as storage_ids

DEPLOY = "appliance deploy --stage slurm"
NAMESPACES = "kernel.unprivileged_userns_clone"
APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
COUNTS = ("user.max_user_namespaces", "user.max_mnt_namespaces")
REQUIREMENTS = "enroot, requirements (2026-11)"
GIB = 1024**3
ROOM_GIB = 100.0
OWN_CHOICE = "own choice: a few images, packed and unpacked"
"""Own choice: an image of a training framework has about 20 GiB, and is stored packed, cached and unpacked."""


def _pyxis(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    seen = facts.containers
    if view.site.slurm_options.containers is None:
        if seen is not None and seen.plugin is not None:
            cause = f"{seen.plugin.path} still exists, but the site has no containers"
            yield failed(host.name, cause, DEPLOY, limit="none")
        return
    if "containers" in facts.errors:
        yield not_assessed(host.name, facts.gap("containers"))
    elif seen is None or seen.plugin is None:
        yield failed(host.name, "Pyxis was not built on this host", DEPLOY)
    else:
        yield _plugin(view, host, seen, seen.plugin)


def _plugin(view: View, host: Host, seen: Containers, plugin: Plugin) -> Judgement:
    running = seen.slurm
    told: dict[str, Any] = {
        "value": plugin.built_for,
        "limit": running,
        "limit_source": "the Slurm of this host",
        "evidence": f"{plugin.path}, Pyxis {plugin.release or 'of an unknown release'}",
    }
    cause = _why_not(view, plugin, running)
    if cause:
        return failed(host.name, cause, DEPLOY, **told)
    if plugin.problem:
        fix = f"srun --help on {host.name}, then {DEPLOY}"
        return failed(host.name, f"srun does not load it: {plugin.problem}", fix, **told)
    if not running or plugin.offers is None:
        return not_assessed(host.name, "srun is missing", **told)
    if not plugin.offers:
        cause = "srun --help does not list --container-image"
        return failed(host.name, cause, f"check PlugStackConfig, then {DEPLOY}", **told)
    return passed(host.name, **told)


def _why_not(view: View, plugin: Plugin, running: str) -> str:
    wanted = _chosen(view, "pyxis")
    if not plugin.there:
        return f"{plugin.path} is not the plugin that was built here"
    if running and plugin.built_for != running:
        return f"built for Slurm {plugin.built_for or 'nothing'}, and {running} runs here"
    if not plugin.configured:
        return "Slurm is not configured to load it"
    if wanted and plugin.release and not _is_of(plugin.release, wanted):
        return f"Pyxis {plugin.release} is installed, {wanted} is configured"
    return ""


def _enroot(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    if view.site.slurm_options.containers is None:
        return
    seen = facts.containers
    if "containers" in facts.errors:
        yield not_assessed(host.name, facts.gap("containers"))
        return
    if seen is None or not seen.enroot:
        yield failed(host.name, "enroot is not installed", DEPLOY)
        return
    wanted = _chosen(view, "enroot")
    told: dict[str, Any] = {
        "value": seen.enroot,
        "limit": wanted or None,
        "limit_source": "the site's choice",
    }
    cause, fix = _unfit(seen, wanted)
    if cause:
        yield failed(host.name, cause, fix, **told)
    elif not seen.kernel.keys() >= set(COUNTS) or seen.overlay is None:
        what = "its support of overlays" if seen.kernel.keys() >= set(COUNTS) else "its namespaces"
        yield not_assessed(host.name, f"the kernel does not report {what}", **told)
    else:
        yield passed(host.name, **told)


def _unfit(seen: Containers, wanted: str) -> tuple[str, str]:
    """Return what keeps enroot from working here, and the remedy; empty if nothing does."""
    kernel = seen.kernel
    if wanted and not _is_of(seen.enroot, wanted):
        return f"enroot {seen.enroot} is installed, {wanted} is configured", DEPLOY
    if seen.lacks:
        missing = ", ".join(seen.lacks)
        other = "stage gpu installs nvidia-container-cli, enroot's packages the rest"
        return (
            f"{missing} is not installed",
            f"appliance deploy --stage gpu --stage slurm ({other})",
        )
    for name in COUNTS:
        if name in kernel and kernel[name] in ("0", "1"):
            return (
                f"{name} is {kernel[name]}, users cannot create containers",
                f"sysctl -w {name}=65536 on the host; to keep it, set stages.sysctl of the profile",
            )
    if kernel.get(NAMESPACES) == "0":
        return f"{NAMESPACES} is 0, only root can create containers", DEPLOY
    if kernel.get(APPARMOR) == "1":
        return f"{APPARMOR} is 1, AppArmor keeps users from containers", DEPLOY
    if seen.overlay is False:
        return (
            "neither the kernel nor FUSE supports overlays",
            "modprobe overlay, or install fuse-overlayfs",
        )
    return "", ""


def _room(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    folder = container_folder(view.site)
    if not folder:
        return
    seen = facts.containers
    least, source = view.number(ids.CONTAINER_ROOM) or (ROOM_GIB, OWN_CHOICE)
    if seen is None or seen.free is None:
        why = facts.gap("containers", f"{folder} could not be read")
        yield not_assessed(host.name, why)
        return
    free = round(seen.free / GIB, 1)
    told: dict[str, Any] = {
        "value": free,
        "unit": "GiB free",
        "limit": least,
        "limit_source": source,
    }
    if free >= least:
        yield passed(host.name, evidence=folder, **told)
        return
    fix = f"du -sh {folder}/*/* on {host.name} shows the images by user"
    yield warned(host.name, f"{folder} has {free:g} GiB left", fix, **told)


def _chosen(view: View, name: str) -> str:
    return view.site.software.get(name) or getattr(view.profile.software, name) or ""


def _is_of(found: str, wanted: str) -> bool:
    """Return whether a version belongs to the chosen release, compared to the length of the choice; package revisions do not count."""
    numbers = found.rpartition(":")[2].partition("-")[0].split(".")
    return numbers[: len(wanted.split("."))] == wanted.split(".")


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.PYXIS,
        "Slurm accepts containers (Pyxis)",
        frozenset({Role.CONTROL, Role.GPU, Role.LOGIN}),
        _pyxis,
        "Pyxis is a plugin of srun, sbatch and slurmd that runs a job in a container. Slurm rejects a plugin that was built for another "
        "release, and then no job starts. Usual causes: Slurm was upgraded without the appliance, or the plugin's file was replaced.",
        "built for the release of Slurm on the host, loaded, and srun --help lists --container-image",
    ),
    HostCheck(
        ids.ENROOT,
        "enroot can create containers",
        GPU_HOSTS,
        _enroot,
        "enroot unpacks images and starts containers as the user, without privileges. The kernel must allow user namespaces and overlays; "
        "nvidia-container-cli provides the GPUs. Usual causes: a hardened kernel parameter, or stage gpu without the container toolkit.",
        f"the configured release; {REQUIREMENTS}",
    ),
    HostCheck(
        ids.CONTAINER_ROOM,
        "Images and containers have disk space",
        GPU_HOSTS,
        _room,
        "Images are kept for the user's next job, unpacked containers until their job ends. Nothing is removed automatically from a user's "
        "cache.",
        f"{ROOM_GIB:g} GiB free (own choice)",
        Bound("GiB", most=1_000_000),
        causes=(
            Cause(storage_ids.SCRATCH, "the directory is on the scratch disk", when=is_unknown),
        ),
    ),
)
