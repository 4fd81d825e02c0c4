"""Trials of what is installed for users: manifests that keep to queue and rights, and verdicts that can be wrong."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.acceptance import hello_network
from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_parts import HELLO, Hello
from appliance.acceptance.hello_trial import PATIENCE_S, clean, run
from appliance.acceptance.workload import QUEUE_LABEL
from appliance.actions.sites.opening import Target
from appliance.actions.trials import workloads
from appliance.actions.trials.workloads import place
from appliance.adapters.kubernetes import KINDS
from appliance.adapters.kubernetes import Cluster as KubernetesCluster
from appliance.adapters.process import run as run_program
from appliance.errors import ConfigError
from appliance.models.result import CheckResult, Status
from appliance.stages.scheduler.queues.bounds import POD_CPU
from appliance.stages.workloads.site import WorkloadsOptions
from tests.support.hello_cluster import FAILED, IMAGES, WHERE, Cluster, templates
from tests.support.scheduler_site import site

FAILED |= {"jobStatus": "FAILED", "applicationState": {"state": "FAILED"}}
each_hello = pytest.mark.parametrize("hello", HELLOS, ids=lambda hello: hello.key)


def tried(hello: Hello, *faults: str) -> tuple[CheckResult, Cluster]:
    cluster = Cluster(*faults)
    (result,) = run(cluster, cluster, WHERE, (hello,), lambda _: None)
    return result, cluster


@each_hello
def test_work_that_ends_well_through_its_queue_passes_and_leaves_nothing(hello: Hello) -> None:
    result, cluster = tried(hello)
    assert (result.status, result.id) == (Status.PASS, f"workloads.{hello.key}")
    assert "through queue team-train" in result.evidence
    assert cluster.things == {}


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("fails", Status.FAIL, "it failed"),
        ("never ends", Status.FAIL, "did not end"),
        ("no image", Status.FAIL, "image a/b:1 cannot be pulled: ImagePullBackOff"),
        ("other scheduler", Status.FAIL, "went past queue team-train"),
        ("other queue", Status.FAIL, "went past queue team-train"),
        ("no room", Status.NOT_ASSESSED, "queue is over its quota"),
        ("no pods", Status.NOT_ASSESSED, "none of its pods was seen"),
        ("not installed", Status.NOT_ASSESSED, "the cluster does not know it"),
    ],
)
@each_hello
def test_each_fault_has_its_verdict_and_remedy_and_leaves_nothing(
    hello: Hello, fault: str, status: Status, says: str
) -> None:
    result, cluster = tried(hello, fault)
    says = hello.failed or says if fault == "fails" else says
    assert (result.status, says in result.cause) == (status, True), result
    assert result.fix
    assert cluster.things == {}
    assert cluster.time <= PATIENCE_S + 10


@each_hello
def test_what_an_earlier_trial_left_is_never_taken_for_this_one(hello: Hello) -> None:
    for fault, status in (("slow to go", Status.PASS), ("never goes", Status.NOT_ASSESSED)):
        cluster = Cluster(fault)
        for resource in hello.make(WHERE):
            cluster.apply(resource)
        (result,) = run(cluster, cluster, WHERE, (hello,), lambda _: None)
        assert result.status is status
    assert "earlier trial" in result.cause
    assert f"{HELLO}={hello.key}" in result.fix


def test_the_same_trial_in_another_project_is_left_alone() -> None:
    cluster = Cluster()
    (other,) = HELLOS[1].make(replace(WHERE, namespace="kai-other"))
    cluster.apply({**other, "metadata": {**other["metadata"], "name": "other"}})
    clean(cluster, WHERE, HELLOS)
    assert len(cluster.things) == 1


@each_hello
def test_every_pod_names_queue_and_scheduler_and_needs_no_right(hello: Hello) -> None:
    made = hello.make(WHERE)
    found = templates(made)
    assert found
    assert all((r["apiVersion"], r["kind"]) in KINDS for r in made)
    for resource in [*made, *found]:
        labels = {HELLO: hello.key, QUEUE_LABEL: WHERE.queue}
        assert resource["metadata"]["labels"].items() >= labels.items()
    for template in found:
        spec = template["spec"]
        assert spec["schedulerName"] == WHERE.scheduler
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] == ("serviceAccountName" in spec)
        for container in spec["containers"]:
            confined = container["securityContext"]
            assert confined["capabilities"] == {"drop": ["ALL"]}
            assert confined["allowPrivilegeEscalation"] is False
            assert container["image"] == IMAGES[hello.image]
            assert container["resources"]["limits"] == container["resources"]["requests"]


def spaces(**least: str) -> KubernetesCluster:
    """A cluster of namespaces with the least CPU of a pod."""
    known = {
        f"kai-{project}": {"metadata": {"annotations": {POD_CPU: cpu}}}
        for project, cpu in least.items()
    }
    return cast(KubernetesCluster, SimpleNamespace(get=lambda ref: known.get(ref.name)))


@each_hello
def test_every_pod_requests_the_least_cpu_of_its_project(hello: Hello) -> None:
    client = replace(WHERE, namespace="kai-b", queue="b-train")
    where = workloads.enough(replace(WHERE, client=client), spaces(team="1120m", b="480m"))
    assert where.client is not None
    assert (where.cpu, where.client.cpu) == (1.12, 0.48)
    for template in templates(hello.make(where)):
        (container,) = template["spec"]["containers"]
        of_client = template["metadata"]["labels"][QUEUE_LABEL] == "b-train"
        least = 480 if of_client else 1120
        for held in container["resources"].values():
            assert int(held["cpu"].removesuffix("m")) >= least
    if hello.key == "spark_operator":
        (made,) = hello.make(where)
        for part in ("driver", "executor"):
            assert made["spec"][part]["coreRequest"] == made["spec"][part]["coreLimit"] == "1120m"


def test_a_cluster_without_a_least_request_changes_no_trial() -> None:
    assert workloads.enough(WHERE, spaces()) == WHERE


def test_only_a_spark_driver_has_rights_in_the_cluster() -> None:
    found = [t["spec"] for hello in HELLOS for t in templates(hello.make(WHERE))]
    known = [
        (s["serviceAccountName"], s["containers"][0]["name"])
        for s in found
        if "serviceAccountName" in s
    ]
    assert known == [("spark", "spark-kubernetes-driver")]


def test_the_policy_that_is_tried_closes_one_port_of_a_server_that_listens_on_two() -> None:
    (hello,) = hello_network.HELLOS
    policy, service, server, client = hello.make(WHERE)
    ports = {port["port"] for port in service["spec"]["ports"]}
    (rule,) = policy["spec"]["ingress"]
    assert ports - {port["port"] for port in rule["ports"]} == {hello_network.CLOSED}
    chosen = policy["spec"]["podSelector"]["matchLabels"].items()
    template = server["spec"]["template"]
    assert chosen == service["spec"]["selector"].items()
    assert chosen <= template["metadata"]["labels"].items()
    assert not chosen <= client["spec"]["template"]["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert all(str(port) in container["command"][-1] for port in ports)
    assert str(hello_network.CLOSED) in container["readinessProbe"]["exec"]["command"][-1]
    said = client["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    reached = f"{service['metadata']['name']}.{WHERE.namespace}"
    assert f"http://{reached}:{hello_network.CLOSED}/; then exit 1" in said


@pytest.mark.parametrize(
    ("open_ports", "lost", "code"),
    [("8080", "-", 0), ("8080 8081", "-", 1), ("8080 8081", "8081", 1)],
)
def test_a_client_that_reaches_the_closed_port_fails_and_no_other(
    open_ports: str, lost: str, code: int, tmp_path: Path
) -> None:
    """The pod's own words, with a wget that reaches these ports alone, one of them not at first, and a sleep that does not wait."""
    (hello,) = hello_network.HELLOS
    *_, client = hello.make(WHERE)
    reached = "|".join(f"*:{port}/" for port in open_ports.split())
    once = tmp_path / "once"
    script = (
        "#!/bin/sh\nfor last; do :; done\n"
        f'case "$last" in *:{lost}/) [ -e {once} ] || {{ : > {once}; exit 1; }};; esac\n'
        f'case "$last" in {reached}) exit 0;; esac\nexit 1\n'
    )
    passes = '#!/bin/sh\nshift\nexec "$@"\n'
    for name, text in (("wget", script), ("sleep", "#!/bin/sh\n"), ("timeout", passes)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    command = client["spec"]["template"]["spec"]["containers"][0]["command"]
    done = run_program(("/bin/sh", *command[1:]), env={"PATH": str(tmp_path)}, check=False)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("network", "tried"), [("calico", True), ("cilium", True), ("bridge", False)]
)
def test_the_network_is_tried_where_it_is_one_that_enforces_policies(
    network: str, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = WorkloadsOptions.model_validate({"jobset": {}})
    known = site(projects=PROJECTS).model_copy(update={"workloads": options})
    assert known.kubernetes is not None
    own = known.kubernetes.model_copy(update={"network": network})
    known = known.model_copy(update={"kubernetes": own})
    seen: list[str] = []

    def noted(*given: Any) -> tuple[CheckResult, ...]:
        seen.extend(hello.key for hello in given[3])
        return ()

    monkeypatch.setattr(workloads, "_site", lambda _: known)
    monkeypatch.setattr(workloads, "KubernetesApi", lambda _: nullcontext())
    monkeypatch.setattr(workloads, "enough", lambda where, _: where)
    monkeypatch.setattr(workloads, "run", noted)
    assert list(workloads.prove(Target(None), Path("admin.conf"), lambda _: None)) == []
    assert seen == ["jobset", *(["network_policies"] if tried else [])]


@pytest.mark.parametrize(
    ("known", "spaces"),
    [
        (["a", "b"], ["kai-a", "kai-b"]),
        (["a open", "b"], ["kai-a"]),
        (["a", "b open"], ["kai-a", "kai-b"]),
        (["a open"], ["kai-a"]),
    ],
)
def test_a_closed_projects_network_is_tried_from_another_project(
    known: list[str], spaces: list[str]
) -> None:
    options = WorkloadsOptions.model_validate({"jobset": {}})
    projects = [
        {"name": word[0], "queues": QUEUES, "open_to_cluster": "open" in word} for word in known
    ]
    made = site(projects=projects).model_copy(update={"workloads": options})
    where = place(made, hello_network.KEY)
    assert [side.namespace for side in where.sides] == spaces
    (hello,) = hello_network.HELLOS
    *served, client = hello.make(where)
    assert {one["metadata"]["namespace"] for one in served} == {spaces[0]}
    assert client["metadata"]["namespace"] == spaces[-1]
    queue = client["spec"]["template"]["metadata"]["labels"]["kai.scheduler/queue"]
    assert queue == f"{spaces[-1].removeprefix('kai-')}-train"


def test_pods_of_both_projects_belong_to_the_trial_and_are_taken_away() -> None:
    where = replace(WHERE, client=replace(WHERE, namespace="kai-other", queue="other-train"))
    cluster = Cluster()
    for hello in hello_network.HELLOS:
        for resource in hello.make(where):
            cluster.apply(resource)
    clean(cluster, where, hello_network.HELLOS)
    assert cluster.things == {}


def test_the_network_is_not_tried_where_the_only_project_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = WorkloadsOptions.model_validate({"jobset": {}})
    place_of = site(projects=PROJECTS[:1]).model_copy(update={"workloads": options})
    monkeypatch.setattr(workloads, "_site", lambda _: place_of)
    monkeypatch.setattr(workloads, "KubernetesApi", lambda _: nullcontext())
    monkeypatch.setattr(workloads, "enough", lambda where, _: where)
    monkeypatch.setattr(workloads, "run", lambda *given: ())
    (result,) = workloads.prove(Target(None), Path("admin.conf"), lambda _: None)
    assert (result.id, result.status) == ("workloads.network_policies", Status.NOT_ASSESSED)
    assert "the only project is closed" in result.cause


def test_what_a_killed_trial_left_is_taken_away() -> None:
    cluster = Cluster()
    for hello in HELLOS:
        for resource in hello.make(WHERE):
            cluster.apply(resource)
    clean(cluster, WHERE, HELLOS)
    assert cluster.things == {}


def test_the_model_that_is_asked_is_the_sites_first() -> None:
    options = WorkloadsOptions.model_validate(
        {"vllm": {"models": [{"name": "llama", "path": "l"}, {"name": "other", "path": "o"}]}}
    )
    where = place(site(projects=PROJECTS).model_copy(update={"workloads": options}))
    (job,) = next(hello for hello in HELLOS if hello.key == "vllm").make(where)
    said = job["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert "http://vllm-stack-llama-engine-service.vllm/v1/models" in said
    assert '{"model": "llama"' in said
    assert "other" not in said


QUEUES = [{"name": "build", "work": "build"}, {"name": "train"}, {"name": "night"}]
PROJECTS = [{"name": "a", "queues": QUEUES}, {"name": "b", "queues": QUEUES}]


@pytest.mark.parametrize(
    ("given", "namespace", "queue"),
    [
        ({}, "kai-a", "a-train"),
        ({"project": "b"}, "kai-b", "b-train"),
        ({"project": "b", "queue": "build"}, "kai-b", "b-build"),
    ],
)
def test_trials_use_the_projects_first_queue_for_training_or_the_one_named(
    given: dict[str, str], namespace: str, queue: str
) -> None:
    options = WorkloadsOptions.model_validate({**given, "images": {"plain": "mirror/busybox:1"}})
    where = place(site(projects=PROJECTS).model_copy(update={"workloads": options}))
    assert (where.namespace, where.queue) == (namespace, queue)
    assert where.images["plain"] == "mirror/busybox:1"


@pytest.mark.parametrize(
    ("mlflow", "namespace", "queue"),
    [
        ({}, "kai-a", "a-build"),
        ({"projects": ["b"]}, "kai-b", "b-train"),
        ({"projects": ["b", "a"]}, "kai-a", "a-build"),
        ({"open_to_cluster": True}, "kai-a", "a-build"),
    ],
)
def test_what_only_some_may_use_is_tried_from_a_project_that_may(
    mlflow: dict[str, Any], namespace: str, queue: str
) -> None:
    options = WorkloadsOptions.model_validate({"queue": "build", "mlflow": mlflow})
    known = site(projects=PROJECTS).model_copy(update={"workloads": options})
    found = place(known, "mlflow")
    assert (found.namespace, found.queue.partition("-")[0]) == (namespace, queue[0])
    assert place(known, "jobset").namespace == "kai-a"


def test_what_no_project_may_use_is_not_assessed(monkeypatch: pytest.MonkeyPatch) -> None:
    options = WorkloadsOptions.model_validate({"mlflow": {"projects": []}})
    known = site(projects=PROJECTS).model_copy(update={"workloads": options})
    monkeypatch.setattr(workloads, "_site", lambda _: known)
    monkeypatch.setattr(workloads, "KubernetesApi", lambda _: nullcontext())
    monkeypatch.setattr(workloads, "enough", lambda where, _: where)
    monkeypatch.setattr(workloads, "run", lambda *given: ())
    (result,) = workloads.prove(Target(None), Path("admin.conf"), lambda _: None)
    assert result.status is Status.NOT_ASSESSED
    assert "workloads.mlflow.projects" in result.fix


@pytest.mark.parametrize("named", [False, True])
def test_a_trial_without_an_image_is_not_assessed_and_can_be_taken_away(
    named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"images": {"dask": "mirror/dask:1"}} if named else {}
    options = WorkloadsOptions.model_validate({"dask_operator": {}, **own})
    known = site(projects=PROJECTS).model_copy(update={"workloads": options})
    cluster = Cluster()
    monkeypatch.setattr(workloads, "_site", lambda _: known)
    monkeypatch.setattr(workloads, "KubernetesApi", lambda _: nullcontext())
    monkeypatch.setattr(workloads, "Api", lambda _: cluster)
    monkeypatch.setattr(workloads, "enough", lambda where, _: where)
    monkeypatch.setattr(workloads, "run", lambda *given: ())
    found = list(workloads.prove(Target(None), Path("admin.conf"), lambda _: None))
    assert [(r.id, r.status) for r in found] == (
        [] if named else [("workloads.dask_operator", Status.NOT_ASSESSED)]
    )
    assert all("ghcr.io/dask/dask" in r.cause for r in found)
    assert all("workloads.images.dask" in r.fix for r in found)
    dask = next(hello for hello in HELLOS if hello.key == "dask_operator")
    for made in dask.make(replace(WHERE, namespace="kai-a")):
        cluster.apply(made)
    workloads.take_away(Target(None), Path("admin.conf"))
    assert cluster.things == {}


def test_a_site_without_the_section_or_without_a_queue_is_told_so() -> None:
    with pytest.raises(ConfigError, match="no section workloads"):
        place(site(projects=PROJECTS))
    runai = site(kind="runai", runai={"domain": "runai.example.com"}, projects=PROJECTS)
    for other in (site(), runai):
        with pytest.raises(ConfigError, match="no queue for a trial"):
            place(other.model_copy(update={"workloads": WorkloadsOptions()}))
