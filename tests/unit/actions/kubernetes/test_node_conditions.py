"""Kubernetes is told what health judges: conditions, cordons within a bound, and nobody else's cordon touched."""

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.actions.kubernetes.node_conditions import (
    CHECKS,
    CONDITION,
    UNFIT,
    Act,
    Fit,
    Judged,
    NodeConditionResult,
    apply_conditions,
    judge,
)
from appliance.actions.monitoring import health
from appliance.actions.monitoring.health import Health
from appliance.adapters.kubernetes import KINDS
from appliance.checks.check import judged as verdict
from appliance.cli import node as verbs
from appliance.cli.main import cli
from appliance.engine.look.judge import REACHABLE
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.errors import ApplianceError, ConfigError
from appliance.models.result import CheckResult, Status, place
from appliance.watch import rules
from tests.support.drain_world import merged
from tests.support.fake_kubernetes import kubeconfig, serving
from tests.support.judging import ids_in
from tests.support.node_site import CLUSTER, SITE

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 25, 13, tzinfo=UTC)
RULES = Path(rules.__file__)


class Cluster:
    """Nodes in memory, and who wrote what."""

    def __init__(self, *names: str) -> None:
        ready = {"type": "Ready", "status": "True"}
        self.nodes: dict[str, dict[str, Any]] = {
            name: {
                "metadata": {"name": name, "resourceVersion": "1"},
                "spec": {},
                "status": {"conditions": [ready]},
            }
            for name in names
        }
        self.changes: list[str] = []

    def node(self, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.nodes.get(name))

    def say(self, name: str, condition: Mapping[str, str]) -> None:
        conditions = self.nodes[name]["status"]["conditions"]
        conditions[:] = [c for c in conditions if c["type"] != condition["type"]] + [condition]
        self._another(name)

    def change(self, name: str, version: str, patch: Mapping[str, Any]) -> None:
        assert version == self.nodes[name]["metadata"]["resourceVersion"]
        merged(self.nodes[name], copy.deepcopy(dict(patch)))
        self.changes.append(name)
        self._another(name)

    def _another(self, name: str) -> None:
        """Whoever changes a node by what it was before is refused."""
        meta = self.nodes[name]["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)

    def shut(self, name: str) -> bool:
        return bool(self.nodes[name]["spec"].get("unschedulable"))

    def mark(self, name: str) -> str | None:
        found: str | None = self.nodes[name]["metadata"].get("annotations", {}).get(UNFIT)
        return found

    def condition(self, name: str) -> dict[str, str]:
        conditions = self.nodes[name]["status"]["conditions"]
        found: dict[str, str] = next(c for c in conditions if c["type"] == CONDITION)
        return found


def fit(host: str) -> Judged:
    return Judged(host, Fit.YES, {})


def unfit(host: str, *keys: str) -> Judged:
    return Judged(
        host, Fit.NO, {key: f"{key}: it is so" for key in keys or ("fabric.state mlx5_0",)}
    )


def acts(cluster: Cluster, *judged: Judged, most_out: int | None = 1) -> list[Act]:
    return [one.act for one in apply_conditions(cluster, judged, most_out, NOON)]


def result(check: str, status: Status, host: str = "gpu-1", *parts: str) -> CheckResult:
    return verdict(place(host, *parts), status, cause="it is so").of(check)


def test_every_check_is_one_of_the_watchs_and_of_healths() -> None:
    assert set(CHECKS) <= set(ALL_CHECK_IDS)
    assert set(CHECKS) - ids_in(RULES) == set()


def test_a_host_is_judged_by_what_keeps_work_away_and_by_nothing_else() -> None:
    good = result("gpu.count", Status.PASS)
    assert judge("gpu-1", [good, result("gpu.temperature", Status.FAIL)]) == fit("gpu-1")
    assert judge("gpu-1", [good, result("gpu.ecc", Status.FAIL, "gpu-2")]) == fit("gpu-1")
    bad = result("gpu.ecc", Status.FAIL, "gpu-1", "GPU 3")
    found = judge("gpu-1", [good, result("base.disk", Status.FAIL), bad])
    assert found.fit is Fit.NO
    assert list(found.causes) == ["gpu.ecc GPU-3", "base.disk"]
    assert found.reason == "GpuEcc"
    assert found.message == "gpu.ecc GPU-3: it is so; base.disk: it is so"


def test_who_does_not_answer_or_was_not_measured_is_unknown_and_left_alone() -> None:
    silent = judge("gpu-1", [result(REACHABLE, Status.FAIL)])
    blind = judge("gpu-2", [result("gpu.count", Status.NOT_ASSESSED, "gpu-2")])
    assert {silent.fit, blind.fit, judge("gpu-3", []).fit} == {Fit.UNKNOWN}
    cluster = Cluster("gpu-1", "gpu-2")
    assert acts(cluster, silent, blind) == [Act.NONE, Act.NONE]
    assert cluster.condition("gpu-1")["status"] == "Unknown"
    assert not cluster.shut("gpu-1")


def test_what_is_required_and_was_not_judged_makes_no_host_fit() -> None:
    """A clock that is right says nothing of GPUs that nobody could read, or whose stage is not finished."""
    clock = result("base.clock", Status.PASS)
    for open_one in (
        result("gpu.ecc", Status.NOT_ASSESSED),
        result("gpu.ecc", Status.ERROR),
        result("stage.gpu", Status.NOT_ASSESSED),
    ):
        found = judge("gpu-1", [clock, open_one])
        assert (found.fit, list(found.causes)) == (Fit.UNKNOWN, [open_one.id])
    optional = result("gpu.ecc", Status.NOT_ASSESSED).model_copy(update={"required": False})
    assert judge("gpu-1", [clock, optional]) == fit("gpu-1")
    bad = result("gpu.count", Status.FAIL)
    assert judge("gpu-1", [clock, bad, result("gpu.ecc", Status.NOT_ASSESSED)]).fit is Fit.NO
    cluster = Cluster("gpu-1")
    assert acts(cluster, unfit("gpu-1")) == [Act.CORDONED]
    assert acts(cluster, judge("gpu-1", [clock, result("gpu.ecc", Status.ERROR)])) == [
        Act.STAYS_OUT
    ]
    assert cluster.shut("gpu-1")


def test_a_node_that_cannot_be_changed_keeps_no_other_from_being_told() -> None:
    class Contended(Cluster):
        def change(self, name: str, version: str, patch: Mapping[str, Any]) -> None:
            if name == "gpu-1":
                raise ApplianceError("node gpu-1 was changed meanwhile", "again")
            super().change(name, version, patch)

    cluster = Contended("gpu-1", "gpu-2")
    found = apply_conditions(cluster, [unfit("gpu-1"), unfit("gpu-2")], 2, NOON)
    assert [(one.act, one.error) for one in found] == [
        (Act.NONE, "node gpu-1 was changed meanwhile"),
        (Act.CORDONED, ""),
    ]


def test_an_unfit_host_is_cordoned_with_its_cause_and_given_back_once_it_is_fit() -> None:
    cluster = Cluster("gpu-1", "gpu-2")
    assert acts(cluster, unfit("gpu-1"), fit("gpu-2")) == [Act.CORDONED, Act.NONE]
    assert cluster.shut("gpu-1")
    assert cluster.mark("gpu-1") == "fabric.state mlx5_0"
    assert cluster.condition("gpu-1") == {
        "type": CONDITION,
        "status": "False",
        "reason": "FabricState",
        "message": "fabric.state mlx5_0: it is so",
        "lastHeartbeatTime": "2026-11-25T12:00:00Z",
        "lastTransitionTime": "2026-11-25T12:00:00Z",
    }
    assert acts(cluster, unfit("gpu-1"), fit("gpu-2")) == [Act.STAYS_OUT, Act.NONE]
    assert cluster.changes == ["gpu-1"]
    assert acts(cluster, fit("gpu-1"), fit("gpu-2")) == [Act.GIVEN_BACK, Act.NONE]
    assert not cluster.shut("gpu-1")
    assert cluster.mark("gpu-1") is None
    assert acts(cluster, fit("gpu-1"), fit("gpu-2")) == [Act.NONE, Act.NONE]


def test_a_condition_changes_its_time_only_with_its_status() -> None:
    cluster = Cluster("gpu-1")
    apply_conditions(cluster, [fit("gpu-1")], 1, NOON)
    apply_conditions(cluster, [fit("gpu-1")], 1, LATER)
    same = cluster.condition("gpu-1")
    assert same["lastTransitionTime"] == "2026-11-25T12:00:00Z"
    assert same["lastHeartbeatTime"] == "2026-11-25T13:00:00Z"
    apply_conditions(cluster, [unfit("gpu-1")], 1, LATER)
    assert cluster.condition("gpu-1")["lastTransitionTime"] == "2026-11-25T13:00:00Z"


def test_no_more_than_the_bound_are_out_whoever_took_them_out() -> None:
    cluster = Cluster("gpu-1", "gpu-2", "gpu-3")
    both = (unfit("gpu-1"), unfit("gpu-2"), fit("gpu-3"))
    assert acts(cluster, *both) == [Act.CORDONED, Act.OVER, Act.NONE]
    other = Cluster("gpu-1", "gpu-2", "gpu-3")
    other.nodes["gpu-3"]["spec"]["unschedulable"] = True
    assert acts(other, *both) == [Act.OVER, Act.OVER, Act.NONE]
    lost = Cluster("gpu-1", "gpu-2", "gpu-3")
    lost.nodes["gpu-3"]["status"]["conditions"][0]["status"] = "Unknown"
    assert acts(lost, *both) == [Act.OVER, Act.OVER, Act.NONE]
    assert acts(Cluster("gpu-1"), unfit("gpu-1"), most_out=0) == [Act.OVER]


def test_a_cordon_of_somebody_else_is_neither_marked_nor_taken_back() -> None:
    cluster = Cluster("gpu-1")
    cluster.nodes["gpu-1"]["spec"]["unschedulable"] = True
    for one in (unfit("gpu-1"), fit("gpu-1")):
        assert acts(cluster, one) == [Act.NONE]
    assert cluster.shut("gpu-1")
    assert cluster.changes == []


def test_a_fault_of_a_gpu_is_given_back_by_a_person_alone_also_when_another_came_after() -> None:
    cluster = Cluster("gpu-1")
    acts(cluster, unfit("gpu-1", "gpu.count"))
    assert acts(cluster, fit("gpu-1")) == [Act.STAYS_OUT]
    acts(cluster, unfit("gpu-1", "fabric.state mlx5_0"))
    assert acts(cluster, fit("gpu-1")) == [Act.STAYS_OUT]
    assert cluster.shut("gpu-1")
    del cluster.nodes["gpu-1"]["spec"]["unschedulable"]
    assert acts(cluster, fit("gpu-1")) == [Act.NONE]
    assert cluster.mark("gpu-1") is None


def test_what_a_person_gave_back_stays_until_something_new_is_found() -> None:
    cluster = Cluster("gpu-1")
    acts(cluster, unfit("gpu-1", "gpu.ecc GPU-3"))
    del cluster.nodes["gpu-1"]["spec"]["unschedulable"]
    assert acts(cluster, unfit("gpu-1", "gpu.ecc GPU-3")) == [Act.WAIVED]
    assert not cluster.shut("gpu-1")
    new = unfit("gpu-1", "gpu.ecc GPU-3", "gpu.ecc GPU-4")
    assert acts(cluster, new) == [Act.CORDONED]


def test_conditions_alone_and_a_node_that_is_not_there() -> None:
    cluster = Cluster("gpu-1")
    found = apply_conditions(cluster, [unfit("gpu-1"), fit("gpu-9")], None, NOON)
    assert found[0] == NodeConditionResult(unfit("gpu-1"))
    assert found[1].error == "the cluster has no such node"
    assert cluster.condition("gpu-1")["status"] == "False"
    assert cluster.changes == []


class Bench:
    """The verb on a site on disk and an API on loopback."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.results = folder, list[CheckResult]()
        (folder / "site.yml").write_text(SITE.replace("[control, gpu]", "[login, gpu]") + CLUSTER)
        (folder / "known_hosts").write_text("")
        patch.setenv("A", "x")
        patch.delenv("KUBECONFIG", raising=False)
        self.asked: list[tuple[Any, ...]] = []
        patch.setattr(health, "look", self._look)

    def _look(self, *words: Any) -> Health:
        # What is asked for must be what health itself would take.
        assert set(health._ids(words[2])) == set(words[2])
        self.asked.append(words)
        return Health("acme", 3, 0.1, (), tuple(self.results), {})

    def run(self, *flags: str) -> tuple[int, str]:
        with serving() as api:
            config = kubeconfig(self.folder, api.url)
            for name in ("gpu-1", "both"):
                plural, _ = KINDS["v1", "Node"]
                ready = {"type": "Ready", "status": "True"}
                body = {"metadata": {"name": name}, "status": {"conditions": [ready]}}
                api.put(f"/api/v1/{plural}/{name}", body)
                # The API of the test keeps no subresources.
                api.put(f"/api/v1/{plural}/{name}/status", {"metadata": {"name": name}})
            words = ("--site", str(self.folder), "--kubeconfig", str(config))
            argv = ["node", "conditions", *words, *flags]
            done = CliRunner().invoke(cli, argv, standalone_mode=False)
            self.seen = list(api.seen)
        assert done.exception is None, done.exception
        return int(done.return_value), done.stdout


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_the_verb_asks_for_these_checks_of_its_hosts_and_ends_as_it_found_them(
    bench: Bench,
) -> None:
    bench.results = [result("gpu.count", Status.PASS, host) for host in ("gpu-1", "both")]
    code, said = bench.run()
    assert code == 0
    assert "✓ gpu-1        fit" in said
    (_, _, checks, hosts), *_ = bench.asked
    assert checks == CHECKS
    assert hosts == ("gpu-1", "both")
    assert ("PATCH", "/api/v1/nodes/gpu-1/status") in bench.seen
    assert ("PATCH", "/api/v1/nodes/gpu-1") not in bench.seen


def test_an_unfit_host_ends_with_1_and_one_that_is_silent_with_3(bench: Bench) -> None:
    bench.results = [result("gpu.count", Status.FAIL), result("gpu.count", Status.PASS, "both")]
    code, said = bench.run("--json", "--most-out", "2")
    assert code == 1
    assert json.loads(said)["hosts"]["gpu-1"] == {
        "fit": "False",
        "causes": ["gpu.count: it is so"],
        "act": "cordoned",
        "error": "",
    }
    assert ("PATCH", "/api/v1/nodes/gpu-1") in bench.seen
    bench.results = [result("gpu.count", Status.PASS), result(REACHABLE, Status.FAIL, "both")]
    code, said = bench.run("--no-cordon")
    assert code == 3
    assert "? both         host.reachable" not in said
    assert "the host does not answer" in said


def test_a_site_whose_gpu_hosts_are_all_slurms_is_refused(bench: Bench) -> None:
    text = (bench.folder / "site.yml").read_text().replace(CLUSTER, "")
    (bench.folder / "site.yml").write_text(text)
    argv = ["node", "conditions", "--site", str(bench.folder), "--kubeconfig", "none"]
    with pytest.raises(ConfigError, match="no GPU host that Kubernetes"):
        cli.main(argv, standalone_mode=False)
    assert bench.asked == []


def test_who_may_give_a_fit_host_back_is_told_with_the_command() -> None:
    said = verbs._condition_text(NodeConditionResult(fit("gpu-1"), Act.STAYS_OUT))
    assert said.endswith(
        "fit, but cordoned after a GPU fault; to release it: kubectl uncordon gpu-1"
    )
    assert verbs._condition_text(NodeConditionResult(unfit("gpu-1", "gpu.ecc"), Act.STAYS_OUT)) == (
        "  ✗ gpu-1        stays cordoned; gpu.ecc: it is so"
    )
