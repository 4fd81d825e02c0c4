"""A look at a site that brings its cluster asks the cluster's API, too; that it is silent is a value."""

from dataclasses import replace
from pathlib import Path

from appliance.adapters.process import Completed
from appliance.engine.look.survey import survey, view_of
from appliance.engine.session import Session
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of
from tests.support.fake_kubernetes import Api, kubeconfig, serving, status

__all__ = ["hosts", "recorder", "session"]


def bringing(session: Session, hosts: FakeHosts, api: Api, folder: Path) -> Session:
    """The session of a site whose cluster is this API."""
    name = kubeconfig(folder, api.url).relative_to(session.folder)
    hosts.answer = lambda host, argv: Completed(
        tuple(argv), 0, facts_of(host).model_dump_json(), ""
    )
    options = KubernetesOptions(external=str(name))
    return replace(session, site=session.site.model_copy(update={"kubernetes": options}))


def node(name: str) -> dict[str, object]:
    ready = {"type": "Ready", "status": "True"}
    info = {"kubeletVersion": "v1.34.1"}
    return {"metadata": {"name": name}, "status": {"conditions": [ready], "nodeInfo": info}}


def test_nodes_are_asked_beside_the_hosts(
    session: Session, hosts: FakeHosts, tmp_path: Path
) -> None:
    with serving() as api:
        api.put("/api/v1/nodes/gpu-1", node("gpu-1"))
        mine = bringing(session, hosts, api, tmp_path)
        found = survey(mine)
        assert set(found.facts) == {h.name for h in mine.site.hosts}
        brought = view_of(mine, found).external
    assert brought is not None
    assert brought.api == "ok"
    assert [(n.name, n.ready, n.version) for n in brought.nodes or ()] == [
        ("gpu-1", True, "v1.34.1")
    ]


def test_a_refusal_is_a_value_with_its_remedy(
    session: Session, hosts: FakeHosts, tmp_path: Path
) -> None:
    with serving() as api:
        api.faults.append(status(401))
        found = survey(bringing(session, hosts, api, tmp_path))
    assert found.external is not None
    assert found.external.nodes is None
    assert "does not accept the token" in found.external.api
    assert "get a new kubeconfig" in found.external.fix


def test_a_site_without_such_a_cluster_asks_none(session: Session) -> None:
    assert survey(session).external is None
