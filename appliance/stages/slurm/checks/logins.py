"""Checks whether ssh to GPU hosts requires a job, as configured in the site."""

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
LEFT = "restores the file"


def judge_logins(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge logins. No result if the site does not require a job, or if the host is for submitting jobs."""
    if not is_wanted(view.site) or not concerns(host):
        return
    told = {"limit": "a job", "limit_source": "slurm.ssh_needs_job"}
    if why := hindrance(view.site, host, facts, view.once(_holds)):
        cause = f"ssh accepts users without a job here: {why}"
        fix = "if this is intended, set slurm.ssh_needs_job: false"
        judged = failed if view.site.slurm_options.ssh_needs_job else warned
        yield judged(host.name, cause, fix, value="nothing", **told)
    elif any(d.name == PAM for receipt in facts.receipts.values() for d in receipt.drift):
        cause = f"{PAM} was changed by hand: it may accept users without a job"
        fix = f"{DEPLOY} --stage slurm --hosts {host.name}, which {LEFT}"
        yield failed(host.name, cause, fix, value="unknown", **told)
    else:
        yield passed(host.name, "a job", **told)


def _holds(view: View) -> bool:
    return holds_jobs(view.site, view.standing.facts or view.facts)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.LOGINS,
        "ssh to GPU hosts requires a job there",
        GPU_HOSTS,
        judge_logins,
        "pam_slurm_adopt refuses users without a job on the host. The session of a user with a job becomes part of the job, with its cores, "
        "memory, GPUs and end. It needs jobs in cgroup v2, which containers, Ubuntu 22.04 and hosts with cgroup v1 lack. Root, admins and "
        "the deployment account can always log in.",
        limit="slurm.ssh_needs_job of the site; unset: required if base.users lists users",
        explains=(
            Effect(
                base_ids.DRIFT,
                "this file changed",
                when=names_only(f"file {PAM}"),
            ),
        ),
    ),
)
