"""Policies of what work of a project may ask for, as they are rendered. What they refuse is judged by a real API server (tests/integration)."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from appliance.actions.kubernetes.queues import tree_of
from appliance.actions.trials.workloads import place
from appliance.config.load import load_site
from appliance.report.console.queues import queue_tree
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.queues.admission import BINDING, KAI_ACCOUNTS, POLICY
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from appliance.stages.workloads.site import WorkloadsOptions
from tests.integration.cheat_parts import MAKERS, RANGE, RBAC
from tests.integration.cheats import CHEATS
from tests.integration.honest import HONEST
from tests.integration.tree_cheats import CHEATS as TREE_CHEATS
from tests.integration.tree_cheats import HONEST as TREE_WORK
from tests.support.rendered_queues import make, only


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def names(found: Rendered, kind: str = POLICY) -> list[str]:
    return [r["metadata"]["name"] for r in found.resources if r["kind"] == kind]


def expressions(found: Rendered, name: str) -> str:
    spec: dict[str, Any] = only(found, POLICY, name)["spec"]
    return " ".join(rule["expression"] for rule in spec["validations"])


def of_release(folder: Path, version: str | None, external: str | None = None) -> Rendered:
    make(folder, "tenants")
    loaded = load_site(folder)
    own = KubernetesOptions(external=external) if external else KubernetesOptions(version=version)
    site = loaded.site.model_copy(update={"kubernetes": own})
    return rendered(site, loaded.profile)


def test_each_policy_denies_in_the_namespaces_of_projects_and_nowhere_else(folder: Path) -> None:
    found = make(folder, "tenants")
    assert len(names(found)) > 10
    assert names(found) == names(found, BINDING)
    for name in names(found):
        bound = only(found, BINDING, name)["spec"]
        (asked,) = bound["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (bound["policyName"], bound["validationActions"]) == (name, ["Deny"])
        assert (asked["key"], asked["operator"]) == ("appliance/project", "Exists")
        spec = only(found, POLICY, name)["spec"]
        assert spec["failurePolicy"] == "Fail"
        assert all(rule["message"] and rule["expression"] for rule in spec["validations"])


@pytest.mark.parametrize(("word", "actions"), [("warn", ["Warn", "Audit"]), ("audit", ["Audit"])])
def test_a_site_that_moves_over_is_warned_before_it_is_refused(
    folder: Path, word: str, actions: list[str]
) -> None:
    denied = make(folder, "tenants")
    site = (folder / "site.yml").read_text()
    (folder / "site.yml").write_text(
        site.replace("\nscheduler:", f"\nscheduler:\n  admission: {word}")
    )
    loaded = load_site(folder)
    found = rendered(loaded.site, loaded.profile)
    for name in names(found):
        assert only(found, BINDING, name)["spec"]["validationActions"] == actions
        assert only(found, POLICY, name)["spec"] == only(denied, POLICY, name)["spec"]


def test_what_a_project_may_name_stands_on_its_namespace(folder: Path) -> None:
    labels = only(make(folder, "tenants"), "Namespace", "kai-alpha")["metadata"]["labels"]
    said = {key: value for key, value in labels.items() if ".appliance/" in key}
    assert said == {
        "queue.appliance/alpha-train": "default",
        "queue.appliance/alpha-build": "default",
        "queue.appliance/alpha-notes": "interactive",
        "priority.appliance/build": "",
        "priority.appliance/build-preemptible": "",
        "priority.appliance/train": "",
    }


def test_no_namespace_but_those_of_projects_is_held_to_them(folder: Path) -> None:
    found = [r for r in make(folder, "tenants").resources if r["kind"] == "Namespace"]
    held = [r["metadata"]["name"] for r in found if "appliance/project" in r["metadata"]["labels"]]
    assert held == ["kai-alpha", "kai-beta", "kai-fabric"]
    assert "appliance-limits" in [r["metadata"]["name"] for r in found]


def test_accounts_of_a_project_are_none_of_the_schedulers(folder: Path) -> None:
    """The namespace of a project may begin as one of the scheduler's: kai-resource-lab."""
    account = "system:serviceaccount:kai-resource-lab:default"
    assert not account.startswith(KAI_ACCOUNTS)
    assert "system:serviceaccount:kai-scheduler:binder".startswith(KAI_ACCOUNTS)
    told = str(make(folder, "tenants").resources)
    assert all(f"startsWith('{known}')" in told for known in KAI_ACCOUNTS)
    assert "startsWith('system:serviceaccount:kai-resource-')" not in told


def test_most_pods_of_one_object_are_those_of_the_largest_project(folder: Path) -> None:
    make(folder, "tenants")
    text = (folder / "site.yml").read_text()
    (folder / "site.yml").write_text(
        text.replace("    - name: beta\n", "    - name: beta\n      pods: 4321\n")
    )
    loaded = load_site(folder)
    assert "n <= 4321" in expressions(rendered(loaded.site, loaded.profile), "appliance-counts")


def test_every_policy_has_a_cheat_and_every_cheat_a_policy(folder: Path) -> None:
    judges = {cheat.judge for cheat in CHEATS} - {RANGE, RBAC}
    assert judges == set(names(make(folder, "tenants")))
    assert len({cheat.name for cheat in CHEATS}) == len(CHEATS) >= 30
    assert len(HONEST) > len(MAKERS)


def test_policies_of_trees_have_cheats_and_those_of_pods_are_there_with_a_tree(
    folder: Path,
) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    with_trees, without = (
        names(make(folder / n, v)) for n, v in (("a", "trees"), ("b", "tenants"))
    )
    more = {"appliance-tree-pods", "appliance-tree-exec"}
    assert set(with_trees) - set(without) == more
    assert (
        {"appliance-trees", *more} <= {cheat.judge for cheat in TREE_CHEATS} <= {RBAC, *with_trees}
    )
    assert len({t.name for t in (*TREE_CHEATS, *TREE_WORK)}) == len(TREE_CHEATS) + len(TREE_WORK)


def test_groups_of_an_image_pass_where_the_site_says_so(folder: Path) -> None:
    found = make(folder, "trees")
    assert "supplementalGroupsPolicy" in expressions(found, "appliance-trees")
    site = (folder / "site.yml").read_text()
    text = site.replace("\nscheduler:", "\nscheduler:\n  tree_groups: unenforced")
    (folder / "site.yml").write_text(text)
    loaded = load_site(folder)
    again = rendered(loaded.site, loaded.profile)
    assert "supplementalGroupsPolicy" not in str(only(again, POLICY, "appliance-trees"))


@pytest.mark.parametrize(("version", "kept"), [("1.29.1", False), ("1.30", True), (None, True)])
def test_a_cluster_that_knows_no_such_policies_is_given_none(
    folder: Path, version: str | None, kept: bool
) -> None:
    assert bool(names(of_release(folder, version))) is kept


def test_somebody_elses_cluster_is_given_them(folder: Path) -> None:
    assert names(of_release(folder, None, "theirs.yml"))


def test_work_that_names_no_queue_passes_where_it_takes_what_is_idle(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    refused = expressions(make(folder / "a", "tenants"), "appliance-queue")
    idle = expressions(make(folder / "b", "departments"), "appliance-queue")
    assert "default-queue" in idle
    assert "default-queue" not in refused
    assert len(refused.split("variables.same")) == len(idle.split("variables.same")) + 1


def test_parts_of_gpus_pass_where_they_are_shared(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    alone = only(make(folder / "a", "tenants"), POLICY, "appliance-gpus")["spec"]["validations"]
    shared = only(make(folder / "b", "departments"), POLICY, "appliance-gpus")["spec"][
        "validations"
    ]
    assert len(alone) == len(shared) + 1


def test_under_resource_management_pools_and_pods_schedulers_are_its_own(folder: Path) -> None:
    found = make(folder, "managed")
    assert "appliance-pool" not in names(found)
    rules = only(found, POLICY, "appliance-scheduler")["spec"]["matchConstraints"]["resourceRules"]
    assert [rule["resources"] for rule in rules] == [["pods"]]


def test_the_schedulers_of_pools_may_ask_their_binder(folder: Path) -> None:
    spec = only(make(folder, "tenants"), POLICY, "appliance-queue-label")["spec"]
    (bound,) = [c["expression"] for c in spec["matchConditions"] if c["name"] == "not-bound"]
    assert "'bindrequests'" in bound
    assert "'scheduling.run.ai'" in bound


def test_a_trial_in_a_pool_carries_its_label(folder: Path) -> None:
    make(folder, "tenants")
    own = WorkloadsOptions(project="alpha", queue="notes")
    site = load_site(folder).site.model_copy(update={"workloads": own})
    assert place(site).pool == "interactive"


def test_a_site_that_only_warns_is_told_that_no_quota_is_sure(folder: Path) -> None:
    make(folder, "tenants")
    site = (folder / "site.yml").read_text()
    for word, told in (("warn", True), ("deny", False)):
        text = site.replace("\nscheduler:", f"\nscheduler:\n  admission: {word}")
        (folder / "site.yml").write_text(text)
        console = Console(record=True, file=io.StringIO())
        queue_tree(console, tree_of(load_site(folder)))
        assert ("quotas are not guaranteed" in console.export_text().replace("\n", " ")) is told


def shown(folder: Path) -> str:
    """What queue show prints, on one line."""
    console = Console(record=True, file=io.StringIO(), width=400)
    queue_tree(console, tree_of(load_site(folder)))
    return " ".join(console.export_text().split())


def test_guaranteed_cores_are_shown_where_the_site_gives_none(folder: Path) -> None:
    make(folder, "tenants")
    said = shown(folder)
    assert "alpha-train train 4 - 1 45.6 489.6" in said
    assert "cores and GB without a value in site.yml follow the guaranteed GPUs" in said
