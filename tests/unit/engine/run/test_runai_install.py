"""The steps of an installation of Run:ai: their order, what is repeated, and what is said where one fails."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters import process
from appliance.adapters.kubernetes import Ref, Resource
from appliance.adapters.runai import Account as Login
from appliance.adapters.runai import Runai
from appliance.config.load import load_site
from appliance.config.secrets import resolve
from appliance.engine.run.runai_client import Registrar
from appliance.engine.run.runai_install import Installing, install, read_files
from appliance.engine.run.runai_names import SCRIPT
from appliance.errors import ApplianceError, ClusterFailed, ClusterRefused
from appliance.stages.context import Variables
from appliance.stages.runai.registration import Account
from tests.support.runai.server import StandIn, standing
from tests.support.runai.site import PASSWORD, Authorities, write_site
from tests.support.runai.tls import certificate
from tests.support.runai.world import BOOTSTRAP_S, World

DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


@dataclass
class Kubernetes:
    """A cluster that has what Run:ai needs; ``without``: kinds and names that it lacks.

    ``ends``: exit code of the pod that resolves names, None: it waits. ``charts``: labels by kind.
    """

    done: list[str]
    without: set[str] = field(default_factory=set)
    version: str = "v1.35.4"
    ends: int | None = 0
    charts: dict[str, dict[str, str]] = field(default_factory=dict)
    pods: dict[str, Resource] = field(default_factory=dict)

    def get(self, ref: Ref) -> Resource | None:
        if ref.kind == "Pod":
            state: Resource = {"waiting": {"reason": "ImagePullBackOff"}}
            if self.ends is not None:
                state = {"terminated": {"exitCode": self.ends}}
            return {**self.pods[ref.name], "status": {"containerStatuses": [{"state": state}]}}
        return None if ref.kind in self.without else {"metadata": {"name": ref.name}}

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        if kind == "Node":
            return [
                {
                    "metadata": {"name": "gpu-1"},
                    "status": {"nodeInfo": {"kubeletVersion": self.version}},
                }
            ]
        if kind in ("Deployment", "ClusterPolicy"):
            return [{"metadata": {"name": "x", "labels": self.charts.get(kind, {})}}]
        if kind == "Pod":
            return list(self.pods.values())
        notes = {} if "default" in self.without else DEFAULT
        name = "other" if "StorageClass" in self.without else "nfs"
        return [{"metadata": {"name": name, "annotations": notes}}]

    def serves(self, api_version: str, kind: str) -> bool:
        return kind not in self.without

    def apply(self, resource: Resource) -> Resource:
        meta = resource["metadata"]
        if resource["kind"] == "Pod":
            self.pods[meta["name"]] = resource
            return resource
        self.done.append(f"{resource['kind']} {meta.get('namespace', '')}/{meta['name']}")
        return resource

    def label(self, node: str, labels: Any) -> bool:
        raise AssertionError("no node is labelled")

    def delete(self, ref: Ref) -> None:
        assert ref.kind == "Pod"
        del self.pods[ref.name]


@dataclass
class Rig:
    """An installation against the stand-in. ``done``: what happened, in order; ``tokens``: those that Helm got.

    ``agent``: whether the cluster's chart brings an agent that connects; ``helm``: errors of the next attempts.
    """

    given: Installing
    stand_in: StandIn
    done: list[str]
    kubernetes: Kubernetes
    tokens: list[str] = field(default_factory=list)
    kept: list[Account] = field(default_factory=list)
    agent: bool = True
    helm: list[ApplianceError | None] = field(default_factory=list)
    helm_s: float = 60
    engine: str = "3.0.20"

    def attempt(self, release: Variables, seconds: int) -> None:
        values: Any = release["values"]
        self.done.append(f"helm {release['name']} {seconds}")
        self.stand_in.world.advance(self.helm_s)
        if error := self.helm.pop(0) if self.helm else None:
            if release["name"] == "runai-cluster":
                self.tokens.append(values["controlPlane"]["bootstrapToken"])
            raise error
        if release["name"] == "runai-cluster":
            token = values["controlPlane"]["bootstrapToken"]
            self.tokens.append(token)
            if self.agent:
                self.stand_in.world.heartbeat(values["cluster"]["uid"], token, self.engine)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    folder = tmp_path / "site"
    folder.mkdir()
    write_site(folder, Authorities.fresh())
    loaded = load_site(folder)
    certificate(tmp_path)
    world = World(administrator="admin@example.com", password=PASSWORD)
    done: list[str] = []
    kubernetes = Kubernetes(done)

    def log_in(user: str, password: str) -> Runai:
        login = Login(stand_in.url, "", password, tmp_path / "cert.pem", user)
        return Runai(login, sleep=world.advance, clock=world.now)

    with standing(tmp_path, world) as stand_in:
        given = Installing(
            site=loaded.site,
            profile=loaded.profile,
            secrets=resolve(loaded.site, folder),
            files=read_files(loaded.site, lambda name: (folder / name).read_text()),
            cluster=kubernetes,
            attempt=lambda release, seconds: made.attempt(release, seconds),
            connect=lambda: Registrar(log_in),
            keep=lambda account: made.kept.append(account),
            progress=lambda said: done.append(f"# {said}"),
            now=world.now,
            sleep=world.advance,
        )
        made = Rig(given, stand_in, done, kubernetes)
        yield made


def test_all_steps_in_their_documented_order(rig: Rig) -> None:
    found = install(rig.given)
    assert rig.done == [
        "# preflight",
        "Namespace /runai-backend",
        "Namespace /runai",
        "Namespace /knative-serving",
        "Secret runai-backend/runai-backend-tls",
        "Secret runai/runai-cluster-domain-tls-secret",
        "Secret runai/runai-cluster-domain-star-tls-secret",
        "Secret knative-serving/runai-cluster-inference-tls-secret",
        "Secret runai-backend/runai-ca-cert",
        "Secret runai/runai-ca-cert",
        "Secret runai-backend/runai-reg-creds",
        "Secret runai/runai-reg-creds",
        "# namespaces and secrets",
        "helm runai-backend 1200",
        "# control plane",
        "# registration",
        "# service account appliance",
        "helm runai-cluster 900",
        "# cluster engine",
    ]
    assert found.version == "3.0.20"
    assert list(rig.stand_in.world.tables["clusters"]) == [found.cluster]
    assert rig.stand_in.world.state(found.cluster) == "Connected"


def test_the_service_account_works(rig: Rig) -> None:
    install(rig.given)
    (account,) = rig.kept
    assert rig.stand_in.world.secrets[account.client_id] == account.client_secret
    assert account.client_secret not in repr(account)


def test_a_second_run_makes_no_second_cluster_and_renews_the_secret(rig: Rig) -> None:
    first = install(rig.given)
    assert install(rig.given).cluster == first.cluster
    assert len(rig.stand_in.world.tables["clusters"]) == 1
    assert len(rig.stand_in.world.tables["service-accounts"]) == 1
    assert rig.kept[0].client_secret != rig.kept[1].client_secret


def test_a_site_with_an_account_gets_no_other(rig: Rig) -> None:
    install(replace(rig.given, keep=None))
    assert rig.stand_in.sent("POST", "service-accounts") == []


def test_each_attempt_of_helm_has_a_token_of_its_own(rig: Rig) -> None:
    rig.helm = [None, ClusterFailed("timed out", "look")]
    install(rig.given)
    assert len(rig.tokens) == len(set(rig.tokens)) == 2
    assert [line for line in rig.done if line.startswith("helm runai-cluster")] == [
        "helm runai-cluster 900"
    ] * 2


def test_a_token_is_fetched_after_the_control_plane_took_long(rig: Rig) -> None:
    """A token that was fetched before the first chart would have expired."""
    rig.helm_s = BOOTSTRAP_S - 60
    assert install(rig.given).version == "3.0.20"


def test_after_the_last_attempt_the_cause_is_helms(rig: Rig) -> None:
    cause = "runai-cluster-3.0.20 was not installed, revision 1 is failed: pod pre-install: no CA"
    rig.helm = [None, ClusterFailed("timed out", "look"), ClusterFailed(cause, "look")]
    with pytest.raises(ClusterFailed, match="pod pre-install: no CA"):
        install(rig.given)
    assert len(rig.tokens) == 2


def test_a_failed_control_plane_ends_it_with_its_cause(rig: Rig) -> None:
    rig.helm = [ClusterFailed("claim data is not bound", "look")]
    with pytest.raises(ClusterFailed, match="claim data is not bound"):
        install(rig.given)
    assert rig.stand_in.seen == []


def test_a_control_plane_that_still_starts_is_waited_for(rig: Rig) -> None:
    rig.stand_in.plant("status", "POST", "token", status=503, times=5)
    install(rig.given)
    assert len(rig.stand_in.sent("POST", "token")) == 6


def test_a_control_plane_that_never_answers_is_given_up(rig: Rig) -> None:
    rig.stand_in.plant("status", "POST", "token", status=503, times=1000)
    began = rig.stand_in.world.now() + rig.helm_s
    with pytest.raises(ClusterFailed, match=r"unavailable .HTTP 503"):
        install(rig.given)
    assert 1200 <= rig.stand_in.world.now() - began < 1300


def test_a_wrong_password_is_not_waited_for(rig: Rig) -> None:
    rig.stand_in.world.password = "changed-in-the-console-1A"
    with pytest.raises(ClusterRefused, match="does not accept the password of admin"):
        install(rig.given)
    assert len(rig.stand_in.sent("POST", "token")) == 1


def test_a_cluster_that_never_connects_is_named_with_what_to_look_at(rig: Rig) -> None:
    rig.agent = False
    with pytest.raises(ClusterFailed) as failed:
        install(rig.given)
    said = "Run:ai reports WaitingToConnect after 15 minutes: its agent has not reached https://runai.example.com"
    assert failed.value.message == said
    assert "kubectl -n runai logs deployment/runai-agent" in failed.value.hint


def test_what_the_control_plane_misses_is_named(rig: Rig) -> None:
    key = _registered(rig)
    rig.stand_in.world.missing[key] = {"prometheus": "version 2.45 is too old"}
    with pytest.raises(ClusterFailed) as failed:
        install(rig.given)
    assert failed.value.message == (
        "Run:ai reports MissingPrerequisites after 15 minutes: "
        "prometheus is missing (version 2.45 is too old)"
    )


def _registered(rig: Rig) -> str:
    """The id of a cluster that an earlier run registered."""
    plane = rig.given.connect()
    plane.log_in("admin@example.com", PASSWORD)
    return plane.cluster("acme", "runai.example.com")


def test_errors_while_it_waits_are_outlasted(rig: Rig) -> None:
    rig.stand_in.plant("status", "GET", "verbosity=full", status=503, times=3)
    assert install(rig.given).version == "3.0.20"


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("StorageClass", "the cluster has no StorageClass nfs"),
        ("default", "the cluster has no default StorageClass"),
        ("IngressClass", "the cluster has no IngressClass haproxy"),
        ("Prometheus", "the cluster has no Prometheus operator"),
        ("ClusterPolicy", "the cluster has no GPU Operator"),
        ("Service", "the cluster has no Knative Serving"),
    ],
)
def test_what_the_cluster_lacks_is_named_before_the_first_change(
    rig: Rig, without: str, said: str
) -> None:
    rig.kubernetes.without = {without}
    with pytest.raises(ClusterRefused) as refused:
        install(rig.given)
    assert refused.value.message == said
    assert refused.value.hint
    assert (rig.done, rig.stand_in.seen) == ([], [])


def test_a_cluster_out_of_range_is_named(rig: Rig) -> None:
    rig.kubernetes.version = "v1.32.1"
    with pytest.raises(ClusterRefused, match=r"gpu-1 runs Kubernetes v1\.32\.1"):
        install(rig.given)
    assert rig.done == []


def test_everything_that_lacks_is_named_at_once(rig: Rig) -> None:
    rig.kubernetes.without = {"IngressClass", "Prometheus"}
    with pytest.raises(ClusterRefused, match=r"IngressClass haproxy; .* Prometheus operator"):
        install(rig.given)


def test_a_certificate_that_went_away_is_named(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "site/tls/runai.pem").unlink()
    with pytest.raises(ApplianceError, match=r"tls/runai\.pem cannot be read"):
        read_files(rig.given.site, lambda name: (tmp_path / "site" / name).read_text())


@pytest.mark.parametrize(
    ("ends", "said", "hint"),
    [
        (10, "pods do not resolve runai.example.com", "CoreDNS"),
        (11, "pods do not resolve *.runai.example.com", "CoreDNS"),
        (9, "has no nslookup", "kubernetes.trial_image"),
        (1, "it is unknown whether pods resolve", "get events"),
        (None, "did not end within 180 s (ImagePullBackOff)", "hosts can pull"),
    ],
)
def test_a_name_that_pods_do_not_resolve_is_named_before_the_first_change(
    rig: Rig, ends: int | None, said: str, hint: str
) -> None:
    rig.kubernetes.ends = ends
    with pytest.raises(ClusterFailed) as refused:
        install(rig.given)
    assert said in refused.value.message
    assert hint in refused.value.hint
    assert (rig.done, rig.stand_in.seen, rig.kubernetes.pods) == ([], [], {})


def test_a_pod_that_a_killed_run_left_is_deleted(rig: Rig) -> None:
    rig.kubernetes.pods["old"] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "namespace": "default"},
    }
    install(rig.given)
    assert rig.kubernetes.pods == {}


@pytest.mark.parametrize(
    ("kind", "labels", "said"),
    [
        ("Deployment", {"chart": "kube-prometheus-stack-88.6.5"}, ""),
        (
            "Deployment",
            {"chart": "kube-prometheus-stack-9.100.1"},
            "kube-prometheus-stack is 9.100.1",
        ),
        ("Deployment", {}, ""),
        ("ClusterPolicy", {"helm.sh/chart": "gpu-operator-v26.7.1"}, ""),
        ("ClusterPolicy", {"helm.sh/chart": "gpu-operator-v25.3.4"}, "the GPU Operator is 25.3.4"),
    ],
)
def test_releases_of_operators_are_in_their_range(
    rig: Rig, kind: str, labels: dict[str, str], said: str
) -> None:
    rig.kubernetes.charts[kind] = labels
    if not said:
        install(rig.given)
        return
    with pytest.raises(ClusterRefused) as refused:
        install(rig.given)
    assert said in refused.value.message
    assert (rig.done, rig.stand_in.seen) == ([], [])


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["a.example.com", "b.example.com"], 0),
        (["a.invalid", "b.example.com"], 10),
        (["a.example.com", "b.invalid"], 11),
    ],
)
def test_the_script_of_the_pod_finds_the_name_that_is_not_resolved(
    tmp_path: Path, names: list[str], code: int
) -> None:
    """With a program that answers as busybox does, which was run by hand: its exit code is 0 for a name with IPv4 only."""
    program = tmp_path / "nslookup"
    program.write_text("#!/bin/sh\ncase $1 in *.invalid) exit 1;; esac; echo; echo Name: $1\n")
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = process.run(["sh", "-c", SCRIPT, "names", *names], check=False, env=path)
    assert done.returncode == code


def test_an_image_without_nslookup_is_found(tmp_path: Path) -> None:
    path = {"PATH": os.fspath(tmp_path)}
    done = process.run(["/bin/sh", "-c", SCRIPT, "names", "a.invalid"], check=False, env=path)
    assert done.returncode == 9


def upgrade(rig: Rig, version: str) -> None:
    """The site gets another version of both charts."""
    given = rig.given
    scheduler = given.site.scheduler
    assert scheduler
    assert scheduler.runai
    assert scheduler.runai.install
    changed = scheduler.runai.install.model_copy(update={"version": version})
    runai = scheduler.runai.model_copy(update={"install": changed})
    options = scheduler.model_copy(update={"runai": runai})
    site = given.site.model_copy(update={"scheduler": options})
    rig.given = replace(given, site=site, before="3.0.20")


def test_an_upgrade_is_of_the_control_plane_then_of_the_engine_and_waits_for_its_version(
    rig: Rig,
) -> None:
    first = install(rig.given)
    upgrade(rig, "3.1.2")
    rig.done.clear()
    rig.engine = "3.1.2"
    done = install(rig.given)
    assert [one.split()[1] for one in rig.done if one.startswith("helm")] == [
        "runai-backend",
        "runai-cluster",
    ]
    assert (done.cluster, done.version) == (first.cluster, "3.1.2")
    assert len(rig.stand_in.world.tables["clusters"]) == 1
    assert len(set(rig.tokens)) == 2


def test_an_engine_that_stays_behind_is_named(rig: Rig) -> None:
    rig.stand_in.world.states[install(rig.given).cluster] = "Connected"
    upgrade(rig, "3.1.2")
    with pytest.raises(ClusterFailed, match=r"still 3\.0\.20 after 15 minutes, not 3\.1\.2"):
        install(rig.given)


@pytest.mark.parametrize(
    ("version", "said"), [("3.0.19", "no way back to 3.0.19"), ("3.5.0", "more than 4 minor")]
)
def test_an_upgrade_that_is_not_supported_is_refused_before_the_first_change(
    rig: Rig, version: str, said: str
) -> None:
    install(rig.given)
    upgrade(rig, version)
    rig.done.clear()
    with pytest.raises(ClusterRefused, match=said):
        install(rig.given)
    assert rig.done == []
