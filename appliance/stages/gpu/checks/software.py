"""Checks the software of the GPUs: driver branch and version, fabric manager, persistence, firmware."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.checks.votes import usual
from appliance.models.facts import HostFacts, ProblemKind, Unit
from appliance.models.gap import Gap
from appliance.models.profile import Interconnect
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.stages.gpu.checks.each import (
    GpuResult,
    bad,
    devices,
    each,
    good,
    is_simulated,
    silence,
    unknown,
)
from appliance.stages.gpu.facts import Gpu
from appliance.stages.units import revived
from appliance.text import plural

FABRIC_MANAGER = "nvidia-fabricmanager.service"
PERSISTENCE = "nvidia-persistenced.service"
SERVICES = ("nvidia-dcgm.service", "nvidia-dcgm-exporter.service", "appliance-cdi.service")
UNITS = (FABRIC_MANAGER, PERSISTENCE, *SERVICES)
AT_BOOT = frozenset({"enabled", "static", "alias", "indirect", "generated"})
FEW = 8
"""Maximum number of hosts listed; further ones are counted."""
LOCKSTEP = "NVIDIA fabric manager guide: exactly the driver's version"
LOST = "libnvidia-ml.so.1"
"""The library of the driver; its packages have several names."""


def judge_driver(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if a driver of the profile's branch answers."""
    branch = view.profile.software.driver_branch
    common: dict[str, object] = {
        "limit": branch,
        "limit_source": f"profile {view.profile.name}",
        "simulated": is_simulated(facts),
    }
    if facts.gpus is None:
        return [_no_driver(host, facts, common)]
    version = facts.gpus.driver
    if not version:
        why = "the driver does not report its version"
        return [not_assessed(host.name, why, **common)]
    wanted = branch.split(".")
    if version.split(".")[: len(wanted)] == wanted:
        evidence = f"CUDA up to {facts.gpus.cuda}" if facts.gpus.cuda else ""
        return [passed(host.name, version, evidence=evidence, **common)]
    what = "" if len(wanted) > 1 else "of branch "
    cause = f"driver {version} is not {what}{branch}"
    fix = f"appliance deploy --stage gpu brings {branch}; or choose software.driver_branch {'.'.join(version.split('.')[: len(wanted)])}"
    return [failed(host.name, cause, fix, value=version, **common)]


def _no_driver(host: Host, facts: HostFacts, common: dict[str, object]) -> Judgement:
    """Return the result without a driver: failed if the probe found none that works, not assessed if it could not read."""
    if facts.pci_gpus is None or "gpus" not in facts.errors:
        return not_assessed(host.name, silence(facts), **common)
    said = facts.errors["gpus"]
    fix = "appliance deploy --stage gpu installs it; if it is installed: modprobe nvidia, then dmesg | grep NVRM shows why it does not load"
    if LOST in said:
        fix = (
            f"on {host.name}: P=$(dpkg-query -S {LOST} | cut -d: -f1 | head -1); apt-get install --reinstall -y $P; apt-mark hold $P; "
            "if no package has it: appliance deploy --stage gpu"
        )
    if facts.has("gpus", ProblemKind.VERSION_MISMATCH):
        fix = f"the driver was updated while its older module was loaded: appliance node reboot {host.name} drains the host and loads the new one"
    elif "nouveau" in facts.modules and "nvidia" not in facts.modules:
        fix = (
            "nouveau holds the GPUs: appliance deploy --stage gpu disables it, then reboot the host"
        )
    return failed(host.name, f"no driver answers: {said}", fix, **common)


def judge_driver_spread(view: View) -> Iterable[Judgement]:
    """Pass if all GPU hosts have the same driver version."""
    known = {n: f.gpus.driver for n, f in _gpu_hosts(view).items() if f.gpus and f.gpus.driver}
    common: dict[str, object] = {"simulated": _any_simulated(view)}
    versions = Counter(known.values())
    if len(versions) > 1:
        by_version = {
            version: [n for n, v in known.items() if v == version]
            for version, _ in reversed(versions.most_common())
        }
        cause = "different drivers: " + "; ".join(
            f"{version} on {_few(hosts)}" for version, hosts in by_version.items()
        )
        few = [name for hosts in by_version.values() if len(hosts) <= FEW for name in hosts]
        common["names"] = tuple(few)
        fix = "appliance deploy --stage gpu installs one version on all GPU hosts; jobs over several hosts must not mix drivers"
        common |= {"value": len(versions), "unit": "versions", "limit": 1}
        return [failed("cluster", cause, fix, **common)]
    silent = _silent(view, known)
    if silent or not known:
        why = Gap(f"no known driver version of {', '.join(silent) or 'any host'}", tuple(silent))
        return [not_assessed("cluster", why, **common)]
    evidence = plural(len(known), "host")
    return [passed("cluster", next(iter(versions)), evidence=evidence, **common)]


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= FEW else f"{len(names)} hosts"


def judge_vbios_spread(view: View) -> Iterable[Judgement]:
    """Pass if GPUs of one product have the same firmware; outliers are named."""
    found: dict[str, dict[str, list[str]]] = {}
    unread: set[str] = set(_silent(view, {n for n, f in _gpu_hosts(view).items() if devices(f)}))
    for name, facts in _gpu_hosts(view).items():
        for gpu in devices(facts):
            if gpu.vbios and gpu.name:
                found.setdefault(gpu.name, {}).setdefault(name, []).append(gpu.vbios)
            else:
                unread.add(str(place(name, f"GPU {gpu.index}")))
    simulated = _any_simulated(view)
    groups = {
        product: dict.fromkeys(chain(*by_host.values())) for product, by_host in found.items()
    }
    mixed = [product for product, versions in groups.items() if len(versions) > 1]
    results = [_outliers(view, p, str(usual(found[p])), simulated) for p in mixed]
    if unread or not groups:
        named = tuple(sorted(unread))
        why = Gap(f"no known firmware version of {', '.join(named) or 'any GPU'}", named)
        results.append(not_assessed("cluster", why, simulated=simulated))
    if results:
        return results
    value = ", ".join(version for versions in groups.values() for version in versions)
    return [passed("cluster", value, simulated=simulated)]


def _outliers(view: View, product: str, most: str, simulated: bool) -> Judgement:
    others = [
        f"{name}/GPU {gpu.index} {gpu.vbios}"
        for name, facts in _gpu_hosts(view).items()
        for gpu in devices(facts)
        if gpu.name == product and gpu.vbios not in {"", most}
    ]
    return warned(
        "cluster",
        f"{product}: firmware {most}, except for {', '.join(others[:FEW])}{' ...' if others[FEW:] else ''}",
        "get one firmware version for all GPUs from the vendor, and flash those that differ",
        value=len(others),
        unit="GPUs",
        limit=0,
        simulated=simulated,
    )


def _gpu_hosts(view: View) -> dict[str, HostFacts]:
    names = {host.name for host in view.site.with_role(Role.GPU)}
    return {name: facts for name, facts in view.facts.items() if name in names}


def _silent(view: View, known: Mapping[str, object] | set[str]) -> list[str]:
    return sorted(h.name for h in view.site.with_role(Role.GPU) if h.name not in known)


def _any_simulated(view: View) -> bool:
    return any(is_simulated(facts) for facts in _gpu_hosts(view).values())


def _unit(facts: HostFacts, name: str) -> Unit | None:
    """Return the state of a unit in systemd; None if unknown."""
    unit = facts.units.get(name)
    return None if unit is None or unit.active == "unknown" else unit


def judge_fabric_manager(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if, behind NVSwitch, the fabric manager runs in exactly the driver's version; elsewhere it must not run."""
    unit = _unit(facts, FABRIC_MANAGER)
    common: dict[str, object] = {"simulated": is_simulated(facts)}
    if unit is None and facts.fabric_manager is None:
        why = _unread(facts)
        return [not_assessed(host.name, why, **common)]
    if view.profile.hardware.gpu.interconnect is not Interconnect.NVSWITCH:
        return [_needless(host, facts, unit, common)]
    return [_in_step(host, facts, unit, common)]


def _again(host: Host) -> str:
    return f"appliance deploy --stage gpu --hosts {host.name}"


def _unread(facts: HostFacts) -> Gap:
    return facts.gap("fabric_manager" if "fabric_manager" in facts.errors else "units")


def _needless(
    host: Host, facts: HostFacts, unit: Unit | None, common: dict[str, object]
) -> Judgement:
    common |= {"limit": "absent", "limit_source": "a fabric manager is only for NVSwitch"}
    if facts.fabric_manager is None or unit is None:
        why = _unread(facts)
        return not_assessed(host.name, why, **common)
    if facts.fabric_manager or unit.load == "loaded":
        cause = (
            "a fabric manager is installed, but these GPUs have no NVSwitch: it fails at every boot"
        )
        fix = "remove the package nvidia-fabricmanager"
        value = facts.fabric_manager or unit.active
        return failed(host.name, cause, fix, value=value, **common)
    return passed(host.name, "absent", **common)


def _in_step(
    host: Host, facts: HostFacts, unit: Unit | None, common: dict[str, object]
) -> Judgement:
    driver = facts.gpus.driver if facts.gpus else ""
    found = facts.fabric_manager
    common |= {"limit": driver or None, "limit_source": LOCKSTEP}
    if found == "" or (unit is not None and unit.load == "not-found"):
        cause = "no fabric manager is installed: no CUDA program starts without one (error 802)"
        fix = f"{_again(host)} installs it in the driver's version"
        return failed(host.name, cause, fix, value="absent", **common)
    if found and driver and found != driver:
        cause = f"fabric manager {found} does not match driver {driver}: it refuses to start"
        fix = f"{_again(host)} installs the driver's version; type -a nv-fabricmanager there shows another program before the package's"
        return failed(host.name, cause, fix, value=found, **common)
    if unit is not None and (unit.active != "active" or unit.enabled not in AT_BOOT):
        cause = f"the fabric manager is {unit.active}, {unit.enabled or 'not enabled'} at boot"
        fix = _start(host, unit, FABRIC_MANAGER)
        return failed(host.name, cause, fix, value=unit.active, **common)
    if not found or not driver or unit is None:
        why = facts.gap("fabric_manager", "its version or state is unknown")
        return not_assessed(host.name, why, **common)
    return passed(host.name, found, **common)


def judge_persistence(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if persistence mode is on for every GPU, and its daemon is enabled at boot."""
    del view
    return [*each(host, facts, _persistence), *_daemon(host, facts)]


def _persistence(gpu: Gpu) -> GpuResult:
    if gpu.persistence is None:
        return unknown("the driver does not report whether persistence is on")
    if gpu.persistence:
        return good("on", "on")
    cause = "persistence is off: the driver restarts the GPU for every job, and loses its settings"
    fix = f"nvidia-smi -i {gpu.index} -pm 1; {PERSISTENCE} keeps it on if it starts at boot"
    return bad("off", cause, fix, "on")


def _daemon(host: Host, facts: HostFacts) -> list[Judgement]:
    target, unit = place(host.name, "daemon"), _unit(facts, PERSISTENCE)
    common: dict[str, object] = {"limit": "active", "simulated": is_simulated(facts)}
    if unit is None:
        why = facts.gap("units", "the unit was not read")
        return [not_assessed(target, why, **common)]
    if unit.active == "active" and unit.enabled in AT_BOOT:
        return [passed(target, unit.active, **common)]
    state = f"{unit.active}, {unit.enabled or 'not enabled'} at boot"
    fix = _start(host, unit, PERSISTENCE)
    if unit.load == "not-found":
        state, fix = "not installed", "appliance deploy --stage gpu"
    cause = f"the persistence daemon is {state}: persistence is off after the next boot"
    return [warned(target, cause, fix, value=unit.active, **common)]


def judge_services(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if DCGM, its exporter and the CDI unit run; the distribution's driver packages do not include them."""
    if view.site.repositories.gpu.source == "distribution":
        return []
    return [_service(host, facts, name) for name in SERVICES]


def _service(host: Host, facts: HostFacts, name: str) -> Judgement:
    unit, target = _unit(facts, name), place(host.name, name.removesuffix(".service"))
    common: dict[str, object] = {"limit": "active", "simulated": is_simulated(facts)}
    if unit is None:
        why = facts.gap("units", "the unit was not read")
        return not_assessed(target, why, **common)
    if unit.load == "not-found":
        cause, fix = f"{name} is not installed", "appliance deploy --stage gpu"
        return failed(target, cause, fix, value="absent", **common)
    if unit.active != "active" or unit.enabled not in AT_BOOT:
        cause = f"{name} is {unit.active}, {unit.enabled or 'not enabled'} at boot"
        fix = _start(host, unit, name)
        return failed(target, cause, fix, value=unit.active, **common)
    return passed(target, unit.active, **common)


def _start(host: Host, unit: Unit, name: str) -> str:
    start = f"journalctl -u {name} shows why; systemctl enable --now {name}"
    return revived(unit, name, host.name, start)
