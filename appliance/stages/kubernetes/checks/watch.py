"""Judges the hosts' own watch for Kubernetes: whether it runs, whether unfit hosts get pods, and whether fit hosts get none."""

from collections.abc import Iterable

from appliance.checks.causes import Cause, Reach, is_unknown
from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement
from appliance.models.site import Host, Owner
from appliance.models.watch import Watch, WatchOptions
from appliance.stages.fitness import judge_out, judge_stopped, most_out
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.causes import PRESSED, UNFIT
from appliance.stages.kubernetes.site import KubernetesOptions

OLD_SECONDS = 180.0
"""Six rounds of appliance-node-watch.timer."""
TIMER, PROGRAM = "appliance-node-watch.timer", "appliance-node-watch"
STAGE = "appliance deploy --stage kubernetes"
UNREPORTED = "not reported"
"""Value of a result about a host whose verdict did not reach the API."""


def judge_watch(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the watch runs and an unfit host gets no new pods."""
    seen = facts.node_watch
    if view.site.owner(host) is not Owner.KUBERNETES:
        return []
    if seen is None:
        return [not_assessed(host.name, _gap(facts), fix=STAGE)]
    if seen.age_s > OLD_SECONDS:
        fix = f"on {host.name}: systemctl restart {TIMER}; if that does not help: journalctl -u {PROGRAM}"
        return [judge_stopped(host, seen, OLD_SECONDS, f"{TIMER} does not start it", fix)]
    if seen.causes:
        return [_unfit(view, host, seen)]
    if seen.gaps:
        cause = f"the host cannot check or report everything: {'; '.join(seen.gaps)}"
        fix = f"on {host.name}: {PROGRAM} look"
        return [warned(host.name, cause, fix, value=UNREPORTED if _unreported(seen) else "unknown")]
    return [passed(host.name, "fit")]


def judge_return(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge a repaired host that cordoned itself: the next deployment, or the host after a while, uncordons it."""
    seen = facts.node_watch
    if view.site.owner(host) is not Owner.KUBERNETES:
        return []
    if seen is None or seen.age_s > OLD_SECONDS:
        old = Gap("the last run of the host's watch is too old")
        return [not_assessed(host.name, _gap(facts) if seen is None else old)]
    if seen.state != "out":
        return [passed(host.name, "not out")]
    fix = f"{STAGE} --hosts {host.name}"
    minutes = _options(view).return_after_minutes
    return [judge_out(host, facts, seen, "node_watch", "cordoned", fix, minutes)]


def _gap(facts: HostFacts) -> Gap:
    return facts.gap("node_watch", "no program checks this host for Kubernetes")


def _options(view: View) -> WatchOptions:
    return (view.site.kubernetes or KubernetesOptions()).watch


def _unreported(seen: Watch) -> str:
    """Return why the API did not get the verdict; "" if it did."""
    return next((gap for gap in seen.gaps if gap.startswith("Kubernetes did not get")), "")


def _unfit(view: View, host: Host, seen: Watch) -> Judgement:
    """Report an unfit host. The fault has its own check, except findings of the site's programs."""
    said = "; ".join(map(str, seen.causes))
    common = {"names": tuple(dict.fromkeys(c.check for c in seen.causes)), "value": "unfit"}
    fix = f"fix that; {PROGRAM} look on {host.name} checks it"
    if seen.state == "over":
        most = most_out(view.site, _options(view))
        cause = f"unfit but not cordoned: the limit of hosts that cordon themselves ({most}) is reached: {said}"
        fix = f"check all of them for a common cause; to change the limit, set kubernetes.watch.most_out; kubectl cordon {host.name}"
        return failed(host.name, cause, fix, **common)
    if seen.state == "silent":
        cause = f"unfit but not cordoned: the API does not answer the host: {said}"
        told = {**common, "value": UNREPORTED, "evidence": _unreported(seen)}
        return failed(host.name, cause, fix, **told)
    if not seen.state:
        return warned(host.name, f"an operator uncordoned it despite: {said}", fix, **common)
    if ids.WATCH in common["names"]:
        return failed(host.name, said, fix, **common)
    return passed(host.name, "unfit and cordoned", evidence="; ".join([said, *seen.gaps]))


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.RETURN,
        "Hosts that are fit again get pods again",
        GPU_HOSTS,
        judge_return,
        "A GPU host that cordoned itself returns after it was fit for kubernetes.watch.return_after_minutes. After a repair, a deployment of "
        "stage kubernetes returns it at once; until then this check fails. Cordons by an operator are excluded. So are faults of a GPU (off "
        "its bus, lost, ECC, remapping, Xid, PCIe): a reboot hides them without fixing them.",
        causes=(
            Cause(
                ids.WATCH, "a stopped watch does not know whether the host is fit", when=is_unknown
            ),
            PRESSED,
        ),
    ),
    HostCheck(
        ids.WATCH,
        "Hosts check themselves",
        GPU_HOSTS,
        judge_watch,
        "Every GPU host checks itself each half minute, by the same facts as health. It writes the verdict into the condition ApplianceFit of "
        "its node, and each kind of fault into a condition of its own. It cordons itself if it is unfit. The check fails if the timer is stopped, a check hangs, or a program in "
        "/etc/appliance/health.d fails. It also fails if an unfit host still gets pods: the limit kubernetes.watch.most_out is reached, or the "
        "API does not answer.",
        nature=Nature.SYMPTOM,
        causes=(
            UNFIT,
            Cause(
                ids.API,
                "a host cordons itself through the API",
                Reach.SITE,
                lambda cause, effect: effect.value == UNREPORTED,
            ),
        ),
    ),
)
