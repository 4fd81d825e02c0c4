"""Will the kernel parameters of the stage still hold after the next boot; a later file may say otherwise."""

from collections.abc import Iterable

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base.variables import judged


def judge_boot(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """No file that is read later sets one of them to something else."""
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
            f"{key} will be {found.value}, not {own[key]}: {found.file} says so last",
            f"take {key} out of {found.file}",
            value=found.value,
            limit=own[key],
        )
    if not wrong:
        yield passed(host.name, len(own), unit="parameters")
