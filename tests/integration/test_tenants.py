"""Cheats of members against a real API server with the policies of the queues, and honest work beside them.

The server is of the release the rack's cluster is built from. Nothing runs: what is judged here is what the server admits.
Everything is sent as a dry run, which passes all of admission.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_parts import Hello, Where
from appliance.actions.trials.workloads import enough
from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import load_site
from appliance.stages.queues import changes
from appliance.stages.scheduler.queues.admission import POLICY
from appliance.stages.scheduler.queues.namespaces import pull_secrets
from appliance.stages.scheduler.queues.rendered import rendered
from tests.integration import cheat_parts as parts
from tests.integration.api_server import compiled, established, file_of, running, until
from tests.integration.cheat_parts import ALPHA, BOUND, MINE, Cheat, owned_by
from tests.integration.cheats import CHEATS
from tests.integration.cheats_of_operators import LOOKS, RAY
from tests.integration.honest import HONEST
from tests.support.hello_cluster import templates
from tests.support.queue_definitions import HOME, definitions, site
from tests.support.rendered_queues import of_places
from tests.support.tenants import POLICIES, REFUSED, REPORTS, priority

pytestmark = pytest.mark.rack


@dataclass(frozen=True)
class Place:
    """The cluster as its administrator, Alice and the operator of an add-on see it."""

    admin: KubernetesApi
    alice: KubernetesApi
    operator: KubernetesApi
    policies: tuple[Resource, ...]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tenants")
    loaded = load_site(site(tmp_path_factory.mktemp("site"), "tenants"))
    wanted = rendered(of_places(loaded.site, 250, "refuse"), loaded.profile)
    with (
        running(compiled(), folder, ("alice", parts.OPERATOR)) as kubeconfig,
        KubernetesApi(kubeconfig) as admin,
        KubernetesApi(folder / "alice") as alice,
        KubernetesApi(folder / file_of(parts.OPERATOR)) as operator,
    ):
        until(lambda: admin.get(Ref("v1", "Namespace", "default")) is not None)
        for definition in definitions():
            admin.apply(definition)
        for definition in definitions():
            until(partial(established, admin, Ref.of(definition)))
        for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
            admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        for name, value in (("train", 50), ("build", 100), ("urgent", 60)):
            admin.apply(priority(name, value))
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"}
        nvidia = {**runtime, "metadata": {"name": "nvidia"}}
        admin.send("POST", "/apis/node.k8s.io/v1/runtimeclasses", "runtime", nvidia)
        changes.apply(changes.plan(loaded.site, wanted, admin), wanted, admin, lambda _: None)
        own = tuple(r for r in wanted.resources if r["kind"] == POLICY)
        admin.apply(rights_of_an_operator())
        found = Place(admin, alice, operator, own)
        for secret in pull_secrets(loaded.site, "a key"):
            admin.apply(secret)
        alice.apply(parts.named(parts.pod(), ALPHA, MINE))
        alice.apply(parts.named(parts.pod(), ALPHA, BOUND))
        admin.send("POST", f"{parts.pods(ALPHA)}/{BOUND}/binding", "a host", parts.binding(BOUND))
        alice.apply(parts.own_claim())
        alice.send("POST", parts.place("StatefulSet"), "a set of Alice's", parts.own_set())
        alice.apply(parts.own_service())
        alice.send("POST", parts.place("CronJob"), "a CronJob of Alice's", parts.own_cron())
        operator.send("POST", parts.place("JobSet"), "what Trainer made", parts.own_jobset())
        # Of kube-controller-manager, which is not there.
        trust = {"name": "kube-root-ca.crt", "namespace": ALPHA}
        operator.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": trust})
        path = f"/api/v1/namespaces/{ALPHA}/secrets"
        alice.send("POST", path, "a secret of Alice's", parts.own_secret())
        # The server takes each policy up by itself, a moment after it was made.
        for cheat in one_of_each().values():
            until(partial(judges, found, cheat, True))
        yield found


def rights_of_an_operator() -> Resource:
    """It makes what members' objects ask for in all namespaces."""
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    group = "rbac.authorization.k8s.io"
    return {
        **kind,
        "metadata": {"name": "an-operator"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": parts.OPERATOR}],
    }


def one_of_each() -> dict[str, Cheat]:
    """A cheat by the policy that refuses it."""
    return {cheat.judge: cheat for cheat in CHEATS if cheat.judge.startswith("appliance-")}


def sent(api: KubernetesApi, cheat: Cheat) -> tuple[int, Resource]:
    """What the server says, with nothing changed."""
    body = cheat.body or None
    dry = f"{cheat.path}{'&' if '?' in cheat.path else '?'}dryRun=All"
    path = cheat.path if cheat.method == "GET" else dry
    kind = parts.MERGE if cheat.method == "PATCH" else "application/json"
    return api.send(cheat.method, path, cheat.name, body, kind, answers=range(400, 600))


def verdict(place: Place, cheat: Cheat) -> str:
    """Who refused it; "" for nobody."""
    member = place.alice if cheat.member else place.admin
    status, said = sent(place.operator if cheat.operator else member, cheat)
    if status < 300:
        return ""
    assert status in REPORTS, said
    if named := REFUSED.search(said["message"]):
        return named.group(1)
    if " per Container is " in said["message"]:
        return parts.RANGE
    return other(place, cheat)


def other(place: Place, cheat: Cheat) -> str:
    """Rights, where an administrator who sends the same gets past them: to its end, or to what is not there."""
    status, said = sent(place.admin, cheat)
    return parts.RBAC if status not in REPORTS else str(said["message"])


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda c: c.name)
def test_a_cheat_is_refused_by_who_is_there_for_it(place: Place, cheat: Cheat) -> None:
    assert verdict(place, cheat) == cheat.judge


@pytest.mark.parametrize(("name", "path", "body"), HONEST, ids=[name for name, _, _ in HONEST])
def test_honest_work_passes(place: Place, name: str, path: str, body: Resource) -> None:
    kinds = {place for kind in parts.OPERATORS for place in [parts.place(kind)]}
    api = place.admin if path in kinds else place.alice
    status, said = api.send("POST", f"{path}?dryRun=All", name, body, answers=range(400, 500))
    assert status == 201, said


def test_a_container_added_to_look_into_a_pod_passes(place: Place) -> None:
    box = parts.container_of("late", **parts.VOID)
    path = f"{parts.pods(ALPHA)}/{MINE}/ephemeralcontainers"
    late = Cheat("a look", "", path, {"spec": {"ephemeralContainers": [box]}}, "PATCH")
    assert verdict(place, late) == ""


def test_an_init_container_of_rays_operator_passes(place: Place) -> None:
    """Its own, before those of a template that was judged."""
    body = owned_by(parts.named(LOOKS), RAY)
    path = f"{parts.pods(ALPHA)}?dryRun=All"
    assert place.operator.send("POST", path, "a head of Ray's", body)[0] == 201


@pytest.mark.parametrize("hello", HELLOS, ids=lambda hello: hello.key)
def test_trials_of_workloads_pass(place: Place, hello: Hello) -> None:
    home = enough(Where(ALPHA, "alpha-train", HOME.scheduler, HOME.images, "nfs"), place.admin)
    assert home.cpu == 0.48
    made = hello.make(home)
    for resource in made:
        place.admin.apply(resource)
    for number, template in enumerate(templates(made)):
        meta = {**template["metadata"], "name": f"as-pod-{number}", "namespace": ALPHA}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        place.admin.apply(pod)
        place.admin.delete(Ref.of(pod))
    for resource in made:
        place.admin.delete(Ref.of(resource))


def test_each_policy_refuses_something_and_without_it_that_passes(place: Place) -> None:
    """Planted: every policy bound to nothing; its cheats then pass, or meet another judge."""
    names = [r["metadata"]["name"] for r in place.policies]
    judged = one_of_each()
    assert sorted(judged) == sorted(names)
    for done, holds in (("Audit", False), ("Deny", True)):
        body = {"spec": {"validationActions": [done]}}
        for name in names:
            path = f"/apis/{POLICIES}/validatingadmissionpolicybindings/{name}"
            place.admin.send("PATCH", path, name, body, parts.MERGE)
        # The server takes a change up within a second or so, and all of them at once.
        for cheat in judged.values():
            until(partial(judges, place, cheat, holds))


def judges(place: Place, cheat: Cheat, holds: bool) -> bool:
    """Whether it is the cheat's judge that refuses it, or not, as ``holds`` says."""
    return (verdict(place, cheat) == cheat.judge) is holds
