"""What the API server makes of pods that request less CPU than their part of a host."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.config.load import load_site
from appliance.models.site import Site
from appliance.stages.queues import changes
from appliance.stages.scheduler.queues.rendered import rendered
from tests.integration.api_server import compiled, established, running, until
from tests.integration.cheat_parts import (
    ALPHA,
    container_of,
    deployment,
    named,
    place,
    pod,
    pods,
    sized,
)
from tests.support.queue_definitions import definitions, site
from tests.support.rendered_queues import of_places
from tests.support.tenants import priority

pytestmark = pytest.mark.rack

Body = dict[str, Any]
CASES: dict[str, tuple[Body, list[str], list[str]]] = {
    "nothing": (pod(gpus=0), ["480m"], ["-"]),
    "100m": (pod(gpus=0, containers=[sized("a", "100m")]), ["480m"], ["-"]),
    "0": (pod(gpus=0, containers=[sized("a", "0")]), ["480m"], ["-"]),
    "two containers": (
        pod(gpus=0, containers=[sized("a", "100m"), sized("b", "100m")]),
        ["380m", "100m"],
        ["-", "-"],
    ),
    "a limit alone": (
        pod(gpus=0, container={"resources": {"limits": {"cpu": "0.2"}}}),
        ["480m"],
        ["480m"],
    ),
    "a larger limit": (
        pod(
            gpus=0,
            container={"resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": "2"}}},
        ),
        ["480m"],
        ["2"],
    ),
    "an init container": (
        pod(gpus=0, containers=[sized("a", "1m")], initContainers=[sized("i", "4")]),
        ["480m"],
        ["-"],
    ),
    "a sidecar": (
        pod(
            gpus=0,
            containers=[sized("a", "1m")],
            initContainers=[sized("s", "1", restartPolicy="Always")],
        ),
        ["480m"],
        ["-"],
    ),
    "enough": (pod(gpus=0, containers=[sized("a", "1500m")]), ["1500m"], ["-"]),
    "enough in two": (
        pod(gpus=0, containers=[sized("a", "100m"), container_of("b")]),
        ["100m", "480m"],
        ["-", "-"],
    ),
}
"""By what a pod requests: requests and limits of its containers afterwards. A host has 96 cores and 250 places."""


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Any]:
    loaded = load_site(site(tmp_path_factory.mktemp("site"), "tenants"))
    return of_places(loaded.site, 250), loaded.profile


@pytest.fixture(scope="module")
def api(
    tmp_path_factory: pytest.TempPathFactory, wanted: tuple[Site, Any]
) -> Iterator[KubernetesApi]:
    folder = tmp_path_factory.mktemp("small")
    own, profile = wanted
    with running(compiled(), folder) as kubeconfig, KubernetesApi(kubeconfig) as api:
        until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
        for definition in definitions():
            api.apply(definition)
        for definition in definitions():
            until(partial(established, api, Ref.of(definition)))
        for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
            api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        for name, value in (("train", 50), ("build", 100)):
            api.apply(priority(name, value))
        made = rendered(own, profile)
        changes.apply(changes.plan(own, made, api), made, api, lambda _: None)
        until(lambda: sizes_of(api, CASES["100m"][0])[0] == ["480m"])
        yield api


def sizes_of(api: KubernetesApi, template: Body) -> tuple[list[str], list[str]]:
    """Requests and limits of the containers of the pod that the server would store."""
    body = named(template)
    made = api.send("POST", f"{pods(ALPHA)}?dryRun=All", "a pod", body)[1]
    boxes = [box["resources"] for box in made["spec"]["containers"]]
    return (
        [box["requests"]["cpu"] for box in boxes],
        [box.get("limits", {}).get("cpu", "-") for box in boxes],
    )


@pytest.mark.parametrize("case", CASES)
def test_a_pod_requests_its_part_of_a_host(api: KubernetesApi, case: str) -> None:
    template, requests, limits = CASES[case]
    assert sizes_of(api, template) == (requests, limits)


def test_a_template_stays_as_it_was_written(api: KubernetesApi) -> None:
    body = deployment(pod(gpus=0, containers=[sized("a", "100m")]))
    made = api.send("POST", f"{place('Deployment')}?dryRun=All", "a Deployment", body)[1]
    (box,) = made["spec"]["template"]["spec"]["containers"]
    assert box["resources"]["requests"]["cpu"] == "100m"


def test_a_site_that_allows_small_pods_takes_the_policy_away(
    api: KubernetesApi, wanted: tuple[Site, Any]
) -> None:
    own = of_places(wanted[0], 250, "allow")
    made = changes.plan(own, rendered(own, wanted[1]), api)
    gone = [c.kind for c in made.work if c.name == "appliance-small-pods"]
    assert gone == ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"]
    kept = of_places(wanted[0], 250)
    assert not changes.plan(kept, rendered(kept, wanted[1]), api).work
