"""Releases by Helm 4 and by Helm 3 on a real API server: installed, left alone, upgraded, rolled back, recovered.

The API server, its etcd and the controllers of deployments are those the rack's cluster is built from. Charts are the rack's
look-alikes; there are no hosts, so that a chart that asks for a pod never comes up.
"""

import json
import os
import signal
import subprocess  # noqa: TID251 - a run that is to be killed must be held by its handle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads a chart's own values

from appliance.adapters.process import run as program
from appliance.config.load import load_site
from appliance.lab import charts, helm, kubernetes_build
from appliance.lab.charts import LookAlike
from appliance.lab.programs import HELM, HELM_BEFORE, KAI, Module
from appliance.probe.ask import Ask
from appliance.stages.kubernetes.charts import Release, suited
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.collect import scheduler as collector
from appliance.stages.scheduler.facts import SchedulerFacts
from appliance.stages.scheduler.queues.charts import releases
from appliance.stages.scheduler.queues.manifest import digest
from appliance.stages.workloads import network
from appliance.stages.workloads import releases as workloads
from tests.integration import api_server
from tests.integration.api_server import CACHE, until
from tests.support.queue_definitions import site
from tests.support.rendered_queues import PROFILES, VARIANTS
from tests.support.workloads_site import ALL
from tests.support.workloads_site import load as with_workloads

pytestmark = pytest.mark.cluster

COLLECTIONS = Path(__file__).parents[2] / "playbooks/collections"
MODULE = "ansible_collections.appliance.host.plugins.modules.helm_release"
CONTROLLERS = "deployment,replicaset,namespace,garbagecollector,persistentvolume-binder"
OLD, NEW = "v1.0.0", "v1.1.0"
SECRET = "a-word-only-this-test-knows"
SECTIONS = {
    "all": ALL,
    "few": "workloads: {nfs_csi: {on_delete: retain}, trainer: {}, metrics_server: {kubelet_certificates: signed}}\n",
}
"""Of section workloads."""
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "values"},
    "spec": {
        "capacity": {"storage": "1Ti"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nowhere"},
    },
}
"""For a chart's claim: Helm waits until it is bound."""
PATIENT_S = 300
"""A release that will not come up is tried this long, so that it is surely at work when it is killed."""

Answer = dict[str, Any]


class Place:
    """A cluster, an offline source and who works there."""

    def __init__(self, kubeconfig: Path, programs: Path, source: Path, major: int) -> None:
        self.major = major
        self.kubeconfig = kubeconfig
        self.programs = programs
        self.source = source
        self.env = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(COLLECTIONS),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # No pod can run here: what comes up asks for none, what asks for one never comes up.
        for name in ("sound", "killed", "broken", "fresh"):
            LookAlike(name, OLD, replicas=0).write(source / "charts")
            LookAlike(name, NEW, replicas=0).write(source / "charts")
            LookAlike(name, "v1.2.0", replicas=1).write(source / "charts")

    def argv(self, name: str, version: str, check: bool = False, **given: Any) -> tuple[str, ...]:
        """The module as Ansible starts it, with its arguments in one document."""
        known = {"namespace": "it", "chart": f"oci://nowhere/{name}", "source": str(self.source)}
        words = {
            "name": name,
            "version": version,
            "kubeconfig": str(self.kubeconfig),
            "timeout": 60,
        }
        arguments = {**known, **words, **given, "_ansible_check_mode": check, "_ansible_diff": True}
        script = (
            "import json, sys\nfrom ansible.module_utils.testing import patch_module_args\n"
            f"from {MODULE} import main\n"
            "with patch_module_args(json.loads(sys.argv[1])):\n    main()\n"
        )
        return (sys.executable, "-c", script, json.dumps(arguments))

    def release(self, name: str, version: str, **given: Any) -> Answer:
        """Runs the module to its end; its answer."""
        done = program(self.argv(name, version, **given), env=self.env, timeout=400, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, done.stderr
        answer: Answer = json.loads(lines[-1])
        answer.pop("invocation", None)
        return answer

    def helm(self, *words: str) -> Any:
        """What the rack's helm prints, as JSON."""
        known = (f"--kubeconfig={self.kubeconfig}", "--namespace", "it", "--output", "json")
        return json.loads(program((str(self.source / "bin/helm"), *words, *known)).stdout)

    def kubectl(self, *words: str) -> str:
        """What kubectl prints."""
        argv = ("kubectl", "--kubeconfig", str(self.kubeconfig), "--namespace", "it", *words)
        return program(argv, env=self.env, check=False).stdout

    def probed(self, root: Path) -> SchedulerFacts:
        """What the probe reads of this cluster on a control plane."""
        file = root / "etc/kubernetes/admin.conf"
        file.parent.mkdir(parents=True)
        file.write_text(api_server.as_of_kubeadm(self.kubeconfig))
        ask = Ask({}, str(root))
        found = SchedulerFacts.model_validate(collector.collect(ask)["scheduler"])
        assert ask.errors == {}
        return found

    def states(self, name: str) -> list[tuple[str, str]]:
        """State and chart of each revision."""
        return [(r["status"], r["chart"]) for r in self.helm("history", name)]


@pytest.fixture(scope="module", params=[HELM, HELM_BEFORE], ids=lambda module: module.name)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    programs = api_server.compiled()
    folder = tmp_path_factory.mktemp("helm")
    module: Module = request.param
    with kubernetes_build.one_build(CACHE, lambda _: None):
        helm.source(CACHE, folder / "source", lambda _: None, module)
    with (
        api_server.running(programs, folder) as kubeconfig,
        api_server.controlled(programs, kubeconfig, folder, CONTROLLERS),
    ):
        yield Place(kubeconfig, programs, folder / "source", int(module.version[0]))


def test_helm_is_the_real_program_of_its_release(place: Place) -> None:
    said = program((str(place.source / "bin/helm"), "version", "--short")).stdout
    wanted = next(m.version for m in (HELM, HELM_BEFORE) if m.version[0] == str(place.major))
    assert said.startswith(f"v{wanted}"), said


def test_objects_of_another_namespace_are_looked_at_in_theirs(place: Place) -> None:
    """As charts of operators have them; kubectl refuses to look for them with an option that names one namespace."""
    there = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}
    here: Answer = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}}
    away = {**here, "metadata": {"name": "away", "namespace": "elsewhere"}}
    texts = "---\n".join(f"{json.dumps(item)}\n" for item in (there, here, away))
    about = {"apiVersion": "v2", "name": "apart", "version": OLD}
    files = {"Chart.yaml": json.dumps(about), "templates/objects.yaml": texts}
    charts.archive("apart", OLD, files, place.source / "charts")
    assert place.release("apart", OLD)["changed"]
    assert place.release("apart", OLD)["changed"] is False
    place.kubectl("delete", "configmap", "away", "--namespace", "elsewhere")
    assert place.release("apart", OLD)["differences"] == ["configmaps away is gone"]
    assert place.release("apart", OLD)["changed"] is False


def test_installed_then_left_alone_then_upgraded(place: Place, tmp_path: Path) -> None:
    assert place.release("sound", OLD, check=True)["differences"] == ["not installed"]
    assert place.release("sound", OLD, check=True)["changed"], "a check changed something"
    first = place.release("sound", OLD)
    assert first.get("revision") == 1, first
    again = place.release("sound", OLD)
    assert (again["changed"], again["revision"]) == (False, 1)
    upgraded = place.release("sound", NEW)
    assert upgraded["differences"] == [f"chart sound-{OLD}, not sound-{NEW}"]
    assert place.states("sound") == [
        ("superseded", f"sound-{OLD}"),
        ("deployed", f"sound-{NEW}"),
    ]
    assert not place.release("sound", NEW)["changed"]
    known = {r.name: r for r in place.probed(tmp_path).releases or ()}["sound"]
    assert (known.namespace, known.revision, known.status, known.chart, known.version) == (
        *("it", 2, "deployed"),
        *("sound", NEW),
    )


def test_what_somebody_deleted_is_made_again(place: Place) -> None:
    place.release("sound", NEW)
    place.kubectl("delete", "deployment", "sound")
    mended = place.release("sound", NEW)
    assert mended["differences"] == ["deployments.apps sound is gone"]
    assert "deployment.apps/sound" in place.kubectl("get", "deployments", "--output", "name")
    assert not place.release("sound", NEW)["changed"]


def test_an_upgrade_that_fails_is_rolled_back_and_said_in_one_line(place: Place) -> None:
    place.release("broken", OLD)
    said = place.release("broken", "v1.2.0", timeout=5)
    assert said["failed"]
    assert "\n" not in said["msg"]
    assert said["msg"].startswith(f"broken-v1.2.0 was not installed, broken-{OLD} is back: ")
    replicas = ("get", "deployment", "broken", "--output", "jsonpath={.spec.replicas}")
    assert place.kubectl(*replicas) == "0"
    assert not place.release("broken", OLD)["changed"]
    assert place.release("broken", NEW)["changed"]


def test_a_first_installation_that_fails_leaves_nothing(place: Place) -> None:
    said = place.release("fresh", "v1.2.0", timeout=5)
    assert said["msg"].startswith("fresh-v1.2.0 was not installed, nothing of it is left: ")
    assert "fresh" not in place.kubectl("get", "deployments,secrets", "--output", "name")
    assert place.release("fresh", OLD)["changed"]


@pytest.mark.parametrize("before", [OLD, ""], ids=["upgrade", "first installation"])
def test_a_release_that_a_kill_left_pending_is_recovered(place: Place, before: str) -> None:
    name = "killed" if before else "fresh"
    if before:
        place.release(name, before)
    else:
        place.kubectl("delete", "secret,deployment", "--all")
    _killed_at_work(place, name)
    assert place.states(name)[-1][0] == ("pending-upgrade" if before else "pending-install")
    mended = place.release(name, NEW, timeout=PATIENT_S)
    assert mended["changed"], mended
    assert place.states(name)[-1] == ("deployed", f"{name}-{NEW}")
    assert not place.release(name, NEW)["changed"]


def _killed_at_work(place: Place, name: str) -> None:
    """A run of the module, killed with Helm while its release comes up."""
    argv = place.argv(name, "v1.2.0", timeout=PATIENT_S)
    environment = {**os.environ, **place.env}
    with subprocess.Popen(argv, env=environment, start_new_session=True) as started:
        until(lambda: any("pending" in s for s, _ in _states_or_none(place, name)))
        os.killpg(started.pid, signal.SIGKILL)


def _states_or_none(place: Place, name: str) -> list[tuple[str, str]]:
    secrets = place.kubectl("get", "secrets", "-l", f"owner=helm,name={name}", "--output", "name")
    return place.states(name) if secrets else []


def test_helm_that_outlived_its_deployer_is_waited_for(place: Place) -> None:
    place.kubectl("delete", "secret,deployment", "--all")
    argv = place.argv("killed", "v1.2.0", timeout=10)
    with subprocess.Popen(argv, env={**os.environ, **place.env}) as started:
        until(lambda: any("pending" in s for s, _ in _states_or_none(place, "killed")))
        started.kill()
    began = time.monotonic()
    mended = place.release("killed", OLD)
    assert mended["differences"] == ["not installed"], "the failed installation was not waited for"
    assert time.monotonic() - began < PATIENT_S


def test_another_archive_than_the_digest_says_is_refused(place: Place, tmp_path: Path) -> None:
    archive = place.source / "charts" / LookAlike("sound", OLD).file_name
    kept = archive.read_bytes()
    archive.write_bytes(kept + b"\0")
    try:
        said = place.release("sound", OLD)["msg"]
    finally:
        archive.write_bytes(kept)
    assert said == f"{archive} is not what its .sha256 says: copy the offline source again"


def test_a_value_the_chart_does_not_know_is_refused_and_no_value_is_printed(place: Place) -> None:
    said = place.release("sound", OLD, values={"tokn": SECRET})
    assert "additional properties 'tokn' not allowed" in said["msg"]
    assert SECRET not in json.dumps(said)


def test_a_release_is_taken_away_once_nobody_needs_it(place: Place) -> None:
    assert place.release("fresh", OLD)["changed"]
    said = place.release("fresh", OLD, state="absent", holders=["deployments.apps"])
    assert said["msg"].startswith("fresh is still needed by it/"), said
    assert place.states("fresh") == [("deployed", f"fresh-{OLD}")]
    given = {"state": "absent", "holders": ["rayjobs.ray.io"], "driver": "nfs.csi.k8s.io"}
    assert place.release("fresh", OLD, check=True, **given)["differences"] == ["installed"]
    assert place.release("fresh", OLD, **given)["changed"]
    assert place.kubectl("get", "deployment", "fresh", "--output", "name") == ""
    assert not place.release("fresh", OLD, **given)["changed"]


def test_every_look_alike_passes_helms_linter(place: Place) -> None:
    for chart in charts.pinned():
        archive = place.source / "charts" / chart.file_name
        program((str(place.source / "bin/helm"), "lint", str(archive)))


def test_every_sites_values_pass_the_charts_schema_and_the_server_takes_what_is_rendered(
    place: Place, tmp_path: Path
) -> None:
    given = {r.values_digest + r.name: r for r in _releases(tmp_path)}
    assert len(given) >= 6
    values, volume = tmp_path / "values.json", tmp_path / "volume.json"
    volume.write_text(json.dumps(VOLUME))
    place.kubectl("apply", "--filename", str(volume))
    known = (f"--kubeconfig={place.kubeconfig}", "--namespace", "values", "--timeout", "60s")
    for release in given.values():
        assert release.version is not None
        chart = LookAlike(release.name, release.version, replicas=0).write(tmp_path / "charts")
        values.write_text(json.dumps(release.values))
        program(
            (
                *(str(place.source / "bin/helm"), "upgrade", release.name, str(chart)),
                *("--install", "--create-namespace", "--wait"),
                *(("--server-side=false",) if place.major >= 4 else ()),
                *("--values", str(values), *known),
            )
        )
        # KAI and its resource management bring the same objects, so one makes room for the other.
        program((str(place.source / "bin/helm"), "uninstall", release.name, "--wait", *known))


def test_every_value_kai_is_given_is_one_its_own_chart_has(tmp_path: Path) -> None:
    """The chart has no schema: a value that it does not know would be lost without a word."""
    chart = helm.kai(CACHE, lambda _: None)
    known = yaml.safe_load(chart["values.yaml"])
    loaded = load_site(site(tmp_path, "flat", "hpc"))
    software = loaded.profile.software.model_copy(update={"kai": KAI.version[:4]})
    profile = loaded.profile.model_copy(update={"software": software})
    assert loaded.site.scheduler is not None
    (given,) = (
        r
        for r in releases(loaded.site, profile, loaded.site.scheduler)
        if r.name == "kai-scheduler"
    )
    assert given.version == f"v{KAI.version}"
    assert list(_unknown(given.values, known)) == []
    assert list(_unknown({"binder": {"plugins": {}}}, known)) == ["binder.plugins"]


def _unknown(given: Any, known: Any, path: str = "") -> Iterator[str]:
    """Paths of values that a chart does not have."""
    for key, value in given.items():
        below = f"{path}.{key}" if path else key
        if not isinstance(known, dict) or key not in known:
            yield below
        elif isinstance(value, dict):
            yield from _unknown(value, known[key], below)


def test_the_policies_of_add_ons_are_taken_and_read_back_as_they_were_written(
    place: Place, tmp_path: Path
) -> None:
    opened = "mlflow: {storage_class: own, open_to_cluster: true, reached_from: [monitoring]}"
    texts = {"all": ALL, "open": f"workloads: {{{opened}, kuberay: {{}}}}\n"}
    for name, text in texts.items():
        folder = tmp_path / name
        folder.mkdir()
        known = with_workloads(folder, text).site
        wanted = network.policies(known)
        items = [*workloads.namespaces(known), *wanted]
        file = folder / "all.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        kubectl = ("kubectl", "--kubeconfig", str(place.kubeconfig))
        apply = (*kubectl, "apply", "--filename", str(file))
        program(apply, env=place.env)
        said = program(apply, env=place.env).stdout.splitlines()
        assert len(said) == len(items)
        assert all(line.endswith(" unchanged") for line in said), said
        found = place.probed(folder / "root").policies
        assert found is not None
        by_place = {policy.namespace: policy.digest for policy in found}
        for policy in wanted:
            assert by_place[policy["metadata"]["namespace"]] == digest(policy["spec"])


def _releases(folder: Path) -> Iterator[Release]:
    """Of four kinds of site on every profile."""
    for profile in PROFILES:
        for variant in VARIANTS:
            place = folder / f"{profile}-{variant}"
            place.mkdir()
            loaded = load_site(site(place, variant, profile))
            assert loaded.site.scheduler is not None
            yield from releases(loaded.site, loaded.profile, loaded.site.scheduler)
            yield from suited(loaded.site, loaded.profile)
            alone = {"kubernetes": KubernetesOptions(device_plugin="plugin")}
            yield from suited(loaded.site.model_copy(update=alone), loaded.profile)
    for name, text in SECTIONS.items():
        place = folder / name
        place.mkdir()
        yield from workloads.releases(with_workloads(place, text).site)
