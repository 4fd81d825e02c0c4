"""Every resource of the queues against a real API server: admitted, nothing lost, and the second apply changes nothing.

The server and its etcd are of the release the rack's cluster is built from.
The definitions of KAI's resources are our own, from its documented fields: the server checks types, refuses what a
definition does not know, and keeps their rules in CEL. Who has the projects' own definitions (the
folder `crds` of a chart) names their folder in APPLIANCE_DEFINITIONS: each takes the place of ours.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_parts import Hello
from appliance.actions.kubernetes import queues as action
from appliance.actions.sites.opening import Target
from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import load_site
from appliance.errors import ClusterFailed
from appliance.models.queue_plan import Step
from appliance.stages.queues import changes
from appliance.stages.queues.difference import differences
from appliance.stages.scheduler.queues.network import policy
from appliance.stages.scheduler.queues.rendered import rendered
from tests.integration.api_server import compiled, controlled, established, running, until
from tests.support.hello_cluster import templates
from tests.support.queue_definitions import HOME, definitions, site
from tests.support.rendered_queues import PROFILES, VARIANTS

pytestmark = pytest.mark.rack

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
PROTECTION = "persistentvolumeclaim-protection-controller,persistentvolume-protection-controller"
"""Controllers without which no claim and no volume ever goes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        running(compiled(), folder) as kubeconfig,
        controlled(compiled(), kubeconfig, folder, PROTECTION),
        KubernetesApi(kubeconfig) as api,
    ):
        until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
        wanted = definitions()
        for definition in wanted:
            api.apply(definition)
        for definition in wanted:
            until(partial(established, api, Ref.of(definition)))
        for host in HOSTS:
            api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": host}})
        yield api


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_second_apply_changes_nothing(
    cluster: KubernetesApi, tmp_path: Path, variant: str, profile: str
) -> None:
    loaded = load_site(site(tmp_path, variant, profile))
    wanted = changes.with_secrets(loaded.site, loaded.folder, rendered(loaded.site, loaded.profile))
    made = changes.plan(loaded.site, wanted, cluster)
    assert made.refused == ()
    changes.apply(made, wanted, cluster, lambda _: None)
    for resource in wanted.resources:
        found = cluster.get(Ref.of(resource))
        assert found is not None
        assert not differences(resource, found)
        if resource["kind"] == "PersistentVolumeClaim":
            # The server stores a claim a second time, with the same content.
            found = cluster.apply(resource)
        again = cluster.apply(resource)
        assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], (
            f"{Ref.of(resource)} changed: {found} → {again}"
        )
    second = changes.plan(loaded.site, wanted, cluster)
    assert [c for c in second.changes if c.step is not Step.LEAVE] == []
    assert second.unchanged >= len(wanted.resources)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_policy_of_adapters_is_admitted_and_nothing_of_it_is_dropped(
    cluster: KubernetesApi, tmp_path: Path, profile: str
) -> None:
    loaded = load_site(site(tmp_path, "flat", profile))
    assert loaded.site.scheduler is not None
    wanted = policy(loaded.site, loaded.profile, loaded.site.scheduler)
    assert wanted is not None
    cluster.apply(wanted)
    found = cluster.get(Ref.of(wanted))
    assert found is not None
    assert not differences(wanted, found)
    again = cluster.apply(wanted)
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    cluster.delete(Ref.of(wanted))


def test_a_queue_with_a_pod_stays(cluster: KubernetesApi, tmp_path: Path) -> None:
    folder = site(tmp_path, "flat")
    loaded, wanted = action.describe(Target(folder))
    changes.apply(changes.plan(loaded.site, wanted, cluster), wanted, cluster, lambda _: None)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-0",
            "namespace": "kai-team",
            "labels": {"kai.scheduler/queue": "team-train"},
        },
        "spec": {"containers": [{"name": "a", "image": "none"}], "schedulerName": "kai-scheduler"},
    }
    cluster.apply(pod)
    text = (folder / "site.yml").read_text()
    (folder / "site.yml").write_text(text.replace("- {name: train, gpu", "- {name: other, gpu"))
    loaded, wanted = action.describe(Target(folder))
    assert [c.name for c in changes.plan(loaded.site, wanted, cluster).refused] == ["team-train"]
    cluster.delete(Ref.of(pod))
    until(lambda: cluster.get(Ref.of(pod)) is None)
    made = changes.plan(loaded.site, wanted, cluster)
    assert [c.name for c in made.changes if c.step is Step.DELETE] == ["team-train"]
    changes.apply(made, wanted, cluster, lambda _: None)
    assert cluster.get(Ref("scheduling.run.ai/v2", "Queue", "team-train")) is None


@pytest.mark.parametrize("hello", HELLOS, ids=lambda hello: hello.key)
def test_trials_of_workloads_are_admitted_and_nothing_of_them_is_dropped(
    cluster: KubernetesApi, hello: Hello
) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME.namespace}})
    made = hello.make(HOME)
    for resource in made:
        cluster.apply(resource)
        found = cluster.get(Ref.of(resource))
        assert found is not None
        assert not differences(resource, found)
    # The definitions leave pods' templates open: as pods the server knows every field of them.
    for number, template in enumerate(templates(made)):
        meta = {**template["metadata"], "name": f"as-pod-{number}", "namespace": HOME.namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        cluster.apply(pod)
        cluster.delete(Ref.of(pod))
    for resource in made:
        cluster.delete(Ref.of(resource))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priority": "high"}, "priority"),
        ({"parentQueu": "x"}, "field not declared in schema"),
        ({"resources": {"gpu": {"quota": "8"}}}, "quota"),
    ],
)
def test_what_the_definitions_do_not_know_is_refused(
    cluster: KubernetesApi, spec: Resource, said: str
) -> None:
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "odd"}}
    with pytest.raises(ClusterFailed, match=said):
        cluster.apply({**queue, "spec": spec})


def test_a_token_that_is_not_known_is_one_line(cluster: KubernetesApi, tmp_path: Path) -> None:
    document = json.loads(cluster.kubeconfig.read_text())
    document["users"][0]["user"]["token"] = "expired"
    file = tmp_path / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(json.dumps(document))
    with KubernetesApi(file) as api, pytest.raises(ClusterFailed, match="does not accept"):
        api.get(Ref("v1", "Namespace", "default"))
