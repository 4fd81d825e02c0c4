"""Section workloads: what is refused before a host is touched, and what the role is given."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from appliance.acceptance.sandbox import PLAIN
from appliance.config.finding import InvalidConfig, render
from appliance.config.load import LoadedSite, load_site
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.site import PINNED_IMAGE
from appliance.stages.scheduler.queues.rendered import rendered
from appliance.stages.workloads import stage
from appliance.stages.workloads.releases import section
from appliance.stages.workloads.site import WorkloadsOptions
from appliance.stages.workloads.table import images, table
from appliance.stages.workloads.values import MLFLOW_ADDRESS
from appliance.stages.workloads.variables import variables
from tests.support.workloads_site import ALL, CLUSTER, KEYS, LOGIN, QUEUES, SERVED, STORAGE, load


def given(loaded: LoadedSite, host: str = "head") -> dict[str, Any]:
    site = loaded.site
    return dict(variables(RoleContext(loaded.profile, site, site.host(host), {}, {})))


REFUSED = [
    ("{nfs_csi: {export: /srv/dat}}", "nfs_csi.export", "is not exported", "/srv/data"),
    ("{nfs_csi: {export: /srv/ro}}", "nfs_csi.export", "is read-only", "/srv/data"),
    (
        "{nfs_csi: {}, local_path: {default_class: true}}",
        "local_path.default_class",
        "the default class already",
        "default_class: false",
    ),
    (
        "{nfs_csi: {class_name: fast}, local_path: {class_name: fast}}",
        "local_path.class_name",
        "nfs_csi also names its class",
        "another name",
    ),
    ("{project: tem}", "project", 'there is no project "tem"', 'did you mean "team"?'),
    ("{queue: tran}", "queue", 'there is no queue "team-tran"', 'did you mean "train"?'),
    ("{images: {buzybox: a/b:1}}", "images.buzybox", "there is no trial image", "images"),
    ("{kuberay: {version: latest}}", "kuberay.version", "not a version of a chart", "as 1.7.0"),
    ("{kuberay: {sha256: abc}}", "kuberay.sha256", "not a SHA-256 digest", "sha256sum"),
    ("{images: {jobset: 'a b'}}", "images.jobset", "is not an image", "registry, name and tag"),
    ("{images: {dask: a.b:5000/c}}", "images.dask", "neither tag nor digest", "its digest"),
    ("{mlflow: {}}", "mlflow", "no storage class is the default", "mlflow.storage_class"),
    (
        "{mlflow: {storage: 50G, storage_class: own}}",
        "mlflow.storage",
        "not a size",
        "as 50Gi",
    ),
    ("{vllm: {}}", "vllm.models", "is missing", 'add "models: ..."'),
    ("{vllm: {models: []}}", "vllm.models", "is empty", "at least one"),
    (
        "{vllm: {models: [{name: a, path: /a}], queue: train}}",
        "vllm.models[0].path",
        "not a folder below the export",
        "without a leading /",
    ),
    (
        "{vllm: {models: [{name: a, path: a}, {name: a, path: b}], queue: train}}",
        "vllm.models[1].name",
        "two models",
        "another name",
    ),
    (
        "{vllm: {models: [{name: a, path: a}], queue: train, export: /srv/dat}}",
        "vllm.export",
        "is not exported",
        "/srv/data",
    ),
    ("{vllm: {models: [{name: a, path: a}]}}", "vllm", "no queue for inference", "vllm.queue"),
    (
        "{vllm: {models: [{name: a, path: a}], queue: tran}}",
        "vllm.queue",
        'there is no queue "team-tran"',
        'did you mean "train"?',
    ),
    (
        f"{{jupyter: {{{LOGIN}}}}}",
        "jupyter",
        "no storage class is the default",
        "jupyter.storage_class",
    ),
    (
        "{jupyter: {authenticator: dummy, storage_class: a}}",
        "jupyter.authenticator",
        "accepts any user name",
        "authenticates users",
    ),
    (
        f"{{jupyter: {{{LOGIN}, storage_class: a, config: {{A: {{client_secret: b}}}}}}}}",
        "jupyter.config.A.client_secret",
        "is a secret, which must not be in site.yml",
        "namespace jupyterhub",
    ),
    (
        f"{{jupyter: {{{LOGIN}, storage_class: a, config: {{A: {{b: [{{__ansible_vault: c}}]}}}}}}}}",
        "jupyter.config.A.b[0].__ansible_vault",
        "is reserved by Ansible",
        "another name",
    ),
    (
        f"{{jupyter: {{{LOGIN}, storage_class: a, queue: biuld}}}}",
        "jupyter.queue",
        'there is no queue "team-biuld"',
        'did you mean "build"?',
    ),
    (
        "{mlflow: {storage_class: own, projects: [tem]}}",
        "mlflow.projects[0]",
        'there is no project "tem"',
        'did you mean "team"?',
    ),
    (
        "{mlflow: {storage_class: own, projects: [team], open_to_cluster: true}}",
        "mlflow.open_to_cluster",
        "projects lists some",
        "remove one of them",
    ),
    (
        "{mlflow: {storage_class: own, reached_from: [kai-team]}}",
        "mlflow.reached_from[0]",
        "is the namespace of project team",
        "projects: [team]",
    ),
    (
        "{kuberay: {reached_from: [Monitoring]}}",
        "kuberay.reached_from[0]",
        '"Monitoring" is not a namespace',
        "such as ingress-nginx or monitoring",
    ),
    ("{kube_ray: {}}", "kube_ray", "is an unknown key", 'did you mean "kuberay"?'),
]


@pytest.mark.parametrize(("text", "key", "says", "remedy"), REFUSED, ids=[r[1] for r in REFUSED])
def test_what_cannot_be_is_refused_with_its_line(
    text: str, key: str, says: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        load(tmp_path, f"workloads: {text}\n")
    found = refused.value.findings
    assert [f.key for f in found] == [f"workloads.{key}"], render(found)
    assert says in found[0].message
    assert remedy in found[0].remedy
    assert found[0].line == len((tmp_path / "site.yml").read_text().splitlines())


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ("", "the site has no cluster"),
        ("kubernetes: {external: kubeconfig}\n", "an external cluster"),
        ("kubernetes: {version: '1.27', source: /opt/source}\n", "needs Kubernetes from 1.31"),
        ("kubernetes: {version: '1.35'}\n", "kubernetes.source contains none"),
    ],
)
def test_a_cluster_that_cannot_carry_it_is_refused(cluster: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").touch(mode=0o600)
    with pytest.raises(InvalidConfig) as refused:
        load(tmp_path, "workloads: {trainer: {}, mpi_operator: {}}\n", cluster)
    assert [f for f in refused.value.findings if says in f.message], render(refused.value.findings)


def test_volumes_on_nfs_want_an_export(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="needs a writable export"):
        load(tmp_path, "workloads: {nfs_csi: {}}\n", storage="")


@pytest.mark.parametrize(
    ("section", "clients", "refused"),
    [
        ("nfs_csi: {}", "10.9.0.0/24", "workloads.nfs_csi makes head mount /srv/data from 10.0.0."),
        (
            f"vllm: {SERVED}",
            "10.9.0.0/24",
            "workloads.vllm makes head mount /srv/data from 10.0.0.",
        ),
        ("nfs_csi: {}", "10.0.0.0/24", ""),
        ("nfs_csi: {export: /srv/more}", "10.9.0.0/24", ""),
    ],
)
def test_hosts_may_mount_what_volumes_and_models_lie_on(
    tmp_path: Path, section: str, clients: str, refused: str
) -> None:
    exports = f"[{{path: /srv/data, clients: [{clients}]}}, {{path: /srv/more}}]"
    try:
        load(tmp_path, f"workloads: {{{section}}}\n", storage=f"storage: {{exports: {exports}}}\n")
        told = []
    except InvalidConfig as error:
        told = [f.message for f in error.findings if f.key == "storage.exports[0].clients"]
    assert any(refused in line for line in told) if refused else told == []


def test_every_row_has_a_section_and_every_section_a_row() -> None:
    others = {"project", "queue", "images"}
    assert set(KEYS) == set(WorkloadsOptions.model_fields) - others
    assert [a.key for a in table().addons if section(WorkloadsOptions(), a) is not None] == []
    spaces = [addon.namespace for addon in table().addons]
    assert len(set(spaces)) == len(spaces), "the pods of two add-ons could not be told apart"


def test_all_add_ons_come_in_their_order_each_pinned_in_a_namespace_of_its_own(
    tmp_path: Path,
) -> None:
    loaded = load(tmp_path, ALL)
    assert stage.STAGE.wanted(loaded.site)
    found = given(loaded)
    assert [r["name"] for r in found["workloads_releases"]] == [a.name for a in table().addons]
    assert all(r["version"] for r in found["workloads_releases"])
    assert found["workloads_unwanted"] == []
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in found["workloads_namespaces"]}
    assert {r["namespace"] for r in found["workloads_releases"]} == set(labels)
    mark, _, stage_name = found["workloads_mark"].partition("=")
    assert {label[mark] for label in labels.values()} == {stage_name}
    standard = "pod-security.kubernetes.io/enforce"
    assert labels["csi-nfs"][standard] == "privileged"
    assert labels["metrics-server"][standard] == "restricted"


def test_another_control_host_installs_and_removes_nothing(tmp_path: Path) -> None:
    loaded = load(tmp_path, ALL)
    site = loaded.site
    more = site.hosts[0].model_copy(update={"name": "head-2"})
    other = site.model_copy(update={"hosts": (*site.hosts, more)})
    found = dict(variables(RoleContext(loaded.profile, other, more, {}, {})))
    assert not found["workloads_first"]
    lists = ("releases", "unwanted", "namespaces", "policies")
    assert [found[f"workloads_{name}"] for name in lists] == [[], [], [], []]


def test_what_is_taken_out_of_the_site_is_taken_away_last_first(tmp_path: Path) -> None:
    found = given(load(tmp_path, "workloads: {jobset: {}}\n"))
    gone = [addon["name"] for addon in found["workloads_unwanted"]]
    assert gone == [a.name for a in reversed(table().addons) if a.key != "jobset"]
    volumes = {a["name"]: a["driver"] for a in found["workloads_unwanted"] if a["driver"]}
    assert set(volumes) == {"csi-driver-nfs", "local-path-provisioner"}
    operators = [a for a in found["workloads_unwanted"] if not a["driver"]]
    held = {a["name"]: bool(a["holders"]) for a in operators}
    assert [name for name, some in held.items() if not some] == [
        *("vllm-stack", "jupyterhub", "mlflow", "metrics-server")
    ]


def test_a_site_without_the_section_leaves_the_stage(tmp_path: Path) -> None:
    loaded = load(tmp_path, "")
    assert not stage.STAGE.wanted(loaded.site)
    assert stage.STAGE.removable
    found = given(loaded)
    assert found["workloads_releases"] == []
    assert len(found["workloads_unwanted"]) == len(KEYS)


def test_the_default_class_lies_on_the_first_export_that_may_be_written(tmp_path: Path) -> None:
    (release,) = given(load(tmp_path, "workloads: {nfs_csi: {}}\n"))["workloads_releases"]
    made = release["values"]["storageClass"]
    assert made["name"] == "nfs"
    assert made["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (made["parameters"]["server"], made["parameters"]["share"]) == (
        "10.0.0.10",
        "/srv/data",
    )


def test_the_storage_network_carries_volumes_where_every_host_has_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, "workloads: {nfs_csi: {}}\n")
    hosts = [
        h.model_copy(update={"addresses": {"storage": f"10.8.0.{i}"}})
        for i, h in enumerate(loaded.site.hosts, 1)
    ]
    server = []
    for known in (hosts, [*hosts[:-1], loaded.site.hosts[-1]]):
        site = loaded.site.model_copy(update={"hosts": tuple(known)})
        made = variables(RoleContext(loaded.profile, site, site.hosts[0], {}, {}))
        releases: Any = made["workloads_releases"]
        server.append(releases[0]["values"]["storageClass"]["parameters"]["server"])
    assert server == ["10.8.0.1", "10.0.0.10"]


def test_a_version_of_the_sites_own_comes_without_the_tables_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(a for a in table().addons if a.key == "kuberay")
    known = table().model_copy(update={"addons": (row.model_copy(update={"sha256": "a" * 64}),)})
    monkeypatch.setattr("appliance.stages.workloads.releases.table", lambda: known)
    found: list[tuple[str, str]] = []
    for text in ("{}", "{version: 1.6.0}", f"{{version: 1.6.0, sha256: {'b' * 64}}}"):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        (release,) = given(load(folder, f"workloads: {{kuberay: {text}}}\n"))["workloads_releases"]
        found.append((release["version"], release["sha256"]))
    assert found == [(row.version, "a" * 64), ("1.6.0", ""), ("1.6.0", "b" * 64)]


def in_projects(folder: Path, text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What queue apply makes, by kind and name."""
    folder.mkdir()
    members = QUEUES.replace("- name: team", "- name: team\n      users: [alice@example.com]")
    loaded = load(folder, text, queues=members)
    made = rendered(loaded.site, loaded.profile).resources
    return {(r["kind"], r["metadata"]["name"]): r for r in made}


def test_members_may_make_what_is_installed_for_them(tmp_path: Path) -> None:
    groups = [
        {
            group
            for rule in made["Role", "appliance-members"]["rules"]
            for group in rule["apiGroups"]
        }
        for made in (in_projects(tmp_path / "all", ALL), in_projects(tmp_path / "none", ""))
    ]
    operators = {h.partition(".")[2] for addon in table().addons for h in addon.holders}
    assert "ray.io" in operators
    assert groups[0] - groups[1] == operators


def test_spark_drivers_have_an_account_that_may_no_more_than_members(tmp_path: Path) -> None:
    found = in_projects(tmp_path / "all", ALL)
    bound = found["RoleBinding", "spark"]
    (subject,) = bound["subjects"]
    account = found["ServiceAccount", subject["name"]]["metadata"]
    assert (account["name"], account["namespace"]) == (subject["name"], subject["namespace"])
    (rule,) = found["Role", bound["roleRef"]["name"]]["rules"]
    own = next(r for r in found["Role", "appliance-members"]["rules"] if "pods" in r["resources"])
    assert set(rule["resources"]) <= set(own["resources"])
    assert set(rule["verbs"]) - set(own["verbs"]) == {"deletecollection"}
    assert not [key for key in in_projects(tmp_path / "none", "") if key[1] == "spark"]


def test_mlflow_keeps_database_and_files_on_one_volume_that_outlives_it(tmp_path: Path) -> None:
    text = "workloads: {mlflow: {storage: 1Ti, storage_class: own}}\n"
    (release,) = given(load(tmp_path, text))["workloads_releases"]
    made = release["values"]
    (claim,), (volume,), (mount,) = (
        made[key] for key in ("extraDeploy", "extraVolumes", "extraVolumeMounts")
    )
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["storageClassName"] == "own"
    assert claim["spec"]["resources"]["requests"] == {"storage": "1Ti"}
    assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    kept = (
        made["backendStore"]["defaultSqlitePath"],
        made["artifactRoot"]["defaultArtifactsDestination"],
    )
    assert {str(Path(path).parent) for path in kept} == {mount["mountPath"]}
    assert volume["name"] == mount["name"]
    reached = MLFLOW_ADDRESS.removeprefix("http://")
    assert reached == f"{release['name']}.{release['namespace']}"
    assert reached in made["serverAllowedHosts"]


def test_mlflow_takes_the_default_class_where_it_names_none(tmp_path: Path) -> None:
    found = given(load(tmp_path, "workloads: {nfs_csi: {}, mlflow: {}}\n"))["workloads_releases"]
    assert "storageClassName" not in found[-1]["values"]["extraDeploy"][0]["spec"]


def served(folder: Path, model: str = "") -> dict[str, Any]:
    text = SERVED.replace("path:", f"{model}path:").replace("{queue", "{export: /srv/ro, queue")
    (release,) = given(load(folder, f"workloads: {{vllm: {text}}}\n"))["workloads_releases"]
    engines: dict[str, Any] = release["values"]["servingEngineSpec"]
    return engines


def test_notebooks_wait_in_the_queue_for_interactive_work_and_end_at_its_limits(
    tmp_path: Path,
) -> None:
    config = "config: {GenericOAuthenticator: {client_id: hub}, Authenticator: {admin_users: [a]}}"
    text = f"{{{LOGIN}, {config}, client_secret: login, storage_class: own, gpus: 1, memory: 16Gi}}"
    (release,) = given(load(tmp_path, f"workloads: {{jupyter: {text}}}\n"))["workloads_releases"]
    made = release["values"]
    hub, notebook = made["hub"], made["singleuser"]
    assert hub["config"]["JupyterHub"]["authenticator_class"] == "generic-oauth"
    assert hub["config"]["GenericOAuthenticator"] == {"client_id": "hub"}
    assert hub["config"]["KubeSpawner"]["scheduler_name"] == "kai-scheduler"
    assert hub["extraEnv"]["OAUTH_CLIENT_SECRET"]["valueFrom"]["secretKeyRef"]["name"] == "login"
    assert hub["db"]["pvc"]["storageClassName"] == "own"
    assert notebook["extraLabels"] == {"kai.scheduler/queue": "team-build"}
    assert notebook["extraResource"]["limits"] == {"nvidia.com/gpu": "1"}
    assert notebook["memory"]["limit"] == "16G"
    assert notebook["storage"]["dynamic"] == {"storageClass": "own"}
    assert made["cull"] == {"enabled": True, "maxAge": 8 * 3600}
    chosen = (*made["scheduling"].values(), *made["prePuller"].values())
    assert all(part == {"enabled": False} for part in chosen)


def test_a_served_model_has_its_gpus_from_the_queue_and_its_weights_streamed(
    tmp_path: Path,
) -> None:
    engines = served(tmp_path)
    (engine,) = engines["modelSpec"]
    assert engines["schedulerName"] == "kai-scheduler"
    assert engine["podLabels"] == {"kai.scheduler/queue": "team-train"}
    assert engine["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert engine["resources"]["limits"] == engine["resources"]["requests"]
    said = engine["vllmConfig"]["extraArgs"]
    assert said[said.index("--load-format") + 1] == "runai_streamer"
    assert f"{engine['repository']}:{engine['tag']}" == table().images["vllm"]
    (volume,), (mount,) = engine["extraVolumes"], engine["extraVolumeMounts"]
    assert volume["nfs"] == {"server": "10.0.0.10", "path": "/srv/ro", "readOnly": True}
    assert volume["name"] == mount["name"]
    assert engine["modelURL"] == f"{mount['mountPath']}/llama/3-8b"


def test_a_model_over_several_gpus_is_read_in_parts(tmp_path: Path) -> None:
    (engine,) = served(tmp_path, "gpus: 4, max_length: 8192, ")["modelSpec"]
    assert engine["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert engine["vllmConfig"]["tensorParallelSize"] == 4
    assert engine["vllmConfig"]["maxModelLen"] == 8192
    said = engine["vllmConfig"]["extraArgs"]
    assert json.loads(said[said.index("--model-loader-extra-config") + 1]) == {"distributed": True}


@pytest.mark.parametrize(
    ("storage", "queues", "says"),
    [
        ("", QUEUES, "need an export to be read from"),
        (STORAGE, "", "no project has a queue for it"),
    ],
)
def test_models_want_an_export_and_a_queue(
    storage: str, queues: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig, match=says):
        load(tmp_path, f"workloads: {{vllm: {SERVED}}}\n", storage=storage, queues=queues)


def test_a_model_is_no_bigger_than_a_host(tmp_path: Path) -> None:
    text = "workloads: {vllm: {queue: train, models: [{name: a, path: a, gpus: 8}]}}\n"
    loaded = load(tmp_path, text)
    assert loaded.profile.hardware.gpu.count == 8
    profile = (tmp_path / "site.yml").read_text().replace("profile: hpc", "profile: cost-efficient")
    (tmp_path / "site.yml").write_text(profile)
    with pytest.raises(InvalidConfig, match="needs 8 GPUs, but a host has"):
        load_site(tmp_path)


def test_trainer_brings_jobset_only_where_the_site_does_not(tmp_path: Path) -> None:
    install = []
    for i, text in enumerate(("{trainer: {}}", "{trainer: {}, jobset: {}}")):
        folder = tmp_path / str(i)
        folder.mkdir()
        releases = given(load(folder, f"workloads: {text}\n"))["workloads_releases"]
        install.append(releases[-1]["values"]["jobset"]["install"])
    assert install == [True, False]


def test_no_image_of_the_table_stands_by_tag_alone() -> None:
    known = {name: image for name, image in table().images.items() if image is not None}
    assert set(table().images) - set(known) == {"mpi", "dask"}, "whose digests were not to be had"
    assert all(re.fullmatch(PINNED_IMAGE, image) for image in known.values())
    assert known["plain"] == PLAIN
    assert images(WorkloadsOptions()) == known
    assert images(WorkloadsOptions(images={"dask": "a/b:1"})) == {**known, "dask": "a/b:1"}


@pytest.mark.parametrize(
    ("cluster", "image", "refused"),
    [
        ("kubernetes: {version: '1.35'}\n", "ghcr.io/dask/dask:2026.7.1", True),
        ("kubernetes: {version: '1.35'}\n", f"ghcr.io/dask/dask@sha256:{'0' * 64}", False),
        (CLUSTER, "ghcr.io/dask/dask:2026.7.1", False),
    ],
)
def test_a_tag_alone_names_an_image_only_where_it_comes_from_an_archive(
    cluster: str, image: str, refused: bool, tmp_path: Path
) -> None:
    text = f"workloads: {{jobset: {{}}, images: {{dask: '{image}'}}}}\n"
    if not refused:
        assert load(tmp_path, text, cluster).site.workloads
        return
    with pytest.raises(InvalidConfig) as found:
        load(tmp_path, text, cluster)
    (finding,) = found.value.findings
    assert finding.key == "workloads.images.dask"
    assert "by a tag, which can be moved to another image" in finding.message
    assert f"docker://{image}" in finding.remedy


@pytest.mark.parametrize("chosen", ["", f"a.b:5000/own@sha256:{'1' * 64}", "a.b:5000/own:1"])
def test_notebooks_and_engines_run_the_image_that_is_named(chosen: str, tmp_path: Path) -> None:
    own = f"images: {{notebook: '{chosen}', vllm: '{chosen}'}}, " if chosen else ""
    text = f"workloads: {{{own}jupyter: {{{LOGIN}, storage_class: own}}, vllm: {SERVED}}}\n"
    hub, engines = given(load(tmp_path, text))["workloads_releases"]
    image = hub["values"]["singleuser"]["image"]
    (engine,) = engines["values"]["servingEngineSpec"]["modelSpec"]
    assert f"{image['name']}:{image['tag']}" == (chosen or table().images["notebook"])
    assert f"{engine['repository']}:{engine['tag']}" == (chosen or table().images["vllm"])
