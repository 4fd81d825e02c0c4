"""A member's work without GPUs, large or small, cannot keep the guaranteed GPUs of another project: KAI's scheduler and an API server.

Both are of the releases the rack's cluster is built from. Nodes and pods exist only in the API; no pod runs.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
import yaml  # noqa: TID251 - the definitions of KAI's chart are data of the test

from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import load_site
from appliance.stages.queues import changes
from appliance.stages.queues.there import MUTATING
from appliance.stages.scheduler.queues.bounds import POD_CPU
from appliance.stages.scheduler.queues.rendered import rendered
from benchmarks.cluster_programs import CLASSES, CONFIG, KAI
from tests.integration import api_server
from tests.integration.api_server import compiled, established, until
from tests.integration.cheat_parts import MERGE
from tests.support.impossible_queues import BASE, furnish
from tests.support.rendered_queues import of_places
from tests.support.tenants import priority

pytestmark = pytest.mark.rack

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
CORES = 192
"""Of each host: twice what class hpc demands, so that the guarantee follows the nodes."""
HALF = 92
SMALL = 0.05
PLACES = 110
"""Pods of each host at most; ``kubernetes.kubelet.max_pods`` of the second site."""
SITE = f"""{BASE}
scheduler:
  projects:
    - {{name: alpha, queues: [{{name: train, gpu: {{quota: 16}}}}]}}
    - {{name: beta, queues: [{{name: train, gpu: {{quota: 16}}}}]}}
"""
ALPHA, BETA = "kai-alpha", "kai-beta"
GROUPS = "scheduling.run.ai/v2alpha2"
QUEUE = "/apis/scheduling.run.ai/v2/queues/{}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    folder = tmp_path_factory.mktemp("guarantees")
    with api_server.running(compiled(), folder) as kubeconfig, KubernetesApi(kubeconfig) as api:
        until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
        wanted = [yaml.safe_load(f.read_text()) for f in (compiled() / "crds").glob("*.yaml")]
        for definition in wanted:
            api.apply(definition)
        for definition in wanted:
            until(partial(established, api, Ref.of(definition)))
        for space in (KAI, "kai-resource-reservation", "kai-scale-adjust", ALPHA, BETA):
            api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        for name, value in CLASSES.items():
            api.apply(priority(name, value))
        for host in HOSTS:
            api.send("POST", "/api/v1/nodes", host, node(host))
            # The server marks each new node as not ready.
            api.send("PATCH", f"/api/v1/nodes/{host}", host, {"spec": {"taints": None}}, MERGE)
        with scheduling(folder, kubeconfig):
            yield api


def scheduling(folder: Path, kubeconfig: Path) -> AbstractContextManager[None]:
    """KAI's scheduler at work."""
    (folder / "scheduler.yml").write_text(CONFIG)
    listen, plugins = api_server.ports(2)
    argv = [
        *("env", f"KUBECONFIG={kubeconfig}", f"HOME={folder}"),
        os.fspath(compiled() / "kai-scheduler"),
        f"--scheduler-conf={folder / 'scheduler.yml'}",
        f"--namespace={KAI}",
        f"--listen-address=127.0.0.1:{listen}",
        f"--plugin-server-port={plugins}",
    ]
    return api_server.at_work(folder, scheduler=argv)


def node(name: str) -> Resource:
    amounts = {
        **{"cpu": str(CORES), "memory": "1024Gi", "pods": str(PLACES), "nvidia.com/gpu": "8"},
        # Containers request some of it by the default of a project.
        "ephemeral-storage": "8192Gi",
    }
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": "81559"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def work(
    api: KubernetesApi, space: str, name: str, cores: float, gpus: int, host: str = ""
) -> None:
    """One pod of the project's queue, with its group as KAI's grouper makes it; with a host it runs there."""
    path = f"/api/v1/namespaces/{space}/pods"
    api.send("POST", path, name, written(api, space, name, cores, gpus, host))
    if host:
        runs = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        api.send("PATCH", f"{path}/{name}/status", name, runs, MERGE)


def written(
    api: KubernetesApi, space: str, name: str, cores: float, gpus: int, host: str = ""
) -> Resource:
    """The pod, whose group exists."""
    queue = f"{space.removeprefix('kai-')}-train"
    spec = {"minMember": 1, "queue": queue, "priorityClassName": "train"}
    meta = {"name": name, "namespace": space}
    api.apply({"apiVersion": GROUPS, "kind": "PodGroup", "metadata": meta, "spec": spec})
    asked = {"cpu": str(cores), "memory": "4Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    box = {"name": "work", "image": "none", "resources": {"limits": asked, "requests": asked}}
    labels = {"kai.scheduler/queue": queue}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "labels": labels, "annotations": {"pod-group-name": name}},
        "spec": {
            "schedulerName": KAI,
            "priorityClassName": "train",
            "terminationGracePeriodSeconds": 0,
            "containers": [box],
            **({"nodeName": host} if host else {}),
        },
    }


def alive(api: KubernetesApi) -> int:
    pods = api.send("GET", f"/api/v1/namespaces/{ALPHA}/pods", "pods of alpha")[1]["items"]
    return sum("deletionTimestamp" not in pod["metadata"] for pod in pods)


def placed(api: KubernetesApi, name: str) -> bool:
    """Whether the scheduler chose a host for a pod of beta's, which its binder would bind."""
    path = "/apis/scheduling.run.ai/v1alpha2/namespaces/kai-beta/bindrequests"
    return any(r["spec"]["podName"] == name for r in api.send("GET", path, "requests")[1]["items"])


def refused(api: KubernetesApi, name: str) -> bool:
    """Whether the scheduler looked at a pod of beta's and found no place for it."""
    pod = api.send("GET", f"/api/v1/namespaces/{BETA}/pods/{name}", name)[1]
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def test_work_without_gpus_gives_guaranteed_gpus_back(
    cluster: KubernetesApi, tmp_path: Path
) -> None:
    furnish(tmp_path)
    (tmp_path / "site.yml").write_text(SITE)
    loaded = load_site(tmp_path)
    for queue in rendered(loaded.site, loaded.profile).resources:
        if queue["kind"] == "Queue":
            free = {
                key: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for key in ("cpu", "memory")
            }
            queue["spec"]["resources"].update(free)
            cluster.apply(queue)
    for number in range(8):
        work(cluster, ALPHA, f"filler-{number}", HALF, 0, HOSTS[number // 2])
    work(cluster, BETA, "job", HALF, 8)
    until(lambda: refused(cluster, "job"))
    assert alive(cluster) == 8, "without a quota of cores nothing is given back"
    assert not placed(cluster, "job")

    held = {"status": {"allocated": {"cpu": str(8 * HALF), "memory": "32Gi"}}}
    cluster.send("PATCH", f"{QUEUE.format('alpha-train')}/status", "status", held, MERGE)
    wanted = changes.for_cluster(loaded.site, loaded.profile, tmp_path, cluster)
    made = changes.plan(loaded.site, wanted, cluster)
    (change,) = (c for c in made.changes if c.name == "alpha-train")
    assert change.details[0] == "CPU quota unbounded → 364.8 cores"
    assert "736 cores in use, 364.8 guaranteed; KAI may evict" in change.details[-1]
    for queue in wanted.resources:
        if queue["kind"] == "Queue":
            cluster.apply(queue)
    until(lambda: placed(cluster, "job"))
    assert alive(cluster) in (6, 7), "one or two pods make room, and no more"


def clear(api: KubernetesApi) -> None:
    """Takes away all work, and what the scheduler decided about it."""
    for space in (ALPHA, BETA):
        for path in (
            f"/api/v1/namespaces/{space}/pods",
            f"/apis/{GROUPS}/namespaces/{space}/podgroups",
            f"/apis/scheduling.run.ai/v1alpha2/namespaces/{space}/bindrequests",
        ):
            for one in api.send("GET", path, "all")[1]["items"]:
                name = one["metadata"]["name"]
                api.send("DELETE", f"{path}/{name}", name, answers=(404,))


def flood(api: KubernetesApi, cores: float, each: int) -> None:
    """So many pods of alpha's on each host, which ask for these cores."""
    for host in HOSTS:
        for number in range(each):
            work(api, ALPHA, f"small-{host}-{number}", cores, 0, host)


def test_small_pods_leave_places_for_guaranteed_gpus(
    cluster: KubernetesApi, tmp_path: Path
) -> None:
    furnish(tmp_path)
    (tmp_path / "site.yml").write_text(SITE)
    loaded = load_site(tmp_path)
    site = of_places(loaded.site, PLACES)
    clear(cluster)
    wanted = changes.for_cluster(site, loaded.profile, tmp_path, cluster)
    for queue in wanted.resources:
        if queue["kind"] == "Queue":
            cluster.apply(queue)
    flood(cluster, SMALL, PLACES)
    work(cluster, BETA, "guaranteed", 8, 8)
    until(lambda: refused(cluster, "guaranteed"))
    assert alive(cluster) == 4 * PLACES, "KAI evicts nothing for a place"
    assert not placed(cluster, "guaranteed")
    clear(cluster)

    made = changes.plan(site, wanted, cluster)
    (change,) = (c for c in made.changes if (c.kind, c.name) == ("Namespace", ALPHA))
    assert f"annotations.{POD_CPU} - → 2190m" in change.details
    for resource in wanted.resources:
        if resource["kind"] in {"Namespace", "LimitRange", *MUTATING}:
            cluster.apply(resource)
    until(lambda: requested(cluster, SMALL) == "2190m")
    flood(cluster, SMALL, int(CORES / 2.19))
    work(cluster, BETA, "guaranteed", 8, 8)
    until(lambda: placed(cluster, "guaranteed"))
    assert 4 * 87 - 6 < alive(cluster) < 4 * 87, "a few pods make room, and no more"


def requested(api: KubernetesApi, cores: float) -> str:
    """What the API server makes of a pod's request."""
    pod = written(api, ALPHA, "small", cores, 0)
    path = f"/api/v1/namespaces/{ALPHA}/pods?dryRun=All"
    (box,) = api.send("POST", path, "small", pod)[1]["spec"]["containers"]
    return str(box["resources"]["requests"]["cpu"])
