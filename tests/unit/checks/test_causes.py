"""What explains what: each cause with an effect it covers and one it must leave alone."""

from dataclasses import dataclass

import pytest

from appliance.checks.causes import NAMED_CHECK, Cause
from appliance.checks.causes import explain as explained
from appliance.engine.judge import REACHABLE
from appliance.models.result import CheckResult, Kind, Status, Value, overall
from appliance.stages.catalog import CAUSES, CHECKS

FAIL, UNKNOWN, WARN = Status.FAIL, Status.NOT_ASSESSED, Status.WARN


def of(
    check: str,
    target: str,
    status: Status = FAIL,
    *names: str,
    value: Value = None,
    unit: str = "",
    kind: Kind = Kind.OTHER,
) -> CheckResult:
    return CheckResult(
        id=check, target=target, status=status, names=names, value=value, unit=unit, kind=kind
    )


def explain(results: list[CheckResult]) -> list[CheckResult]:
    """As the program explains them."""
    return explained(results, CAUSES)


@dataclass(frozen=True)
class Case:
    """A cause, what it explains, and what looks like it but has a fault of its own."""

    cause: CheckResult
    explained: CheckResult
    other: CheckResult


DEAD = of("host.reachable", "gpu-1")
NO_DRIVER = of("gpu.driver", "gpu-1")
OTHER_DRIVER = of("gpu.driver", "gpu-1", value="535.247.01")
LOST = of("gpu.error", "gpu-1/GPU 3")
SHORT = of("gpu.count", "gpu-1", value=7)
HOT = of("gpu.temperature", "gpu-1/GPU 3")
NO_MANAGER = of("gpu.fabric_manager", "gpu-1")
NO_PORT = of("fabric.ports", "gpu-1/mlx5_3")
PORTLESS = of("fabric.ports", "gpu-1", FAIL, "mlx5_2", "mlx5_3")
PULLED = of("fabric.state", "gpu-1/mlx5_2", value="1: DOWN")
WAITING = of("fabric.active", "gpu-1/mlx5_2", value="2: INIT")
ASTRAY = of("fabric.topology", "gpu-1/mlx5_2")
NARROW = of("fabric.rate", "gpu-1/mlx5_2")
NO_MASTER = of("fabric.sm", "cluster")
CUT_OFF = of("fabric.sm", "gpu-1")
FULL = of("base.disk", "head")
MUNGE = of("slurm.munge", "gpu-1")
SLURMD = of("slurm.daemons", "gpu-1/slurmd")
SLURMCTLD = of("slurm.daemons", "head/slurmctld")
DATABASE = of("slurm.daemons", "head/mariadb")
LATE_NODE = of("kubernetes.nodes", "gpu-1")
NO_OPERATOR = of("scheduler.releases", "head/gpu-operator")
SICK_OPERATOR = of("scheduler.pods", "head/gpu-operator")
CONTROLLER = of("slurm.controller", "cluster")
NO_SERVER = of("storage.server", "head")
CASES = (
    Case(DEAD, of("slurm.nodes", "gpu-1"), of("slurm.nodes", "gpu-2")),
    Case(
        DEAD,
        of("gpu.vbios_spread", "cluster", UNKNOWN, "gpu-1"),
        of("gpu.vbios_spread", "cluster", UNKNOWN, "gpu-11"),
    ),
    Case(
        DEAD,
        of("observe.alerts", "cluster", WARN, "HostDown"),
        of("observe.alerts", "cluster", WARN, "HostDown", "MemoryLow"),
    ),
    Case(NO_DRIVER, of("gpu.ecc", "gpu-1", UNKNOWN), of("gpu.count", "gpu-1", FAIL)),
    Case(OTHER_DRIVER, of("gpu.fabric_manager", "gpu-1"), of("gpu.fabric_manager", "gpu-2")),
    Case(
        OTHER_DRIVER,
        of("gpu.driver_spread", "cluster", FAIL, "gpu-1", "gpu-2"),
        of("gpu.driver_spread", "cluster", FAIL, "gpu-3", "gpu-2"),
    ),
    Case(NO_DRIVER, of("slurm.gres", "gpu-1"), of("slurm.gres", "gpu-2")),
    Case(LOST, of("gpu.ecc", "gpu-1/GPU 3,5", UNKNOWN), of("gpu.ecc", "gpu-1/GPU 5", UNKNOWN)),
    Case(LOST, of("gpu.count", "gpu-1/0000:47:00.0"), of("gpu.count", "gpu-1")),
    Case(
        LOST,
        of("gpu.vbios_spread", "cluster", UNKNOWN, "gpu-1/GPU 3"),
        of("gpu.vbios_spread", "cluster", WARN, "gpu-1/GPU 3"),
    ),
    Case(
        LOST,
        of("gpu.xid", "gpu-1/0000:47:00.0", value=79, unit="Xid"),
        of("gpu.xid", "gpu-1/0000:47:00.0", value=95, unit="Xid"),
    ),
    Case(
        SHORT,
        of("gpu.xid", "gpu-1/0000:47:00.0", value=79, unit="Xid"),
        of("gpu.xid", "gpu-1/GPU 3", value=48, unit="Xid"),
    ),
    Case(SHORT, of("slurm.gres", "gpu-1"), of("slurm.gres", "gpu-2")),
    Case(
        SHORT,
        of("slurm.nodes", "gpu-1", kind=Kind.TOO_FEW_GPUS),
        of("slurm.nodes", "gpu-1", value="drained"),
    ),
    Case(
        of("slurm.gres", "gpu-1", value=7),
        of("slurm.nodes", "gpu-1", kind=Kind.TOO_FEW_GPUS),
        of("slurm.nodes", "gpu-1", value="drained"),
    ),
    Case(
        HOT,
        of("gpu.clocks", "gpu-1/GPU 3", value="0x48"),
        of("gpu.clocks", "gpu-1/GPU 3", value="0x88"),
    ),
    Case(NO_MANAGER, of("gpu.nvlink", "gpu-1/GPU 0"), of("gpu.nvlink", "gpu-2/GPU 0")),
    Case(NO_PORT, of("fabric.topology", "gpu-1/mlx5_3"), of("fabric.topology", "gpu-1/mlx5_4")),
    Case(PORTLESS, of("fabric.rate", "gpu-1", UNKNOWN), of("fabric.rate", "gpu-1/mlx5_1")),
    Case(
        NO_MASTER,
        of("fabric.active", "gpu-2/mlx5_0", value="2: INIT"),
        of("fabric.active", "gpu-2/mlx5_0", value="1: DOWN"),
    ),
    Case(
        CUT_OFF,
        of("fabric.active", "gpu-1/mlx5_0", value="2: INIT"),
        of("fabric.active", "gpu-2/mlx5_0", value="2: INIT"),
    ),
    Case(PULLED, of("fabric.sm", "gpu-1"), of("fabric.sm", "gpu-2")),
    Case(PULLED, of("fabric.topology", "gpu-1/mlx5_2"), of("fabric.topology", "gpu-1/mlx5_1")),
    Case(PULLED, of("fabric.rate", "gpu-1", UNKNOWN), of("fabric.rate", "gpu-1/mlx5_1")),
    Case(WAITING, of("fabric.rate", "gpu-1", UNKNOWN), of("fabric.rate", "gpu-1/mlx5_1")),
    Case(WAITING, of("fabric.topology", "gpu-1/mlx5_2"), of("fabric.topology", "gpu-1/mlx5_1")),
    Case(ASTRAY, of("fabric.cabling", "gpu-1/mlx5_2"), of("fabric.cabling", "gpu-1/mlx5_1")),
    Case(NARROW, of("fabric.links", "gpu-1/mlx5_2"), of("fabric.links", "gpu-1/mlx5_1")),
    Case(FULL, of("slurm.daemons", "head/slurmctld"), of("slurm.daemons", "gpu-1/slurmd")),
    Case(
        of("base.foreign", "gpu-1/etc/ssh/sshd_config.d/0.conf"),
        of("base.drift", "gpu-1", FAIL, "sshd permitrootlogin", "sshd passwordauthentication"),
        of("base.drift", "gpu-1", FAIL, "sshd permitrootlogin", "file /etc/hosts"),
    ),
    Case(
        of("base.foreign", "gpu-1/etc/systemd/system/slurmd.service.d/zz.conf"),
        of("base.drift", "gpu-1", FAIL, "unit file slurmd.service"),
        of("base.drift", "gpu-1", FAIL, "nftables inet appliance"),
    ),
    Case(
        FULL,
        of("observe.alerts", "cluster", WARN, "FilesystemFull"),
        of("observe.alerts", "cluster", WARN, "HostDown"),
    ),
    Case(
        of("base.units", "gpu-1/chrony.service"),
        of("base.clock", "gpu-1", UNKNOWN),
        of("base.clock", "gpu-2", UNKNOWN),
    ),
    Case(
        of("base.units", "gpu-1/chrony.service"),
        of("base.clock_spread", "cluster", UNKNOWN, "gpu-1"),
        of("base.clock_spread", "cluster", UNKNOWN, "gpu-2"),
    ),
    Case(
        of("base.clock", "gpu-1"),
        of("base.clock_spread", "cluster", FAIL, "gpu-1", "head"),
        of("base.clock_spread", "cluster", FAIL, "gpu-2", "head"),
    ),
    Case(
        of("base.clock", "gpu-1"),
        of("observe.alerts", "cluster", WARN, "ClockOff"),
        of("observe.alerts", "cluster", WARN, "ClockOff", "UnitFailed"),
    ),
    Case(
        of("gpu.ecc", "gpu-1"),
        of("slurm.nodes", "gpu-1", FAIL, "gpu.ecc"),
        of("slurm.nodes", "gpu-1", FAIL, "gpu.xid"),
    ),
    Case(
        of("storage.mount", "gpu-1"),
        of("slurm.watch", "gpu-1", FAIL, "storage.mount"),
        of("slurm.watch", "gpu-2", FAIL, "storage.mount"),
    ),
    Case(
        of("slurm.return", "gpu-1"),
        of("slurm.nodes", "gpu-1", FAIL, "storage.scratch"),
        of("slurm.nodes", "gpu-1"),
    ),
    Case(
        of("slurm.watch", "gpu-1"),
        of("slurm.return", "gpu-1", UNKNOWN),
        of("slurm.return", "gpu-2", UNKNOWN),
    ),
    Case(SLURMD, of("slurm.watch", "gpu-1"), of("slurm.watch", "gpu-2")),
    Case(SLURMCTLD, of("slurm.watch", "gpu-2"), of("slurm.nodes", "gpu-2")),
    Case(
        of("slurm.watch", "gpu-1"),
        of("observe.alerts", "cluster", WARN, "HostUnfitAndKept"),
        of("observe.alerts", "cluster", WARN, "HostUnfitAndKept", "HostDown"),
    ),
    Case(MUNGE, of("slurm.daemons", "gpu-1/slurmd"), of("slurm.daemons", "head/slurmctld")),
    Case(
        MUNGE,
        of("base.drift", "gpu-1", FAIL, "file /etc/munge/munge.key"),
        of("base.drift", "gpu-1", FAIL, "file /etc/munge/munge.key", "file /etc/hosts"),
    ),
    Case(
        MUNGE,
        of("base.failed_units", "gpu-1", FAIL, "munge.service"),
        of("base.failed_units", "gpu-1", FAIL, "munge.service", "smartd.service"),
    ),
    Case(
        SLURMD,
        of("base.failed_units", "gpu-1", FAIL, "slurmd.service"),
        of("base.failed_units", "gpu-1", FAIL, "cron.service"),
    ),
    Case(SLURMD, of("slurm.nodes", "gpu-1"), of("slurm.nodes", "gpu-2")),
    Case(DATABASE, of("slurm.daemons", "head/slurmdbd"), of("slurm.daemons", "head/slurmctld")),
    Case(SLURMCTLD, of("slurm.controller", "cluster"), of("slurm.accounting", "cluster")),
    Case(DATABASE, of("slurm.accounting", "cluster"), of("slurm.controller", "cluster")),
    Case(
        CONTROLLER, of("slurm.nodes", "gpu-1", UNKNOWN), of("slurm.nodes", "gpu-1", value="drained")
    ),
    Case(
        of("kubernetes.api", "head"),
        of("kubernetes.nodes", "gpu-1", UNKNOWN),
        of("kubernetes.nodes", "gpu-1", value="cordoned"),
    ),
    Case(
        of("kubernetes.services", "gpu-1/containerd"),
        of("kubernetes.kubelet", "gpu-1"),
        of("kubernetes.nodes", "gpu-1", value="cordoned"),
    ),
    Case(
        of("kubernetes.services", "gpu-1/containerd"),
        of("base.failed_units", "gpu-1", FAIL, "containerd.service"),
        of("base.failed_units", "gpu-1", FAIL, "containerd.service", "chrony.service"),
    ),
    Case(
        of("kubernetes.api", "head"),
        of("kubernetes.services", "head/kube-scheduler"),
        of("kubernetes.services", "head/kube-proxy"),
    ),
    Case(
        of("kubernetes.swap", "gpu-1"),
        of("kubernetes.kubelet", "gpu-1"),
        of("kubernetes.api", "gpu-1"),
    ),
    Case(
        of("kubernetes.ground", "gpu-1/cgroups"),
        of("kubernetes.kubelet", "gpu-1"),
        of("kubernetes.api", "gpu-1"),
    ),
    Case(
        of("kubernetes.kubelet", "gpu-1"),
        of("kubernetes.nodes", "gpu-1", value="not ready"),
        of("kubernetes.nodes", "gpu-1", value="cordoned"),
    ),
    Case(
        NO_MASTER,
        of("kubernetes.topology", "gpu-1", UNKNOWN),
        of("kubernetes.topology", "gpu-1", value="none"),
    ),
    Case(
        ASTRAY,
        of("kubernetes.topology", "gpu-2", UNKNOWN, "gpu-1"),
        of("kubernetes.topology", "gpu-2", UNKNOWN, "gpu-3"),
    ),
    Case(LATE_NODE, of("scheduler.gpus", "gpu-1"), of("scheduler.gpus", "gpu-2")),
    Case(SHORT, of("scheduler.gpus", "gpu-1"), of("scheduler.gpus", "gpu-2")),
    Case(
        of("gpu.error", "gpu-1/GPU 3"),
        of("scheduler.gpus", "gpu-1"),
        of("scheduler.gpus", "gpu-2"),
    ),
    Case(NO_DRIVER, of("scheduler.gpus", "gpu-1"), of("scheduler.gpus", "gpu-2")),
    Case(
        NO_OPERATOR,
        of("scheduler.pods", "head/gpu-operator"),
        of("scheduler.pods", "head/kai-scheduler"),
    ),
    Case(
        NO_OPERATOR, of("scheduler.gpus", "gpu-1"), of("scheduler.releases", "head/kai-scheduler")
    ),
    Case(SICK_OPERATOR, of("scheduler.gpus", "gpu-2"), of("scheduler.pods", "head/kai-scheduler")),
    Case(
        of("scheduler.releases", "head/network-operator"),
        of("scheduler.rdma", "gpu-1"),
        of("scheduler.gpus", "gpu-1"),
    ),
    Case(
        of("scheduler.pods", "head/network-operator"),
        of("scheduler.rdma", "gpu-1"),
        of("scheduler.gpus", "gpu-1"),
    ),
    Case(
        of("workloads.releases", "head/jobset"),
        of("workloads.pods", "head/jobset"),
        of("workloads.pods", "head/lws"),
    ),
    Case(
        of("workloads.releases", "head/csi-driver-nfs"),
        of("workloads.storage_class", "cluster"),
        of("workloads.pods", "head/jobset"),
    ),
    Case(
        of("kubernetes.nodes", "gpu-1", value="not ready"),
        of("workloads.network", "cluster", value=3),
        of("workloads.network", "cluster", value="nobody"),
    ),
    Case(NO_SERVER, of("storage.mount", "gpu-1/data"), of("storage.scratch", "gpu-1")),
    Case(
        NO_SERVER,
        of("base.failed_units", "head", FAIL, "nfs-ganesha.service"),
        of("base.failed_units", "gpu-1", FAIL, "nfs-ganesha.service"),
    ),
    Case(
        of("storage.scratch", "gpu-1"),
        of("storage.scratch_size", "gpu-1", UNKNOWN),
        of("storage.scratch_size", "gpu-1", UNKNOWN, value=11),
    ),
    Case(
        of("storage.scratch", "gpu-1"),
        of("slurm.container_room", "gpu-1", UNKNOWN),
        of("slurm.container_room", "gpu-2", UNKNOWN),
    ),
    Case(
        of("observe.exporter", "gpu-1"),
        of("observe.targets", "gpu-1"),
        of("observe.targets", "gpu-2"),
    ),
    Case(
        of("observe.exporter", "gpu-1"),
        of("base.failed_units", "gpu-1", FAIL, "prometheus-node-exporter.service"),
        of("base.failed_units", "gpu-1", FAIL, "prometheus.service"),
    ),
    Case(
        of("observe.server", "head/prometheus"),
        of("observe.targets", "cluster", UNKNOWN),
        of("observe.targets", "gpu-1"),
    ),
    Case(
        of("observe.server", "head/prometheus"),
        of("base.failed_units", "head", FAIL, "prometheus.service"),
        of("base.failed_units", "head", FAIL, "prometheus-node-exporter.service"),
    ),
    Case(
        of("observe.targets", "gpu-1"),
        of("observe.alerts", "cluster", WARN, "HostDown"),
        of("observe.alerts", "cluster", WARN, "UnitFailed"),
    ),
    Case(
        of("kubernetes.api", "head"),
        of("limits.cluster", "cluster"),
        of("limits.metrics", "cluster"),
    ),
    Case(
        of("limits.running", "head"),
        of("limits.cluster", "cluster", UNKNOWN),
        of("kubernetes.nodes", "head"),
    ),
    Case(
        of("limits.running", "head"),
        of("base.failed_units", "head", FAIL, "appliance-limits.service"),
        of("base.failed_units", "head", FAIL, "appliance-limits.service", "x.service"),
    ),
    Case(
        of("kubernetes.api", "head"),
        of("mig.on_demand", "gpu-1"),
        of("gpu.mig", "gpu-1"),
    ),
    Case(
        of("limits.running", "head"),
        of("mig.on_demand", "cluster", UNKNOWN),
        of("mig.on_demand", "gpu-1"),
    ),
    Case(
        of("gpu.driver", "gpu-1"),
        of("mig.on_demand", "gpu-1"),
        of("mig.on_demand", "gpu-2"),
    ),
    Case(
        of("mig.on_demand", "gpu-1"),
        of("base.failed_units", "gpu-1", FAIL, "appliance-mig-demand.service"),
        of("base.failed_units", "gpu-1", FAIL, "x.service"),
    ),
    Case(
        of("observe.targets", "gpu-1"),
        of("limits.metrics", "cluster"),
        of("limits.cluster", "cluster"),
    ),
    Case(
        of("observe.server", "head/prometheus-alertmanager"),
        of("observe.receivers", "cluster"),
        of("observe.targets", "gpu-1"),
    ),
    Case(
        of("observe.receivers", "cluster"),
        of("observe.alerts", "cluster", WARN, "AlertsUndelivered"),
        of("observe.alerts", "cluster", WARN, "HostDown"),
    ),
    Case(
        of("base.failed_units", "gpu-1"),
        of("observe.alerts", "cluster", WARN, "UnitFailed"),
        of("observe.alerts", "cluster", WARN, "HostDown"),
    ),
)


def covering(cause: CheckResult, effect: CheckResult) -> list[Cause]:
    """What the effect's check declares, or others declare of it, that fits."""
    return [row for row in CAUSES[effect.id] if row.covers(cause, effect)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cause.name}-{case.explained.id}")
def test_a_cause_explains_its_effect_and_no_fault_of_its_own(case: Case) -> None:
    assert covering(case.cause, case.explained)
    assert not covering(case.cause, case.other)
    told = {r.name: r.explained_by for r in explain([case.other, case.explained, case.cause])}
    assert told[case.explained.name] == case.cause.name
    assert told[case.cause.name] == ""
    if case.other.name != case.explained.name:
        assert told[case.other.name] == ""


def test_every_cause_has_a_case() -> None:
    tried = {
        (row.check, row.because) for case in CASES for row in covering(case.cause, case.explained)
    }
    assert {(row.check, row.because) for rows in CAUSES.values() for row in rows} == tried


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cause.name}-{case.explained.id}")
def test_a_cause_that_did_not_fail_explains_nothing(case: Case) -> None:
    for status in (Status.PASS, WARN, UNKNOWN):
        cause = case.cause.model_copy(update={"status": status})
        assert all(not r.explained_by for r in explain([cause, case.explained]))


def test_every_id_of_a_cause_is_a_check() -> None:
    known = {check.id for check in CHECKS} | {REACHABLE, NAMED_CHECK}
    assert {cause.check for check in CHECKS for cause in check.causes} <= known
    assert [
        effect.check
        for check in CHECKS
        for effect in check.explains
        if not any(effect.concerns(one) for one in known)
    ] == []


def test_a_pass_is_never_explained_and_no_verdict_gets_better() -> None:
    results = [
        LOST,
        of("gpu.ecc", "gpu-1/GPU 3", Status.PASS),
        of("gpu.remap", "gpu-1/GPU 3", UNKNOWN),
    ]
    told = explain(results)
    assert [r.explained_by for r in told] == ["", "", LOST.name]
    assert overall(told) is overall(results)
    assert [r.status for r in told] == [r.status for r in results]


def broken(hosts: int) -> list[CheckResult]:
    """Hosts that are silent, hosts with a GPU that is lost, and what is said of all of them."""
    found: list[CheckResult] = []
    for n in range(hosts):
        silent = f"silent-{n}"
        found += [
            of("host.reachable", silent),
            of("gpu.driver_spread", "cluster", UNKNOWN, silent),
            of("fabric.topology", silent, UNKNOWN),
            of("gpu.error", f"gpu-{n}/GPU 1"),
            of("gpu.ecc", f"gpu-{n}/GPU 1", UNKNOWN),
            of("gpu.pcie", f"gpu-{n}/GPU 2"),
            of("gpu.driver", f"gpu-{n}"),
            of("gpu.fabric_manager", f"gpu-{n}"),
        ]
    return found


def test_causes_are_found_as_if_every_failure_was_tried() -> None:
    results = broken(4)
    causes = [r for r in results if r.status is Status.FAIL]
    tried = [
        [c.name for row in CAUSES[effect.id] for c in causes if row.covers(c, effect)]
        if effect.id in CAUSES
        else []
        for effect in results
    ]
    explained = [r.explained_by for r in explain(results)]
    assert explained == [(names or [""])[0] for names in tried]
    assert sum(map(bool, explained)) >= 12


def test_failures_of_one_host_are_not_tried_on_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    real = Cause.leads_to

    def leads_to(row: Cause, cause: CheckResult, effect: CheckResult) -> bool:
        tried.append(row.check)
        return real(row, cause, effect)

    monkeypatch.setattr(Cause, "leads_to", leads_to)
    counts = []
    for hosts in (10, 20):
        tried.clear()
        explain([r for r in broken(hosts) if r.target != "cluster"])
        counts.append(len(tried))
    assert 0 < counts[1] <= 2 * counts[0]


def test_adapters_that_only_their_host_names_explain_what_is_said_of_each() -> None:
    missing = of("fabric.ports", "gpu-1", FAIL, "mlx5_3", "mlx5_4")
    *told, _ = explain([of("fabric.topology", f"gpu-1/mlx5_{n}") for n in (3, 4, 5)] + [missing])
    assert [r.explained_by for r in told] == [missing.name, missing.name, ""]


@pytest.mark.parametrize(
    ("names", "named"),
    [(("gpu-1",), True), (("gpu-2", "gpu-1"), True), (("gpu-11", "gpu-1.x"), False), ((), False)],
)
def test_a_host_is_a_name_of_its_own(names: tuple[str, ...], named: bool) -> None:
    silent = [of("host.reachable", "gpu-2"), of("host.reachable", "gpu-1")]
    *_, result = explain([*silent[1:], of("gpu.driver_spread", "cluster", UNKNOWN, *names)])
    assert bool(result.explained_by) is named
    *_, result = explain([*silent, of("gpu.driver_spread", "cluster", UNKNOWN, "gpu-1", "gpu-2")])
    assert result.explained_by == "host.reachable gpu-2"
