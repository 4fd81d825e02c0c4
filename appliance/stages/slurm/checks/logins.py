"""Whether ssh to GPU hosts asks for a job, as the site wants it."""

from collections.abc import Iterable

from appliance.checks.causes import Effect, names_only
from appliance.checks.check import GPU_HOSTS, Check, HostCheck, View, failed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.base import ids as base_ids
from appliance.stages.slurm import ids
from appliance.stages.slurm.checks import DEPLOY
from appliance.stages.slurm.variables import holds_jobs
from appliance.stages.slurm.variables.logins import concerns, hindrance, is_wanted

PAM = "/etc/pam.d/sshd"
LEFT = "puts the file back as it was left"


def judge_logins(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Nothing is said where the site wants nothing, or people log in to submit jobs."""
    if not is_wanted(view.site) or not concerns(host):
        return
    told = {"limit": "a job", "limit_source": "slurm.ssh_needs_job"}
    if why := hindrance(view.site, host, facts, view.once(_holds)):
        cause = f"ssh lets in who has no job here: {why}"
        fix = "write slurm.ssh_needs_job: false, which says that it is meant so"
        judged = failed if view.site.slurm.ssh_needs_job else warned
        yield judged(host.name, cause, fix, value="nothing", **told)
    elif any(d.name == PAM for receipt in facts.receipts.values() for d in receipt.drift):
        cause = f"{PAM} was changed by hand: it may let people in who have no job"
        fix = f"{DEPLOY} --stage slurm --limit {host.name}, which {LEFT}"
        yield failed(host.name, cause, fix, value="unknown", **told)
    else:
        yield passed(host.name, "a job", **told)


def _holds(view: View) -> bool:
    return holds_jobs(view.site, view.standing.facts or view.facts)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.LOGINS,
        "ssh to GPU hosts is for those who have a job there",
        GPU_HOSTS,
        judge_logins,
        "pam_slurm_adopt refuses people without a job on the host; a session of somebody with a job becomes part of it, with its cores, memory, "
        "GPUs and end. It needs jobs that Slurm holds by cgroup v2, which containers, Ubuntu 22.04 and hosts of cgroup v1 lack. "
        "Root, admins and the account of deployments are always let in.",
        limit="slurm.ssh_needs_job of the site; unset: wanted where base.users names somebody",
        explains=(
            Effect(
                base_ids.DRIFT,
                "it is the file that changed",
                when=names_only(f"file {PAM}"),
            ),
        ),
    ),
)
