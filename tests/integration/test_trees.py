"""Shared trees against a real API server: who gets whose files, by what is admitted. Nothing runs, and nothing is mounted.

Everything is sent as a dry run, but commands in pods: these pass admission and end at a host that is not there.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.config.load import load_site
from appliance.models.queue_plan import Step
from appliance.stages.queues import changes
from appliance.stages.scheduler.queues.namespaces import MEMBERS, RBAC
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from tests.integration import tree_cheats
from tests.integration.api_server import compiled, controlled, established, file_of, running, until
from tests.integration.cheat_parts import ALPHA, MAKERS, named, place, pod
from tests.integration.cheat_parts import RBAC as RIGHTS
from tests.integration.tree_cheats import CHEATS, HIS, HONEST, PLAIN, SENDERS, STRATEGIC, Try, held
from tests.support.queue_definitions import definitions, site
from tests.support.tenants import POLICIES, REFUSED, REPORTS, priority

pytestmark = pytest.mark.rack

AT_WORK = ["persistentvolume-binder-controller", "persistentvolume-protection-controller"]
CONTROLLERS = ",".join((*AT_WORK, "persistentvolumeclaim-protection-controller"))


@dataclass(frozen=True)
class World:
    """The cluster as its administrator and as others see it; its site's folder."""

    admin: KubernetesApi
    by: dict[str, KubernetesApi]
    folder: Path
    wanted: Rendered


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("trees")
    home = site(tmp_path_factory.mktemp("site"), "trees")
    loaded = load_site(home)
    wanted = rendered(loaded.site, loaded.profile)
    with ExitStack() as held_open:
        kubeconfig = held_open.enter_context(running(compiled(), folder, SENDERS))
        admin = held_open.enter_context(KubernetesApi(kubeconfig))
        others = {n: held_open.enter_context(KubernetesApi(folder / file_of(n))) for n in SENDERS}
        until(lambda: admin.get(Ref("v1", "Namespace", "default")) is not None)
        for definition in definitions():
            admin.apply(definition)
        for definition in definitions():
            until(partial(established, admin, Ref.of(definition)))
        for name, value in (("train", 50), ("build", 100)):
            admin.apply(priority(name, value))
        changes.apply(changes.plan(loaded.site, wanted, admin), wanted, admin, lambda _: None)
        for name in SENDERS:
            admin.apply(bound(name))
        found = World(admin, others, home, wanted)
        until(
            lambda: (
                not given(
                    found,
                    Try("rights", "", "bob", f"/api/v1/namespaces/{ALPHA}/pods", method="GET"),
                )
            )
        )
        for cheat in one_of_each().values():
            until(partial(judges, found, cheat))
        # They give up on a server that is not ready after ten seconds; this one judges by now.
        held_open.enter_context(controlled(compiled(), kubeconfig, folder, CONTROLLERS))
        bob = others["bob"]
        bob.apply(named(held(2002), ALPHA, HIS))
        bob.apply(named(pod(gpus=0), ALPHA, PLAIN))
        for kind, name, template in (
            ("Deployment", HIS, held(2002)),
            ("CronJob", HIS, held(2002)),
            ("Deployment", PLAIN, pod(gpus=0)),
        ):
            made = MAKERS[kind][2](template)
            made["metadata"]["name"] = name
            bob.send("POST", place(kind), name, made)
        # Policies know of a pod a moment after it was made.
        for cheat in CHEATS:
            if cheat.judge == tree_cheats.ENTERED:
                until(partial(judges, found, cheat))
        yield found


def bound(name: str) -> Resource:
    """What gives somebody a member's rights."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": MEMBERS}
    who = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    meta = {"name": f"try-{SENDERS.index(name)}", "namespace": ALPHA}
    kind = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": meta}
    return {**kind, "roleRef": role, "subjects": [who]}


def one_of_each() -> dict[str, Try]:
    """A cheat by the policy that refuses it, of those that need no pod to be there."""
    later = (tree_cheats.CHANGED, tree_cheats.ENTERED, RIGHTS)
    return {
        cheat.judge: cheat
        for cheat in reversed(CHEATS)
        if cheat.judge not in later and cheat.method == "POST"
    }


def sent(api: KubernetesApi, what: Try) -> tuple[int, Resource]:
    """What the server says, with nothing changed."""
    dry = f"{what.path}{'&' if '?' in what.path else '?'}dryRun=All"
    path = what.path if what.method == "GET" else dry
    kind = STRATEGIC if what.method == "PATCH" else "application/json"
    return api.send(what.method, path, what.name, what.body or None, kind, answers=range(400, 600))


def given(world: World, what: Try) -> str:
    """Who refused it; "" for nobody."""
    status, said = sent(world.by.get(what.by, world.admin), what)
    # A command in a pod that has no host ends behind admission.
    if status < 300 or (what.method == "GET" and status not in REPORTS):
        return ""
    assert status in REPORTS, said
    if found := REFUSED.search(said["message"]):
        return found.group(1)
    again, told = sent(world.admin, what)
    return RIGHTS if again not in REPORTS else str(told["message"])


def judges(world: World, what: Try) -> bool:
    return given(world, what) == what.judge


def stands(world: World, what: Try, holds: bool) -> bool:
    return judges(world, what) is holds


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda c: c.name)
def test_nobody_gets_the_files_of_another(world: World, cheat: Try) -> None:
    assert given(world, cheat) == cheat.judge


@pytest.mark.parametrize("work", HONEST, ids=lambda w: w.name)
def test_honest_work_with_trees_passes(world: World, work: Try) -> None:
    assert given(world, work) == ""


def test_who_is_refused_reads_his_own_number(world: World) -> None:
    cheat = next(c for c in CHEATS if c.name == "as another person")
    _, said = sent(world.by["alice"], cheat)
    wanted = "runAsUser: 2001, runAsGroup: 2001, supplementalGroupsPolicy: Strict"
    assert f"under spec.securityContext of the pod or template set {wanted}" in said["message"]


def test_each_policy_of_trees_is_what_refuses(world: World) -> None:
    """Planted: one policy after the other bound to nothing; its cheats then pass, or meet another judge."""
    for name in (tree_cheats.TREES, tree_cheats.CHANGED, tree_cheats.ENTERED):
        cheat = next(c for c in CHEATS if c.judge == name)
        path = f"/apis/{POLICIES}/validatingadmissionpolicybindings/{name}"
        for done, holds in (("Audit", False), ("Deny", True)):
            body = {"spec": {"validationActions": [done]}}
            world.admin.send("PATCH", path, name, body, tree_cheats.MERGE)
            until(partial(stands, world, cheat, holds))


def test_claims_are_bound_to_the_volume_of_their_tree_alone(world: World) -> None:
    claim = Ref("v1", "PersistentVolumeClaim", "appliance-tree-home", ALPHA)
    until(lambda: (world.admin.get(claim) or {}).get("status", {}).get("phase") == "Bound")
    volume = world.admin.get(Ref("v1", "PersistentVolume", f"{ALPHA}.appliance-tree-home"))
    assert volume is not None
    assert volume["spec"]["nfs"] == {"server": "10.0.0.10", "path": "/srv/shared/home"}
    data = world.admin.get(Ref("v1", "PersistentVolume", f"{ALPHA}.appliance-tree-data"))
    assert data is not None
    assert "ro" in data["spec"]["mountOptions"]


def applied(world: World) -> list[str]:
    """Steps of one more apply, and that another one has none."""
    loaded = load_site(world.folder)
    wanted = rendered(loaded.site, loaded.profile)
    made = changes.plan(loaded.site, wanted, world.admin)
    assert made.refused == ()
    changes.apply(made, wanted, world.admin, lambda _: None)
    again = changes.plan(loaded.site, wanted, world.admin)
    assert [c for c in again.changes if c.step is not Step.LEAVE] == []
    return [f"{c.step} {c.kind} {c.title}" for c in made.changes if c.step is not Step.LEAVE]


def phase(world: World, name: str) -> str:
    ref = Ref("v1", "PersistentVolumeClaim", f"appliance-tree-{name}", ALPHA)
    return str((world.admin.get(ref) or {}).get("status", {}).get("phase"))


def test_a_tree_that_moves_or_that_somebody_deleted_is_made_anew(world: World) -> None:
    assert applied(world) == []
    file = world.folder / "site.yml"
    before = file.read_text()
    gone, claim = (
        f"delete PersistentVolumeClaim {ALPHA}/appliance-tree-data",
        f"create PersistentVolumeClaim {ALPHA}/appliance-tree-data",
    )
    volume = f"PersistentVolume {ALPHA}.appliance-tree-data"
    file.write_text(
        before.replace(
            "- {name: data, export: /srv/data, read_only",
            "- {name: data, export: /srv/data, path: new, read_only",
            1,
        )
    )
    until(lambda: phase(world, "data") == "Bound")
    assert applied(world) == [gone, f"replace {volume}", claim]
    until(lambda: phase(world, "data") == "Bound")
    world.admin.delete(Ref("v1", "PersistentVolumeClaim", "appliance-tree-data", ALPHA))
    until(lambda: phase(world, "data") == "None")
    assert applied(world) == [f"replace {volume}", claim]
    until(lambda: phase(world, "data") == "Bound")
    file.write_text(before)
    applied(world)
    until(lambda: phase(world, "data") == "Bound")


def test_a_tree_that_a_pod_mounts_is_neither_moved_nor_taken_away(world: World) -> None:
    file = world.folder / "site.yml"
    before = file.read_text()
    line = "        - {name: home, export: /srv/shared, path: home}\n"
    for after in (before.replace(line, ""), before.replace("path: home}", "path: homes}", 1)):
        file.write_text(after)
        loaded = load_site(world.folder)
        made = changes.plan(loaded.site, rendered(loaded.site, loaded.profile), world.admin)
        (refused,) = {c.title for c in made.refused}
        assert refused == f"{ALPHA}/appliance-tree-home"
        assert f"pod {ALPHA}/{HIS}" in " ".join(d for c in made.refused for d in c.details)
    file.write_text(before)
