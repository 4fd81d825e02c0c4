"""Every custom resource against a server of custom resources of the current release: rules in CEL, defaults and all.

The definitions are ours, or the projects' own in their place (see test_queues). The API server of the rack takes the rest.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from appliance.acceptance.hello import HELLOS
from appliance.actions import queue as action
from appliance.actions.queue_difference import differences
from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import load_site
from appliance.errors import ClusterFailed
from appliance.stages.scheduler.queues.network import policy
from appliance.stages.scheduler.queues.rendered import rendered
from tests.integration import crd_server
from tests.integration.api_server import established, until
from tests.integration.test_queues import HOME, definitions, site
from tests.unit.config.test_queue_rendering import PROFILES, VARIANTS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FORMS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    folder = tmp_path_factory.mktemp("definitions")
    with (
        crd_server.running(crd_server.built(), folder) as kubeconfig,
        KubernetesApi(kubeconfig) as api,
    ):
        until(lambda: api.get(Ref(*FORMS, "none")) is None)
        wanted = definitions()
        for definition in wanted:
            api.apply(definition)
        for definition in wanted:
            until(partial(established, api, Ref.of(definition)))
        yield api


def is_custom(resource: Resource) -> bool:
    """Of a group the definitions bring."""
    groups = {definition["spec"]["group"] for definition in definitions()}
    return resource["apiVersion"].partition("/")[0] in groups


def admitted(server: KubernetesApi, resources: Iterable[Resource]) -> set[str]:
    """Each taken, read back as it was written, unchanged by a second apply, and gone again; their kinds."""
    wanted = [resource for resource in resources if is_custom(resource)]
    for resource in wanted:
        server.apply(resource)
        found = server.get(Ref.of(resource))
        assert found is not None
        assert not differences(resource, found)
        again = server.apply(resource)
        assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], (
            f"{Ref.of(resource)} changed: {found} → {again}"
        )
    for resource in wanted:
        server.delete(Ref.of(resource))
    return {resource["kind"] for resource in wanted}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_describes_queues_is_admitted(
    server: KubernetesApi, tmp_path: Path, variant: str, profile: str
) -> None:
    loaded = load_site(site(tmp_path, variant, profile))
    wanted = action.with_secrets(loaded, rendered(loaded.site, loaded.profile))
    assert admitted(server, wanted.resources)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_policy_of_adapters_is_admitted(
    server: KubernetesApi, tmp_path: Path, profile: str
) -> None:
    loaded = load_site(site(tmp_path, "flat", profile))
    assert loaded.site.scheduler is not None
    wanted = policy(loaded.site, loaded.profile, loaded.site.scheduler)
    assert wanted is not None
    assert admitted(server, [wanted])


def test_trials_of_workloads_are_admitted(server: KubernetesApi) -> None:
    seen = {kind for hello in HELLOS for kind in admitted(server, hello.make(HOME))}
    assert len(seen) >= 7, seen


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priority": "high"}, "priority"),
        ({"parentQueu": "x"}, "field not declared in schema"),
        ({"resources": {"gpu": {"quota": "8"}}}, "quota"),
    ],
)
def test_what_the_definitions_do_not_know_is_refused(
    server: KubernetesApi, spec: Resource, said: str
) -> None:
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "odd"}}
    with pytest.raises(ClusterFailed, match=said):
        server.apply({**queue, "spec": spec})
