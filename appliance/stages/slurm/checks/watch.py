"""Judges the hosts' own watch: whether it runs, whether unfit hosts keep jobs, and whether fit hosts get none."""

from collections.abc import Iterable

from appliance.checks.causes import Cause, Reach, is_of, is_unknown
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
from appliance.checks.extra_results import REACHABLE
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host, Owner, Role
from appliance.models.watch import Watch
from appliance.stages.fitness import judge_out, judge_stopped, most_out
from appliance.stages.slurm import ids
from appliance.stages.slurm.causes import NO_MUNGE, UNFIT
from appliance.stages.slurm.checks import DEPLOY, WORKING, controller_of, state_words

OLD_SECONDS = 300.0
"""Five rounds of HealthCheckInterval."""


def judge_watch(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the host's own watch runs, and an unfit host gets no jobs."""
    seen = facts.watch
    if seen is None:
        why = facts.gap("watch", "no program checks this host for Slurm")
        return [not_assessed(host.name, why, fix="appliance deploy --stage slurm")]
    if seen.age_s > OLD_SECONDS:
        fix = f"journalctl -u slurmd on {host.name}, and slurmctld on the first control host"
        first = view.site.with_role(Role.CONTROL)[:1]
        silent = tuple(one.name for one in first if one.name not in view.facts)
        return [judge_stopped(host, seen, OLD_SECONDS, "Slurm does not run it", fix, silent)]
    if not seen.causes:
        return [passed(host.name, "fit")]
    return [_unfit(view, host, seen)]


def _unfit(view: View, host: Host, seen: Watch) -> Judgement:
    """Report an unfit host. The fault has its own check, except findings of the site's programs."""
    said = "; ".join(map(str, seen.causes))
    common = {"names": tuple(dict.fromkeys(c.check for c in seen.causes)), "value": "unfit"}
    fix = f"fix that; appliance-watch look on {host.name} checks it"
    if seen.state == "over":
        most = most_out(view.site, view.site.slurm_options.watch)
        cause = (
            f"unfit but not drained: the limit of self-drained hosts ({most}) is reached: {said}"
        )
        fix = f"check all self-drained hosts for a common cause; to change the limit, set slurm.watch.most_out; scontrol update nodename={host.name} state=drain"
        return failed(host.name, cause, fix, **common)
    if seen.state == "silent":
        cause = f"unfit but not drained: slurmctld does not answer the host: {said}"
        return failed(host.name, cause, fix, **common)
    if not seen.state:
        return warned(host.name, f"an operator resumed it despite: {said}", fix, **common)
    if ids.WATCH in common["names"]:
        return failed(host.name, said, fix, **common)
    return passed(host.name, "unfit and drained", evidence="; ".join([said, *seen.gaps]))


def judge_return(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge a repaired host that drained itself: the next deployment, or the host after a while, resumes it.

    Drains by an operator, and faults of a GPU that only an operator may declare fixed, are excluded.
    """
    seen = facts.watch
    if view.site.owner(host) is not Owner.SLURM:
        return []
    if seen is None or seen.age_s > OLD_SECONDS:
        none = "no program checks this host for Slurm"
        why = (
            facts.gap("watch", none)
            if seen is None
            else "the last run of the host's watch is too old"
        )
        return [not_assessed(host.name, why)]
    if seen.state != "out" or _is_at_work(view, host):
        return [passed(host.name, "not out")]
    minutes = view.site.slurm_options.watch.return_after_minutes
    fix = f"{DEPLOY} --hosts {host.name}"
    return [judge_out(host, facts, seen, "watch", "drained", fix, minutes)]


def _is_at_work(view: View, host: Host) -> bool:
    """Return whether the host takes jobs, by the controller's state, which is newer than the host's record."""
    first = controller_of(view)
    facts = view.facts.get(first.name) if first else None
    nodes = facts.slurm.nodes if facts and facts.slurm else None
    states = [state_words(node.state) for node in nodes or () if node.name == host.name]
    return any(words and words <= WORKING for words in states)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.RETURN,
        "Hosts that are fit again accept jobs again",
        GPU_HOSTS,
        judge_return,
        "A GPU host that drained itself is resumed after it was fit for slurm.watch.return_after_minutes. After a repair, by a deployment "
        "or by hand, stage slurm resumes it at once; until then this proof fails. It checks the host again, and excludes drains by an "
        "operator and faults of a GPU (off its bus, lost, ECC, remapping, Xid, PCIe) that a reboot hides without fixing.",
        causes=(
            Cause(
                ids.WATCH, "a stopped watch does not know whether the host is fit", when=is_unknown
            ),
        ),
    ),
    HostCheck(
        ids.WATCH,
        "Hosts check themselves",
        GPU_HOSTS,
        judge_watch,
        "Every GPU host checks itself each minute and before each job, by the same facts as health, and drains itself if it is unfit. The "
        "check fails if that does not happen (Slurm does not run it, or it hangs), if a program in /etc/slurm/health.d fails, or if an "
        "unfit host keeps its jobs, because the limit slurm.watch.most_out is reached or slurmctld does not answer.",
        nature=Nature.SYMPTOM,
        causes=(
            UNFIT,
            Cause(
                ids.DAEMONS,
                "Slurm's daemons start the host's self-check",
                when=is_of("slurmd"),
            ),
            Cause(
                ids.DAEMONS,
                "Slurm's daemons start the self-checks of hosts",
                Reach.SITE,
                is_of("slurmctld"),
            ),
            Cause(
                REACHABLE,
                "Slurm's controller, which starts the self-checks of hosts, is on that host",
                Reach.NAMED,
            ),
            NO_MUNGE,
        ),
    ),
)
