"""What hosts find of themselves: whether their watch looks at all, whether somebody unfit keeps his jobs, or somebody fit gets none."""

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
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host, Owner
from appliance.stages.slurm import ids
from appliance.stages.slurm.causes import NO_MUNGE, UNFIT
from appliance.stages.slurm.checks import DEPLOY, WORKING, controller_of, state_words
from appliance.stages.slurm.facts import Watch
from appliance.stages.slurm.variables.watch import most_out

OLD_SECONDS = 300.0
"""Five rounds of HealthCheckInterval."""


def judge_watch(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """The host's own watch looks, and who is unfit by it takes no jobs."""
    seen = facts.watch
    if seen is None:
        why = facts.gap("watch", "no program judges this host for Slurm")
        return [not_assessed(host.name, why, fix="appliance deploy --stage slurm")]
    if seen.age_s > OLD_SECONDS:
        cause = f"the host's watch looked {seen.age_s / 60:.0f} min ago: Slurm does not run it"
        fix = f"journalctl -u slurmd on {host.name}, and slurmctld on the first control host"
        if seen.held_by:
            cause = f"the host's watch looked {seen.age_s / 60:.0f} min ago: a look that began since does not end (process {seen.held_by})"
            fix = f"on {host.name}: ps -o lstart,stat,wchan:30,args {seen.held_by} shows what it waits for; kill -9 {seen.held_by}, or reboot the host"
        return [failed(host.name, cause, fix, value=seen.age_s, unit="s", limit=OLD_SECONDS)]
    if not seen.causes:
        return [passed(host.name, "fit")]
    return [_unfit(view, host, seen)]


def _unfit(view: View, host: Host, seen: Watch) -> Judgement:
    """What took the host out is told by a check of its own, but for what the site's programs find."""
    said = "; ".join(map(str, seen.causes))
    common = {"names": tuple(dict.fromkeys(c.check for c in seen.causes)), "value": "unfit"}
    fix = f"mend that; appliance-watch look on {host.name} says whether it is"
    if seen.slurm == "over":
        most = most_out(view.site)
        cause = f"unfit, and keeps its jobs, for no more than {most} may drain themselves at once: {said}"
        fix = f"look at all of them: that many at once are rarely broken; slurm.watch.most_out; scontrol update nodename={host.name} state=drain"
        return failed(host.name, cause, fix, **common)
    if seen.slurm == "silent":
        cause = f"unfit, and could not be drained, for slurmctld does not answer it: {said}"
        return failed(host.name, cause, fix, **common)
    if not seen.slurm:
        return warned(host.name, f"a person gave it back to Slurm with: {said}", fix, **common)
    if ids.WATCH in common["names"]:
        return failed(host.name, said, fix, **common)
    return passed(host.name, "unfit, and out", evidence="; ".join([said, *seen.gaps]))


def judge_return(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """A host that took itself out and was mended is given back: by the next deployment, or by itself after a while.

    What a person drained, and faults of a GPU that only a person may call mended, are left out.
    """
    seen = facts.watch
    if view.site.owner(host) is not Owner.SLURM:
        return []
    if seen is None or seen.age_s > OLD_SECONDS:
        none = "no program judges this host for Slurm"
        why = facts.gap("watch", none) if seen is None else "the host's watch looked too long ago"
        return [not_assessed(host.name, why)]
    if seen.slurm != "out" or _is_at_work(view, host):
        return [passed(host.name, "not out")]
    if not seen.returns:
        return [passed(host.name, "out, and a person's to give back")]
    if seen.fit is None:
        why = facts.gap("watch", "whether it is fit by now was not asked")
        return [not_assessed(host.name, why)]
    if not seen.fit:
        return [passed(host.name, "out, and not fit yet")]
    cause = "it is fit again, and still out of Slurm as its own watch left it"
    minutes = view.site.slurm.watch.return_after_minutes
    later = f"; or wait: it comes back by itself once fit for {minutes:g} min" if minutes else ""
    fix = f"{DEPLOY} --limit {host.name}{later}"
    return [failed(host.name, cause, fix, value="fit, and out")]


def _is_at_work(view: View, host: Host) -> bool:
    """What the controller says is younger than the host's own note, where it was asked."""
    first = controller_of(view)
    facts = view.facts.get(first.name) if first else None
    nodes = facts.slurm.nodes if facts and facts.slurm else None
    states = [state_words(node.state) for node in nodes or () if node.name == host.name]
    return any(words and words <= WORKING for words in states)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.RETURN,
        "Hosts that are fit again take jobs again",
        GPU_HOSTS,
        judge_return,
        "A GPU host that drained itself comes back by itself once it was fit for slurm.watch.return_after_minutes. Where it was mended, "
        "by a deployment or by hand, stage slurm gives it back at once: this is the proof that fails until then. It judges the host anew, "
        "and leaves out what a person drained, and faults of a GPU (off its bus, lost, ECC, remapping, Xid, PCIe), which a reboot hides and does not mend.",
        causes=(
            Cause(ids.WATCH, "what does not look cannot say whether it is fit", when=is_unknown),
        ),
    ),
    HostCheck(
        ids.WATCH,
        "Hosts judge themselves",
        GPU_HOSTS,
        judge_watch,
        "Every GPU host judges itself each minute and before each job, by the same facts as health, and drains where it is unfit. "
        "It fails where that does not happen (Slurm does not run it, or a look does not end), where a program of /etc/slurm/health.d fails, or where a host is unfit and keeps its jobs: "
        "as many as slurm.watch.most_out allows are out already, or slurmctld does not answer it.",
        nature=Nature.SYMPTOM,
        causes=(
            UNFIT,
            Cause(
                ids.DAEMONS,
                "Slurm's daemons have the host look at itself",
                when=is_of("slurmd"),
            ),
            Cause(
                ids.DAEMONS,
                "Slurm's daemons have hosts look at themselves",
                Reach.SITE,
                is_of("slurmctld"),
            ),
            NO_MUNGE,
        ),
    ),
)
