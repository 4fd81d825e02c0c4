"""What the site's queues are rendered to: units, parents, marks, digests, and nothing secret."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads what kubectl would

from appliance.config.load import load_site
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.queues import bounds, kai
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from tests.support.rendered_queues import PROFILES, VARIANTS, folder, make, of_places, only

__all__ = ["folder"]


def make_with_cluster(folder: Path, variant: str) -> Rendered:
    """The same on a cluster of the site's own."""
    make(folder, variant)
    loaded = load_site(folder)
    site = loaded.site.model_copy(update={"kubernetes": KubernetesOptions()})
    return rendered(site, loaded.profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_resource_is_marked_named_once_and_the_same_each_time(
    variant: str, profile: str, tmp_path: Path
) -> None:
    found = make(tmp_path / "a", variant, profile)
    assert found.files() == make(tmp_path / "b", variant, profile).files()
    refs = [
        (r["kind"], r["metadata"].get("namespace"), r["metadata"]["name"]) for r in found.resources
    ]
    assert len(refs) == len(set(refs)) > 4
    for resource in found.resources:
        assert resource["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "appliance"
        assert resource["metadata"]["annotations"]["appliance/digest"].startswith("sha256:")
    read = list(yaml.safe_load_all(found.files()["resources.yml"]))
    assert read == list(found.resources)
    assert all(chart.version for chart in found.charts)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    for name in ("a", "b", "site"):
        (tmp_path / name).mkdir()


def test_units_are_devices_millicores_and_megabytes(folder: Path) -> None:
    spec = only(make(folder, "departments"), "Queue", "lattice-train")["spec"]
    assert spec["parentQueue"] == "lattice"
    assert spec["resources"] == {
        "gpu": {"quota": 4, "limit": 8, "overQuotaWeight": 2},
        "cpu": {"quota": 16000, "limit": -1, "overQuotaWeight": 1},
        "memory": {"quota": 64000, "limit": -1, "overQuotaWeight": 1},
    }
    assert (spec["preemptMinRuntime"], spec["reclaimMinRuntime"]) == ("10m", "30m")


def test_cores_and_memory_follow_the_guaranteed_gpus(folder: Path) -> None:
    """Class hpc has 96 cores and 960 GiB for 8 GPUs; a twentieth is of the cluster itself."""
    resources = only(make(folder, "flat"), "Queue", "team-train")["spec"]["resources"]
    assert resources["cpu"] == {"quota": 22800, "limit": -1, "overQuotaWeight": 1}
    assert resources["memory"]["quota"] == 244800
    assert only(make(folder, "flat"), "Queue", "team")["spec"]["resources"]["cpu"]["quota"] == 34200


def quota_on(folder: Path, **cores: float) -> float:
    """Cores of a queue of 2 GPUs where nodes of the default pool report so many."""
    make(folder, "flat")
    loaded = load_site(folder)
    sizes = {name.replace("_", "-"): {"cpu": found} for name, found in cores.items()}
    made = rendered(loaded.site, loaded.profile, sizes).resources
    (queue,) = (r for r in made if r["metadata"]["name"] == "team-train" and r["kind"] == "Queue")
    return float(queue["spec"]["resources"]["cpu"]["quota"] / 1000)


def test_larger_nodes_guarantee_more_and_one_host_that_lies_changes_nothing(folder: Path) -> None:
    honest = {"gpu_1": 192.0, "gpu_2": 192.0, "gpu_3": 192.0}
    assert quota_on(folder, **honest, gpu_4=192.0) == 45.6
    assert quota_on(folder, **honest, gpu_4=1e9) == 45.6
    assert quota_on(folder, **honest, gpu_4=1.0) == quota_on(folder) == 22.8


def test_what_other_queues_are_given_is_not_guaranteed_twice(folder: Path) -> None:
    make(folder, "flat")
    file = folder / "site.yml"
    text = file.read_text().replace("gpu: {quota: 1}", "gpu: {quota: 1}, cpu: {quota: 333.8}")
    file.write_text(text)
    loaded = load_site(folder)
    made = rendered(loaded.site, loaded.profile).resources
    (queue,) = (r for r in made if r["metadata"]["name"] == "team-train" and r["kind"] == "Queue")
    # 31 GPUs share 4 hosts' 364.8 cores less 333.8.
    assert queue["spec"]["resources"]["cpu"]["quota"] == 2000


def test_interactive_work_is_bounded_by_its_quota(folder: Path) -> None:
    gpu = only(make(folder, "flat"), "Queue", "team-build")["spec"]["resources"]["gpu"]
    assert gpu == {"quota": 1, "limit": 1, "overQuotaWeight": 1}


def test_a_project_has_what_its_queues_have_together(folder: Path) -> None:
    gpu = only(make(folder, "flat"), "Queue", "team")["spec"]["resources"]["gpu"]
    assert gpu == {"quota": 3, "limit": -1, "overQuotaWeight": 1}


def test_queues_of_a_pool_carry_its_label_and_those_of_the_default_none(folder: Path) -> None:
    found = make(folder, "pools")
    label = "kai.scheduler/node-pool"
    assert only(found, "Queue", "vision-build")["metadata"]["labels"][label] == "interactive"
    assert label not in only(found, "Queue", "vision-train")["metadata"]["labels"]
    assert only(found, "Queue", "vision-build")["spec"]["parentQueue"] == "vision-interactive"
    assert only(found, "SchedulingShard", "slices")["spec"]["partitionLabelValue"] == "slices"
    assert found.node_labels == {"gpu-1": {label: "interactive"}, "gpu-2": {label: "slices"}}


def test_the_host_is_the_nearest_level(folder: Path) -> None:
    levels = only(make(folder, "pools"), "Topology", "fabric")["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == [
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/rack",
        "kubernetes.io/hostname",
    ]


@pytest.mark.parametrize(("profile", "levels"), [("hpc", 2), ("cost-efficient", 1)])
def test_hosts_on_the_same_switches_are_near_where_there_is_infiniband(
    folder: Path, profile: str, levels: int
) -> None:
    found = only(make(folder, "flat", profile), "Topology", "fabric")["spec"]["levels"]
    names = ["fabric.topograph.run/tier-1", "kubernetes.io/hostname"]
    assert [level["nodeLabel"] for level in found] == names[-levels:]


def test_resource_management_gets_departments_and_projects_instead_of_queues(folder: Path) -> None:
    found = make(folder, "managed")
    assert not [r for r in found.resources if r["kind"] in ("Queue", "SchedulingShard")]
    department = only(found, "Department", "research")["spec"]
    assert [q["name"] for q in department["queues"]] == ["research", "research-interactive"]
    project = only(found, "Project", "vision")["spec"]
    assert (project["parent"], project["namespace"]) == ("research", "kai-vision")
    assert project["defaultNodePools"] == ["interactive", "default"]
    train = project["queues"][1]
    assert (train["name"], train["nodepool"], train["priority"]) == ("vision-train", "default", 150)
    assert train["resources"]["gpu"] == {"deserved": 4, "limit": 8, "overQuotaWeight": 3}
    assert "parent" not in only(found, "Project", "speech")["spec"]


def test_namespaces_hold_pods_to_a_security_standard(folder: Path) -> None:
    found = make(folder, "departments")
    key = "pod-security.kubernetes.io/enforce"
    assert only(found, "Namespace", "kai-lattice")["metadata"]["labels"][key] == "baseline"
    assert only(found, "Namespace", "kai-serving")["metadata"]["labels"][key] == "restricted"


def test_members_write_secrets_but_can_neither_read_them_nor_change_queues_or_rights(
    folder: Path,
) -> None:
    found = make(folder, "departments")
    granted = {
        (resource, verb)
        for r in found.resources
        if r["kind"] in ("Role", "ClusterRole")
        for rule in r["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert not [g for g in granted if "*" in g or g[0] in ("roles", "rolebindings")]
    assert {verb for resource, verb in granted if resource == "secrets"} == {
        "create",
        "delete",
        "update",
    }
    assert not [g for g in granted if g[0] in ("ingresses", "persistentvolumes", "events/create")]
    assert {verb for resource, verb in granted if resource == "queues"} == {"get", "list", "watch"}
    subjects = only(found, "RoleBinding", "appliance-members")["subjects"]
    assert [(s["kind"], s["name"]) for s in subjects] == [
        ("Group", "physics-team"),
        ("User", "alice@example.com"),
    ]


def test_the_program_of_limits_reads_everywhere_and_writes_in_projects_alone(folder: Path) -> None:
    found = make(folder, "departments")
    bound = [
        r
        for r in found.resources
        if r["kind"] in ("RoleBinding", "ClusterRoleBinding")
        and [s["name"] for s in r["subjects"]] == ["appliance-limits"]
    ]
    everywhere = {r["roleRef"]["name"] for r in bound if r["kind"] == "ClusterRoleBinding"}
    assert everywhere == {"appliance-limits-lists"}
    verbs = {
        (resource, verb)
        for rule in only(found, "ClusterRole", "appliance-limits-lists")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    kinds = ("namespaces", "pods", "deployments", "replicasets", "statefulsets", "jobs")
    assert verbs == {(kind, "list") for kind in kinds}


def test_hosts_of_mig_on_demand_are_named_to_the_program_and_to_its_rights(folder: Path) -> None:
    own = make_with_cluster(folder, "pools")
    said = only(own, "ConfigMap", "appliance-mig")["data"]
    assert json.loads(said["slices"]) == {
        "hosts": ["gpu-2"],
        "profiles": ["1g.10gb", "3g.40gb"],
        "queues": ["vision-small"],
    }
    rule, everywhere = only(own, "ClusterRole", "appliance-mig")["rules"]
    assert everywhere == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (
        ["nodes"],
        ["gpu-2"],
        ["get", "patch"],
    )
    assert only(own, "ClusterRoleBinding", "appliance-mig")["subjects"][0]["name"] == (
        "appliance-limits"
    )


def test_nobody_may_touch_a_node_where_nothing_is_divided_on_demand(folder: Path) -> None:
    found = make_with_cluster(folder, "departments")
    assert not [r for r in found.resources if r["metadata"]["name"] == "appliance-mig"]
    granted = {
        resource
        for r in found.resources
        for rule in r.get("rules", ())
        for resource in rule["resources"]
    }
    assert "nodes" not in granted


def test_members_have_no_secrets_where_no_policy_keeps_the_registrys_key_from_them(
    folder: Path,
) -> None:
    make(folder, "departments")
    text = (folder / "site.yml").read_text()
    (folder / "site.yml").write_text(
        text.replace("scheduler:\n", "scheduler:\n  admission: warn\n")
    )
    loaded = load_site(folder)
    found = rendered(loaded.site, loaded.profile)
    given = {
        resource
        for r in found.resources
        if (r["kind"], r["metadata"]["name"]) == ("Role", "appliance-members")
        for rule in r["rules"]
        for resource in rule["resources"]
    }
    assert not given & {"secrets", "poddisruptionbudgets"}
    (item,) = of_kind(found, "LimitRange")[0]["spec"]["limits"]
    assert set(item) == {"type", "default", "defaultRequest"}, "a LimitRange cannot warn"


def of_kind(found: Rendered, kind: str) -> list[dict[str, Any]]:
    return [r for r in found.resources if r["kind"] == kind]


@pytest.mark.parametrize(("profile", "memory"), [("hpc", 7680), ("cost-efficient", 3840)])
def test_a_container_that_says_nothing_gets_a_part_of_a_gpus_share(
    folder: Path, profile: str, memory: int
) -> None:
    (item,) = of_kind(make(folder, "flat", profile), "LimitRange")[0]["spec"]["limits"]
    assert item["default"]["memory"] == f"{memory}Mi"
    assert item["defaultRequest"]["memory"] == f"{memory // 4}Mi"
    assert set(item["default"]) == {"memory", "ephemeral-storage"}
    assert item["maxLimitRequestRatio"] == {"memory": "4", "ephemeral-storage": "16"}


@pytest.mark.parametrize(
    ("cores", "least"),
    [
        ({}, "480m"),
        ({"gpu-1": 224.0}, "1120m"),
        ({"gpu-1": 2.0, "gpu-2": 2.0, "gpu-3": 2.0, "gpu-4": 2.0}, "10m"),
        # A host cannot raise it without bound, nor lower that of others.
        ({"gpu-1": 1e9}, "1920m"),
        ({"gpu-1": 0.5}, "480m"),
    ],
)
def test_a_host_runs_out_of_cores_before_it_runs_out_of_places(
    folder: Path, cores: dict[str, float], least: str
) -> None:
    make(folder, "flat")
    loaded = load_site(folder)
    site = of_places(loaded.site, 250, "refuse")
    found = rendered(site, loaded.profile, {h: {"cpu": c} for h, c in cores.items()})
    space = only(found, "Namespace", "kai-team")
    assert space["metadata"]["annotations"]["appliance/pod-cpu"] == least
    (item,) = of_kind(found, "LimitRange")[0]["spec"]["limits"]
    assert item["defaultRequest"]["cpu"] == ("50m" if least == "10m" else least)


@pytest.mark.parametrize(
    ("release", "small", "version"),
    [
        ("1.33", "raise", None),
        ("1.34", "raise", "v1beta1"),
        ("1.35", "raise", "v1beta1"),
        ("1.36", "raise", "v1"),
        ("1.36", "refuse", None),
        ("1.36", "allow", None),
    ],
)
def test_requests_are_raised_where_the_release_can(
    folder: Path, release: str, small: str, version: str | None
) -> None:
    make(folder, "flat")
    loaded = load_site(folder)
    site = of_places(loaded.site, 250, small)
    own = site.kubernetes.model_copy(update={"version": release})  # type: ignore[union-attr]
    found = rendered(site.model_copy(update={"kubernetes": own}), loaded.profile)
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    versions = [r["apiVersion"] for kind in kinds for r in of_kind(found, kind)]
    assert versions == ([f"admissionregistration.k8s.io/{version}"] * 2 if version else [])
    sizes = only(found, "ValidatingAdmissionPolicy", "appliance-sizes")["spec"]["validations"]
    assert any("requests too little CPU" in v["message"] for v in sizes) == (small == "refuse")


def test_a_site_that_only_warns_raises_nothing(folder: Path) -> None:
    make(folder, "flat")
    loaded = load_site(folder)
    site = of_places(loaded.site, 250)
    options = site.scheduler.model_copy(update={"admission": "warn"})  # type: ignore[union-attr]
    found = rendered(site.model_copy(update={"scheduler": options}), loaded.profile)
    assert not of_kind(found, "MutatingAdmissionPolicy")


def test_more_places_need_smaller_requests(folder: Path) -> None:
    make(folder, "flat")
    loaded = load_site(folder)
    space = only(
        rendered(of_places(loaded.site, 500, "refuse"), loaded.profile), "Namespace", "kai-team"
    )
    assert space["metadata"]["annotations"]["appliance/pod-cpu"] == "240m"


def test_hosts_of_pools_that_a_project_does_not_use_do_not_count(folder: Path) -> None:
    make(folder, "tenants")
    loaded = load_site(folder)
    pools = {p.name: p.hosts for p in loaded.site.scheduler.node_pools}  # type: ignore[union-attr]
    large = {host: {"cpu": 192.0} for host in pools["interactive"]}
    found = rendered(of_places(loaded.site, 250, "refuse"), loaded.profile, large)
    projects = loaded.site.scheduler.projects  # type: ignore[union-attr]
    least = {
        p.name: only(found, "Namespace", f"kai-{p.name}")["metadata"]["annotations"][bounds.POD_CPU]
        for p in projects
    }
    uses = {p.name: any(q.pool == "interactive" for q in p.queues) for p in projects}
    assert set(uses.values()) == {True, False}
    assert least == {name: "960m" if used else "480m" for name, used in uses.items()}


def test_every_kind_that_members_create_is_counted(folder: Path) -> None:
    found = make(folder, "departments")
    hard = of_kind(found, "ResourceQuota")[0]["spec"]["hard"]
    counted = {name.removeprefix("count/").partition(".")[0] for name in hard}
    created = {
        resource
        for r in of_kind(found, "Role")
        if r["metadata"]["name"] == "appliance-members"
        for rule in r["rules"]
        if "create" in rule["verbs"]
        for resource in rule["resources"]
        if "/" not in resource
    }
    assert created
    assert created <= counted


def test_what_a_project_can_write_fits_into_etcd_eight_times(folder: Path) -> None:
    hard = of_kind(make(folder, "departments"), "ResourceQuota")[0]["spec"]["hard"]
    large = sum(int(hard[name]) for name in ("configmaps", "secrets")) * bounds.LARGEST_DATA
    slices = int(hard[bounds.SLICES]) * bounds.LARGEST_SLICE
    # Pods that work are among all pods; bytes of volumes lie elsewhere.
    apart = ("configmaps", "secrets", "pods", "requests.storage", bounds.SLICES)
    others = sum(int(n) for name, n in hard.items() if name not in apart)
    assert int(hard["count/pods"]) > int(hard["pods"])
    assert 8 * (large + slices + others * bounds.LARGEST_OBJECT) < 2 << 30


def test_the_bytes_of_a_projects_claims_are_bounded(folder: Path) -> None:
    make(folder, "flat")
    text = (folder / "site.yml").read_text()
    hard = of_kind(make(folder, "flat"), "ResourceQuota")[0]["spec"]["hard"]
    assert hard["requests.storage"] == "50Ti"
    (folder / "site.yml").write_text(
        text.replace("    - name: team\n", "    - name: team\n      storage: 3Ti\n")
    )
    loaded = load_site(folder)
    hard = of_kind(rendered(loaded.site, loaded.profile), "ResourceQuota")[0]["spec"]["hard"]
    assert hard["requests.storage"] == "3Ti"


def test_members_read_what_messages_send_them_to(folder: Path) -> None:
    """Labels of their namespace, and storage classes; what kubectl rollout, top and run -it want."""
    found = make(folder, "departments")
    (own,) = (r for r in of_kind(found, "Role") if r["metadata"]["name"] == "appliance-members")
    rights = {
        (group, resource, verb)
        for rule in (*own["rules"], *only(found, "ClusterRole", "appliance-queue-readers")["rules"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert rights >= {
        ("", "namespaces", "get"),
        ("storage.k8s.io", "storageclasses", "list"),
        ("apps", "controllerrevisions", "list"),
        ("discovery.k8s.io", "endpointslices", "list"),
        ("metrics.k8s.io", "pods", "list"),
        ("", "pods/attach", "create"),
        ("", "pods/ephemeralcontainers", "patch"),
    }


def test_requests_of_members_and_of_their_pods_wait_behind_those_of_the_cluster(
    folder: Path,
) -> None:
    found = make(folder, "departments")
    spec = only(found, "FlowSchema", "appliance-members")["spec"]
    subjects = spec["rules"][0]["subjects"]
    assert {"kind": "User", "user": {"name": "alice@example.com"}} in subjects
    assert {"kind": "Group", "group": {"name": "physics-team"}} in subjects
    account = {"namespace": "kai-lattice", "name": "*"}
    assert {"kind": "ServiceAccount", "serviceAccount": account} in subjects
    assert 900 < spec["matchingPrecedence"] < 9000
    limited = only(found, "PriorityLevelConfiguration", "appliance-members")["spec"]["limited"]
    assert limited["borrowingLimitPercent"] == 0


def test_the_pull_secret_is_named_and_never_written(folder: Path) -> None:
    found = make(folder, "departments")
    accounts = of_kind(found, "ServiceAccount")
    secrets = [r["imagePullSecrets"] for r in accounts if r["metadata"]["name"] == "default"]
    assert secrets
    assert all(named == [{"name": "ngc"}] for named in secrets)
    key = (folder / "secrets/munge_key").read_text().strip()
    assert not [name for name, text in found.files().items() if key in text]
    assert not [r for r in make(folder, "flat").resources if "imagePullSecrets" in r]


def test_values_follow_the_site_and_the_release(folder: Path) -> None:
    values = {c.name: c.values for c in make(folder, "departments").charts}
    assert values["kai-scheduler"]["global"] == {"gpuSharing": True, "leaderElection": False}
    assert values["kai-scheduler"]["defaultQueue"] == {"createDefaultQueue": False}
    assert (
        values["gpu-operator"]["driver"] == values["gpu-operator"]["toolkit"] == {"enabled": False}
    )
    values = {c.name: c.values for c in make(folder, "managed").charts}
    inner = values["kai-resource-management"]["kai-scheduler"]
    assert inner["global"] == {"gpuSharingMode": "NonMemoryEnforced", "leaderElection": False}
    values = {c.name: c.values for c in make(folder, "pools").charts}
    assert values["gpu-operator"]["mig"] == {"strategy": "mixed"}
    assert values["gpu-operator"]["migManager"] == {"enabled": False}


def test_versions_are_exact_and_their_values_have_a_digest(folder: Path) -> None:
    charts = {c.name: c for c in make(folder, "flat").charts}
    assert charts["kai-scheduler"].version == "v0.16.8"
    assert charts["kai-scheduler"].line == "0.16"
    assert all(c.values_digest.startswith("sha256:") for c in charts.values())


def test_queues_of_work_that_names_none_come_and_go_with_the_others(folder: Path) -> None:
    def named(name: str) -> dict[str, Manifest]:
        found = [r for r in make(folder, name).resources if r["kind"] == "Queue"]
        return {r["metadata"]["name"]: r for r in found}

    parent, child = (named("departments")[n] for n in ("default-parent-queue", "default-queue"))
    assert child["spec"]["parentQueue"] == "default-parent-queue"
    assert "parentQueue" not in parent["spec"]
    nothing = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    assert child["spec"]["resources"] == dict.fromkeys(("gpu", "cpu", "memory"), nothing)
    assert not [name for name in named("flat") if name.startswith("default-")]


def test_a_queue_has_one_name_in_all_metrics_and_its_title_beside_it(folder: Path) -> None:
    found = [r for r in make(folder, "departments").resources if r["kind"] == "Queue"]
    assert not [r for r in found if "displayName" in r["spec"]]
    titles = [r["metadata"]["annotations"].get("appliance/title") for r in found]
    assert [t for t in titles if t and t.startswith("department ")]


@pytest.mark.parametrize(("given", "said"), [("2d", "48h"), ("90m", "90m"), ("4h", "4h")])
def test_times_of_queues_are_written_as_go_reads_them(given: str, said: str) -> None:
    assert kai._duration(given) == said


def test_members_reach_into_pods_by_either_way_clients_ask(folder: Path) -> None:
    (role,) = (
        r
        for r in make(folder, "departments").resources
        if (r["kind"], r["metadata"]["name"]) == ("Role", "appliance-members")
        and r["metadata"]["namespace"] == "kai-lattice"
    )
    (rule,) = (rule for rule in role["rules"] if "pods/exec" in rule["resources"])
    assert rule["verbs"] == ["create", "get"]
    # What was scaled to 0 when its GPUs were idle is started by kubectl scale, as its event says.
    (rule,) = (rule for rule in role["rules"] if "deployments" in rule["resources"])
    assert {"deployments/scale", "statefulsets/scale"} <= set(rule["resources"])
