"""Who reaches an add-on: every namespace is closed but for the API server, those the site names, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from appliance.config.finding import InvalidConfig, render
from appliance.stages.scheduler.site import Project
from appliance.stages.workloads.network import kept, policies, project_policies, storage_policies
from appliance.stages.workloads.table import table
from tests.support.workloads_site import ALL, CLUSTER, LOGIN, QUEUES, SERVED, STORAGE, load

MLFLOW = "workloads: {{mlflow: {{storage_class: own{}}}}}\n"
BRIDGE = CLUSTER.replace("{", "{network: bridge, ")
PODS = {"podSelector": {}, "policyTypes": ["Ingress"]}
"""All pods of a namespace, and what comes in to them."""


def of(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def rules(folder: Path, text: str, **given: str) -> dict[str, list[dict[str, Any]]]:
    """What each namespace lets in."""
    made = policies(load(folder, text, **given).site)
    assert all(p["spec"].items() >= PODS.items() for p in made)
    return {p["metadata"]["namespace"]: p["spec"].get("ingress", []) for p in made}


def sources(found: list[dict[str, Any]]) -> list[Any]:
    return [source for rule in found for source in rule.get("from", ["anybody"])]


def test_every_add_on_has_one_policy_over_all_its_pods(tmp_path: Path) -> None:
    found = rules(tmp_path, ALL)
    assert set(found) == {addon.namespace for addon in table().addons}


def test_without_a_word_of_the_site_only_the_api_server_and_users_come_in(tmp_path: Path) -> None:
    found = rules(tmp_path, ALL)
    rows = {addon.namespace: addon for addon in table().addons}
    for space, row in rows.items():
        open_to_all = [r for r in found[space] if "from" not in r]
        named = [r for r in found[space] if "from" in r]
        assert [[p["port"] for p in r["ports"]] for r in open_to_all] == (
            [list(row.api_ports)] if row.api_ports else []
        )
        assert [[p["port"] for p in r["ports"]] for r in named] == (
            [list(row.user_ports)] if space in ("mlflow", "vllm") else []
        )
    assert found["jupyterhub"] == [], "its chart's own policies say who reaches the hub"


def test_what_asks_nobody_who_he_is_is_for_the_project_of_the_section(tmp_path: Path) -> None:
    assert sources(rules(tmp_path, MLFLOW.format(""))["mlflow"]) == [of("kai-team")]


def test_projects_that_are_named_and_no_others_use_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, MLFLOW.format(", projects: [team]"))
    site = loaded.site
    assert site.scheduler is not None
    (team,) = site.scheduler.projects
    more = tuple(team.model_copy(update={"name": name}) for name in ("vision", "speech"))
    scheduler = site.scheduler.model_copy(update={"projects": (team, *more)})
    for named, expected in (((), []), (("speech", "team"), ["kai-team", "kai-speech"])):
        assert site.workloads is not None
        assert site.workloads.mlflow is not None
        given = site.workloads.mlflow.model_copy(update={"projects": named})
        options = site.workloads.model_copy(update={"mlflow": given})
        other = site.model_copy(update={"scheduler": scheduler, "workloads": options})
        (made,) = policies(other)
        assert sources(made["spec"].get("ingress", [])) == [of(name) for name in expected]
    assert isinstance(team, Project)


def test_an_engines_other_ports_are_closed_to_its_users_too(tmp_path: Path) -> None:
    (rule,) = rules(tmp_path, f"workloads: {{vllm: {SERVED}}}\n")["vllm"]
    assert rule == {"from": [of("kai-team")], "ports": [{"port": 8000, "protocol": "TCP"}]}


def test_notebooks_use_what_the_project_of_their_queue_may(tmp_path: Path) -> None:
    hub = f"jupyter: {{{LOGIN}, storage_class: own}}"
    for name, told in (("kept", ""), ("barred", ", projects: []")):
        folder = tmp_path / name
        folder.mkdir()
        text = MLFLOW.format(told).replace("{mlflow", f"{{{hub}, mlflow")
        found = sources(rules(folder, text)["mlflow"])
        notebook = {"podSelector": {"matchLabels": {"kai.scheduler/queue": "team-build"}}}
        assert found == ([] if told else [of("kai-team"), {**of("jupyterhub"), **notebook}])


@pytest.mark.parametrize("key", ["mlflow", "kuberay"])
def test_an_ingress_or_monitoring_comes_in_where_it_is_named(key: str, tmp_path: Path) -> None:
    more = "reached_from: [monitoring]"
    text = MLFLOW.format(f", {more}") if key == "mlflow" else f"workloads: {{kuberay: {{{more}}}}}"
    ((rule,),) = rules(tmp_path, text).values()
    assert rule["from"][-1] == of("monitoring")
    ports = {"mlflow": [{"port": 5000, "protocol": "TCP"}], "kuberay": None}
    assert rule.get("ports") == ports[key]


def test_an_ingress_reaches_the_hubs_front_door_and_no_notebook(tmp_path: Path) -> None:
    hub = f"{{{LOGIN}, storage_class: own, reached_from: [ingress-nginx]}}"
    (rule,) = rules(tmp_path, f"workloads: {{jupyter: {hub}}}\n")["jupyterhub"]
    assert rule == {"from": [of("ingress-nginx")], "ports": [{"port": 8000, "protocol": "TCP"}]}


def test_a_site_may_open_an_add_on_to_its_cluster_on_the_ports_it_serves(tmp_path: Path) -> None:
    text = MLFLOW.format(", open_to_cluster: true")
    for name, cluster in (("calico", CLUSTER), ("bridge", BRIDGE)):
        folder = tmp_path / name
        folder.mkdir()
        (rule,) = rules(folder, text, cluster=cluster)["mlflow"]
        assert rule["from"] == [{"namespaceSelector": {}}]
        assert rule["ports"] == [{"port": 5000, "protocol": "TCP"}]


def test_a_network_that_keeps_nobody_out_is_refused_before_a_host_is_met(tmp_path: Path) -> None:
    text = f"workloads: {{kuberay: {{}}, vllm: {SERVED}, mlflow: {{storage_class: own}}}}\n"
    with pytest.raises(InvalidConfig) as refused:
        load(tmp_path, text, cluster=BRIDGE)
    found = refused.value.findings
    assert [f.key for f in found] == ["workloads.mlflow", "workloads.vllm"], render(found)
    assert all("network bridge does not enforce NetworkPolicy" in f.message for f in found)
    assert all("open_to_cluster: true" in f.remedy for f in found)


def test_run_ais_own_projects_are_named_by_their_namespaces(tmp_path: Path) -> None:
    queues = QUEUES.replace(
        "scheduler:\n", "scheduler:\n  kind: runai\n  runai: {domain: runai.example.com}\n"
    )
    with pytest.raises(InvalidConfig) as refused:
        load(tmp_path, MLFLOW.format(", projects: [team]"), queues=queues)
    found = [f for f in refused.value.findings if f.key == "workloads.mlflow.projects[0]"]
    assert [f.message for f in found] == ["Run:ai manages the namespaces of projects"]
    assert "runai-team" in found[0].remedy


def closed(folder: Path, more: str = "") -> Any:
    queues = QUEUES.replace("- name: team\n", "- name: team\n      reached_from: [monitoring]\n")
    return load(folder, more, queues=queues)


def test_a_closed_project_lets_in_its_own_the_operators_its_notebooks_and_those_it_names(
    tmp_path: Path,
) -> None:
    loaded = closed(tmp_path, ALL)
    (made,) = project_policies(loaded.site)
    assert made["metadata"]["namespace"] == "kai-team"
    (rule,) = made["spec"]["ingress"]
    assert "ports" not in rule
    own, *others = rule["from"]
    assert own == {"podSelector": {}}
    named = {
        o["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]: o for o in others
    }
    operators = {addon.namespace for addon in table().addons if addon.holders}
    assert set(named) == {*operators, "jupyterhub", "monitoring"}
    assert "podSelector" in named["jupyterhub"], "only notebooks of its queue, not everybody's"
    assert "project team" in kept(loaded.site)


def test_a_project_that_says_nothing_is_closed_and_one_may_be_opened(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (made,) = project_policies(load(tmp_path / "a", ALL).site)
    assert made["metadata"]["namespace"] == "kai-team"
    opened = QUEUES.replace("- name: team\n", "- name: team\n      open_to_cluster: true\n")
    assert project_policies(load(tmp_path / "b", ALL, queues=opened).site) == ()


def test_where_nothing_enforces_policies_none_are_written_and_what_does_is_supplied(
    tmp_path: Path,
) -> None:
    supplied = BRIDGE.replace("{", "{network_policies: supplied, ", 1)
    for i, (cluster, count) in enumerate([(BRIDGE, 0), (supplied, 1)]):
        folder = tmp_path / str(i)
        folder.mkdir()
        assert len(project_policies(load(folder, "", cluster=cluster).site)) == count


def test_pods_of_projects_reach_every_port_but_that_of_nfs_where_exports_trust_hosts(
    tmp_path: Path,
) -> None:
    opened = QUEUES.replace("- name: team\n", "- name: team\n      open_to_cluster: true\n")
    (made,) = storage_policies(load(tmp_path, "", queues=opened).site)
    (rule,) = made["spec"]["egress"]
    assert set(rule) == {"ports"}, "to whatever address"
    for protocol in ("TCP", "UDP"):
        held = [(p["port"], p["endPort"]) for p in rule["ports"] if p["protocol"] == protocol]
        reached = {port for first, last in held for port in range(first, last + 1)}
        assert set(range(1, 65536)) - reached == {2049}


@pytest.mark.parametrize(
    ("cluster", "storage"),
    [(BRIDGE, STORAGE), (CLUSTER, ""), ("kubernetes: {external: kubeconfig}\n", STORAGE)],
)
def test_nothing_is_closed_where_nothing_is_served_or_the_network_is_not_known(
    tmp_path: Path, cluster: str, storage: str
) -> None:
    (tmp_path / "kubeconfig").touch(mode=0o600)
    assert storage_policies(load(tmp_path, "", cluster=cluster, storage=storage).site) == ()


def test_who_may_enter_is_said_once(tmp_path: Path) -> None:
    words = "- name: team\n      open_to_cluster: true\n      reached_from: [monitoring]\n"
    with pytest.raises(InvalidConfig) as refused:
        load(tmp_path, "", queues=QUEUES.replace("- name: team\n", words))
    (found,) = refused.value.findings
    assert found.message == "open_to_cluster allows every namespace"


def test_closing_a_project_without_a_network_that_can_is_refused(tmp_path: Path) -> None:
    queues = QUEUES.replace("- name: team\n", "- name: team\n      reached_from: []\n")
    runai = queues.replace(
        "scheduler:\n", "scheduler:\n  kind: runai\n  runai: {domain: r.example}\n"
    )
    for i, (cluster, text, says) in enumerate(
        [(BRIDGE, queues, "does not enforce NetworkPolicy"), (CLUSTER, runai, "Run:ai manages")]
    ):
        folder = tmp_path / str(i)
        folder.mkdir()
        with pytest.raises(InvalidConfig) as refused:
            load(folder, "", cluster=cluster, queues=text)
        found = {f.key: f.message for f in refused.value.findings}
        assert says in found["scheduler.projects[0].reached_from"]
