"""One survey of a whole site: every host, an external cluster and Run:ai if there are any."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from appliance.adapters.kubernetes import KubernetesApi
from appliance.checks.check import View
from appliance.engine.look import runai_state
from appliance.engine.look.fact_history import earlier_facts
from appliance.engine.look.failed_stages import failed_stages
from appliance.engine.look.gather import Round, gather
from appliance.engine.look.posture import taken_files
from appliance.engine.look.probe_requests import Beside, request_for
from appliance.engine.look.shared_baseline import shared_facts_of
from appliance.engine.session import Session
from appliance.engine.threads import threads
from appliance.errors import ApplianceError
from appliance.stages.kubernetes.collect.cluster import node
from appliance.stages.kubernetes.facts import ExternalCluster, KubernetesNode

WAITS_S = (1.0,)
"""A single retry, because the caller needs to know soon that the API does not answer."""


def survey(
    session: Session,
    hosts: Sequence[str] | None = None,
    beside: Beside = Beside.NOTHING,
    meanwhile: Callable[[], object] = lambda: None,
) -> Round:
    """Request everything that the checks read from these hosts (None: all hosts of the site). ``beside``: what to read
    outside the stages.
    ``meanwhile``: work that needs no answer.
    """
    names = [h.name for h in session.site.hosts] if hosts is None else list(hosts)
    requests = {name: request_for(session, name, beside) for name in names}
    external, runai = session.site.external_cluster is not None, runai_state.is_known(session)
    if not external and not runai:
        return gather(session.remote, requests, meanwhile)
    with threads(2) as pool:
        cluster = pool.submit(_ask_cluster, session) if external else None
        control_plane = pool.submit(runai_state.ask, session) if runai else None
        found = gather(session.remote, requests, meanwhile)
        return replace(
            found,
            external=cluster.result() if cluster else None,
            runai=control_plane.result() if control_plane else None,
        )


def view_of(session: Session, found: Round) -> View:
    """Return what checks may read after this round; plan, judgement and report share it."""
    if not found.views:
        before, failed = earlier_facts(session), failed_stages(session, found.facts)
        found.views.append(
            View(
                session.profile,
                session.site,
                found.facts,
                before,
                found.external,
                session.lock,
                failed,
                taken=taken_files(session, found),
                standing=shared_facts_of(session, found.facts),
                runai=found.runai,
            )
        )
    return found.views[0]


def _ask_cluster(session: Session) -> ExternalCluster:
    kubeconfig = session.folder / str(session.site.external_cluster)
    try:
        with KubernetesApi(kubeconfig, waits=WAITS_S) as api:
            found = api.find("v1", "Node", "")
    except ApplianceError as error:
        return ExternalCluster(api=error.message, fix=error.hint)
    nodes = tuple(KubernetesNode.model_validate(node(item)) for item in found)
    return ExternalCluster(api="ok", nodes=nodes)
