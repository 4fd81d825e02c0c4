"""A cluster that the site no longer asks for and that still has pods of users: stage kubernetes would end them."""

import json

from appliance.engine.look.gather import Round
from appliance.engine.run.kubernetes_hosts import ends_by_itself, is_work
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.plan import Plan
from appliance.models.site import Role
from appliance.stages.kubernetes import charts
from appliance.stages.kubernetes.collect.platform import SPACE, SPACES_OF_CALICO
from appliance.stages.kubernetes.stage import STAGE
from appliance.stages.scheduler.queues.charts import charts as charts_of_schedulers
from appliance.stages.workloads.table import table
from appliance.text import first_few

ASK = """
[ -e /etc/kubernetes/admin.conf ] || exit 0
exec kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 20s get pods --all-namespaces --output json \\
  --field-selector status.phase!=Succeeded,status.phase!=Failed
"""
SECONDS = 60.0
PLATFORM = frozenset({SPACE, *SPACES_OF_CALICO, "calico-apiserver"})


def refuse_leaving_pods(session: Session, found: Round, plan: Plan) -> None:
    """Raises ConfigError if stage kubernetes would be removed while pods of users run or wait."""
    site = session.site
    changed = {cell.host for cell in plan.pending() if cell.stage == STAGE.name}
    if not any(STAGE.is_removal(site, site.host(h), found.facts.get(h)) for h in changed):
        return
    for host in site.with_role(Role.CONTROL):
        if busy := _pods(session, host.name):
            raise ConfigError(
                f"Kubernetes was removed from the site, but pods of users still run: {first_few(busy)}",
                "wait until they end, or delete them and their controllers (kubectl delete); then deploy again",
            )


def _pods(session: Session, host: str) -> list[str]:
    """Pods of users by namespace and name, as the API of a control host lists them; none if it no longer has a cluster."""
    done = session.remote.run(host, ("sh", "-c", ASK), timeout=SECONDS)
    if done.returncode:
        said = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise ConfigError(
            f"Kubernetes was removed from the site, but its API on {host} does not list the running pods: {said}",
            f"repair the API; or, to discard all pods: ssh {host} kubeadm reset --force; then deploy again",
        )
    pods = json.loads(done.stdout)["items"] if done.stdout.strip() else []
    own = {
        chart.namespace for chart in (*charts.charts().values(), *charts_of_schedulers().values())
    }
    declared = {addon.namespace for addon in table().addons}
    busy = []
    for pod in pods:
        space, name = pod["metadata"].get("namespace", ""), pod["metadata"]["name"]
        # What the site itself declared goes with its section; a notebook there is a user's.
        is_users = space not in declared or ends_by_itself(pod)
        if space not in PLATFORM | own and is_work(pod) and is_users:
            busy.append(f"{space}/{name}")
    return sorted(busy)
