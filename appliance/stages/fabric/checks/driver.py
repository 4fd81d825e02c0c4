"""Checks the adapters' driver: the kernel's own, or the site's release of DOCA-OFED."""

import re
from collections.abc import Iterable

from appliance.checks.check import Check, HostCheck, View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.fabric import ids
from appliance.stages.fabric.checks.ports import is_simulated
from appliance.stages.fabric.checks.services import MEMBERS

MODULE = "mlx5_core"
PACKAGE = "doca-ofed"
INBOX = "the kernel's own"


def judge_driver(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge the version of the loaded mlx5_core: the kernel's own has none (Linux 5.7 and newer)."""
    if view.profile.hardware.fabric.link_layer == "none":
        return []
    doca = view.site.fabric.driver == "doca"
    release = view.profile.software.doca_ofed or ""
    common: dict[str, object] = {
        "limit": f"DOCA-OFED {release}" if doca else INBOX,
        "limit_source": "site.fabric.driver",
        "simulated": is_simulated(facts),
    }
    module = facts.modules.get(MODULE)
    if facts.os.container and not is_simulated(facts):
        cause = "a container uses the driver of its machine"
        return [not_assessed(host.name, cause, required=False, **common)]
    if module is None:
        return _not_loaded(host, facts, doca, common)
    if not doca:
        return [_inbox(host, facts, module.version, common)]
    if not module.version:
        cause = "the kernel's own driver is loaded, not DOCA-OFED"
        fix = "appliance deploy --stage fabric installs it and reboots the host"
        return [failed(host.name, cause, fix, value=INBOX, **common)]
    installed = _installed(facts)
    if not installed:
        cause = "NVIDIA's driver is loaded, but its release of DOCA-OFED is unknown"
        fix = "appliance deploy --stage fabric installs the release"
        return [not_assessed(host.name, cause, fix=fix, value=module.version, **common)]
    if not _of_release(installed, release):
        cause = f"DOCA-OFED {installed} is installed, not {release}"
        fix = "appliance deploy --stage fabric; the repository must offer the release"
        return [failed(host.name, cause, fix, value=installed, **common)]
    evidence = f"DOCA-OFED {installed}"
    return [passed(host.name, module.version, evidence=evidence, **common)]


def _not_loaded(
    host: Host, facts: HostFacts, doca: bool, common: dict[str, object]
) -> Iterable[Judgement]:
    """Judge a missing driver: adapters of other vendors have other drivers; a simulated one needs none."""
    if doca:
        cause = f"{MODULE} is not loaded: DOCA-OFED is not installed, or not built for this kernel"
        fix = "appliance deploy --stage fabric; dkms status and dmesg on the host show what failed"
        return [failed(host.name, cause, fix, **common)]
    if is_simulated(facts) or not facts.ports:
        return []
    cause = f"{MODULE} is not loaded: the adapters are of another kind"
    return [not_assessed(host.name, cause, required=False, **common)]


def _inbox(host: Host, facts: HostFacts, version: str, common: dict[str, object]) -> Judgement:
    if not version:
        return passed(host.name, INBOX, **common)
    if _installed(facts):
        cause = f"NVIDIA's driver {version} is loaded, not the kernel's own"
        fix = "appliance deploy --stage fabric removes it and reboots the host"
        return failed(host.name, cause, fix, value=version, **common)
    cause = f"NVIDIA's driver {version} is loaded, which is not managed by this program"
    fix = "set fabric.driver: doca, or uninstall it (/usr/sbin/ofed_uninstall.sh) and reboot"
    return warned(host.name, cause, fix, value=version, **common)


def _installed(facts: HostFacts) -> str:
    """Return the installed version while the stage is proved; otherwise the one in its receipt."""
    for seen in facts.resources:
        if (seen.get("kind"), seen.get("name")) == ("package", PACKAGE):
            return str(seen.get("version") or "")
    receipt = facts.receipts.get("fabric")
    return receipt.versions.get(PACKAGE, "") if receipt else ""


def _of_release(version: str, release: str) -> bool:
    wanted = release.split(".")
    return re.split(r"[.-]", version)[: len(wanted)] == wanted


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.DRIVER,
        title="The adapters' driver is the configured one",
        roles=MEMBERS,
        judge=judge_driver,
        explain="Whether the loaded mlx5_core is the kernel's own, which has no version, or NVIDIA's, and which release of DOCA-OFED stage fabric "
        "installed. This shows a driver that was installed but not loaded, or not built for a new kernel. A driver installed by others is a "
        "warning and stays.",
        limit="fabric.driver and software.doca_ofed",
        by_container=True,
    ),
)
