"""Checks of the next boot: the stage's kernel parameters, which a later file may override, every mount, and logins."""

import re
from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base.variables import judged

NO_SERVICE = frozenset(
    f"{name}.target"
    for name in ("rescue", "emergency", "poweroff", "halt", "reboot", "kexec", "shutdown", "exit")
)
"""Default targets without services (systemd.special(7))."""


PLAIN = re.compile(r"[A-Za-z0-9_./-]+", re.ASCII)


def judge_boot(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if no file that is read later overrides a parameter."""
    own, _ = judged(view.profile, view.site, host, facts)
    at_boot = facts.sysctl_at_boot
    if at_boot is None:
        yield not_assessed(host.name, facts.gap("sysctl"))
        return
    wrong = [key for key in own if key in at_boot and at_boot[key].value != own[key]]
    for key in wrong:
        found = at_boot[key]
        yield failed(
            place(host.name, key),
            f"{key} will be {found.value}, not {own[key]}: {found.file} is read last",
            _removed(host, key, found.file),
            value=found.value,
            limit=own[key],
        )
    if not wrong:
        yield passed(host.name, len(own), unit="parameters")


def _removed(host: Host, key: str, file: str) -> str:
    """sysctl.d separates the parts of a key by a dot or a slash, and ignores errors of a key after a minus."""
    if not PLAIN.fullmatch(file):
        return f"on {host.name}: remove {key} from {file}"
    pattern = key.replace(".", "[./]")
    return f"on {host.name}: sed -i -E '/^\\s*-?{pattern}\\s*=/d' {file}"


def judge_start(host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the next boot will start services, not an emergency shell."""
    if facts.os.boots_into in NO_SERVICE:
        yield failed(
            place(host.name, "default.target"),
            f"the next boot ends in {facts.os.boots_into}: no service starts and no one can log in",
            f"on {host.name}: systemctl set-default multi-user.target",
            value=facts.os.boots_into,
            limit="multi-user.target or graphical.target",
        )
    for at in facts.os.lost_at_boot:
        change = ""
        if PLAIN.fullmatch(at):
            pattern = r"s#^(\S+\s+" + at.replace(".", r"\.") + r"\s+\S+\s+)#\1nofail,#"
            change = f"; if the disk is not coming back soon: sed -i -E '{pattern}' /etc/fstab"
        yield failed(
            place(host.name, "fstab", at),
            f"/etc/fstab mounts {at} from a device that is not there: the next boot stops in an emergency shell",
            f"on {host.name}: findmnt --verify shows it; connect the device, or correct or remove the line of {at} in /etc/fstab{change}",
            value="lost",
            limit="a device that is there, or the option nofail",
        )
