"""On the virtual rack: kubeconfigs where people log in, root's and those of example members, who find a pod to try, too."""

from collections.abc import Iterable

from appliance.actions.kubernetes import member_kubeconfig
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.benchmarks.project_queue import name_of, queue_of
from appliance.engine.run import kubeconfig
from appliance.engine.session import Session
from appliance.errors import ApplianceError, CommandFailed
from appliance.models.events import Message
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role, Site
from appliance.stages.scheduler.queues.manifest import text

DAYS = member_kubeconfig.MOST_DAYS
KUBECONFIG = ".kube/config"
POD_FILE, POD = "gpu-pod.yaml", "gpu-pod"
_FINISHED = frozenset({StageState.DONE, StageState.SKIPPED})
AFTER = frozenset({"kubernetes", "queues"})
"""Stages after which earlier kubeconfigs may open nothing."""
WRITE = 'set -eu; cd ~{user}; umask 077; mkdir -p "$(dirname "$1")"; cat > "$1"'
SECONDS = 30.0


def members(site: Site) -> tuple[str, ...]:
    """Members of projects who have an account on the hosts."""
    if queue_of(site) is None or site.scheduler is None:
        return ()
    accounts = {user.name for user in site.base.users}
    found = (user for project in site.scheduler.projects for user in project.users)
    return tuple(dict.fromkeys(user for user in found if user in accounts))


def hand_out(session: Session, outcomes: Iterable[StageOutcome]) -> None:
    """Gives out what is missing, or was given before the cluster or its queues changed. A failure is a warning."""
    users = members(session.site)
    if not users:
        return
    states = {o.stage: o.state for o in outcomes}
    if any(states.get(stage, StageState.SKIPPED) not in _FINISHED for stage in AFTER):
        return
    is_new = any(states.get(stage) is StageState.DONE for stage in AFTER)
    if not is_new and all((session.folder / f"kubeconfig-{user}").exists() for user in users):
        return
    try:
        _give(session, users)
    except ApplianceError as error:
        text = f"the members of the rack's projects got no kubeconfig: {error.message}"
        session.tell(Message(text=text, level="warning"))


def _give(session: Session, users: tuple[str, ...]) -> None:
    made = kubeconfig.issue(session.remote, session.site, session.folder, DAYS)
    host = (session.site.with_role(Role.LOGIN) or session.site.with_role(Role.CONTROL))[0].name
    _put(session, host, "root", KUBECONFIG, made.file.read_text(encoding="utf-8"))
    with KubernetesApi(made.file) as api:
        for user in users:
            own = member_kubeconfig.issue(session, api, user, DAYS)
            _put(session, host, user, KUBECONFIG, own.file.read_text(encoding="utf-8"))
            _put(session, host, user, POD_FILE, pod_of(session.site, user))


def pod_of(site: Site, user: str) -> str:
    """A pod of the user's own project with one GPU, as a file for kubectl."""
    # What a deployment only prints needs nothing that measures.
    from appliance.benchmarks.queue_pod import pod

    pair = queue_of(site, user)
    image = (site.kubernetes.trial_image if site.kubernetes else None) or "busybox:1.36.1"
    return text(pod(Ref("v1", "Pod", POD), name_of(*pair), image)) if pair else ""


def _put(session: Session, host: str, user: str, path: str, content: str) -> None:
    """Written as the user: root follows no path that a user controls."""
    argv = ("runuser", "-u", user, "--", "sh", "-c", WRITE.format(user=user))
    done = session.remote.run(host, (*argv, "write", path), input=content.encode(), timeout=SECONDS)
    if done.returncode:
        said = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise CommandFailed(f"{host}: {path} of {user} was not written: {said}", "appliance deploy")
