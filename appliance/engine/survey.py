"""One look at a whole site: every host, and beside them an external cluster."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from appliance.adapters.kubernetes import KubernetesApi
from appliance.checks.check import View
from appliance.engine.accepted import standing_of
from appliance.engine.earlier import earlier_facts
from appliance.engine.gather import Round, gather
from appliance.engine.posture import taken_files
from appliance.engine.requests import Beside, request_for
from appliance.engine.session import Session
from appliance.engine.threads import threads
from appliance.engine.unproved import unproved
from appliance.errors import ApplianceError
from appliance.stages.kubernetes.collect.cluster import node
from appliance.stages.kubernetes.facts import ExternalCluster, KubernetesNode

WAITS_S = (1.0,)
"""A look tries once more; whoever waits for it would rather know that the API is silent."""


def survey(
    session: Session,
    hosts: Sequence[str] | None = None,
    beside: Beside = Beside.NOTHING,
    meanwhile: Callable[[], object] = lambda: None,
) -> Round:
    """Asks these hosts (None: all of the site) everything the checks look at; ``beside``: what they are besides.

    ``meanwhile``: what needs no answer.
    """
    names = [h.name for h in session.site.hosts] if hosts is None else list(hosts)
    requests = {name: request_for(session, name, beside) for name in names}
    if session.site.external_cluster is None:
        return gather(session.remote, requests, meanwhile)
    with threads(1) as pool:
        answer: Future[ExternalCluster] = pool.submit(_ask_cluster, session)
        found = gather(session.remote, requests, meanwhile)
        return replace(found, external=answer.result())


def view_of(session: Session, found: Round) -> View:
    """What the checks may look at after this round; one for plan, judgement and report, as the hosts were asked once."""
    if not found.views:
        before, failed = earlier_facts(session), unproved(session, found.facts)
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
                standing=standing_of(session, found.facts),
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
