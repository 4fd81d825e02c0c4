"""What explains what: each cause with an effect it covers and one it must leave alone."""

import re
from dataclasses import dataclass

import pytest

from appliance.checks.causes import NAMED_CHECK, Cause
from appliance.checks.causes import explain as explained
from appliance.engine.look.judge import REACHABLE
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
    said = {"names": names, "value": value, "unit": unit, "kind": kind}
    aspect = f"{unit} {value}" if unit else ""
    return CheckResult(id=check, target=target, status=status, aspect=aspect, **said)


def explain(results: list[CheckResult]) -> list[CheckResult]:
    """As the program explains them."""
    return explained(results, CAUSES)


@dataclass(frozen=True)
class Case:
    """A cause, what it explains, and what looks like it but has a fault of its own."""

    cause: CheckResult
    explained: CheckResult
    other: CheckResult


TABLE = """
host.reachable gpu-1 | slurm.nodes gpu-1 | slurm.nodes gpu-2
host.reachable head | base.clock gpu-1 ~ : head | base.clock gpu-1 ~ : head-2
base.failed_units head : appliance-pod-routes.service | scheduler.members head/project a | scheduler.members head-2/project a
base.failed_units gpu-1 : appliance-pod-routes.service | kubernetes.dns gpu-1 | kubernetes.dns gpu-2
kubernetes.services gpu-1/kube-proxy | kubernetes.dns gpu-1 | kubernetes.dns gpu-2
host.reachable gpu-1 | gpu.vbios_spread cluster ? : gpu-1 | gpu.vbios_spread cluster ? : gpu-11
host.reachable gpu-1 | observe.alerts cluster ~ : HostDown | observe.alerts cluster ~ : HostDown, MemoryLow
gpu.driver gpu-1 | gpu.ecc gpu-1 ? | gpu.count gpu-1
gpu.driver gpu-1 = 535.247.01 | gpu.fabric_manager gpu-1 | gpu.fabric_manager gpu-2
gpu.driver gpu-1 = 535.247.01 | gpu.driver_spread cluster : gpu-1, gpu-2 | gpu.driver_spread cluster : gpu-3, gpu-2
gpu.driver gpu-1 | slurm.gres gpu-1 | slurm.gres gpu-2
gpu.driver gpu-1 = 535.247.01 | base.advisories gpu-1/nvidia-driver ~ | base.advisories gpu-1/runc ~
base.drift gpu-1 : package runc | base.advisories gpu-1/runc ~ | base.advisories gpu-1/containerd ~
gpu.error gpu-1/GPU 3 | gpu.ecc gpu-1/GPU 3,5 ? | gpu.ecc gpu-1/GPU 5 ?
gpu.error gpu-1/GPU 3 | gpu.count gpu-1/0000:47:00.0 | gpu.count gpu-1
base.pcie_errors gpu-1/0000:47:00.0 | gpu.count gpu-1/0000:47:00.0 | gpu.count gpu-1/0000:07:00.0
gpu.error gpu-1/GPU 3 | gpu.vbios_spread cluster ? : gpu-1/GPU 3 | gpu.vbios_spread cluster ~ : gpu-1/GPU 3
gpu.error gpu-1/GPU 3 | gpu.xid gpu-1/0000:47:00.0 = 79 Xid | gpu.xid gpu-1/0000:47:00.0 = 95 Xid
gpu.count gpu-1 = 7 | gpu.xid gpu-1/0000:47:00.0 = 79 Xid | gpu.xid gpu-1/GPU 3 = 48 Xid
gpu.xid gpu-1/GPU 3 = 79 Xid | gpu.xid gpu-1/GPU 3 ~ = 45 Xid | gpu.xid gpu-1/GPU 5 ~ = 45 Xid
gpu.count gpu-1 = 7 | slurm.gres gpu-1 | slurm.gres gpu-2
gpu.count gpu-1 = 7 | slurm.nodes gpu-1 (too few GPUs) | slurm.nodes gpu-1 = drained
slurm.gres gpu-1 = 7 | slurm.nodes gpu-1 (too few GPUs) | slurm.nodes gpu-1 = drained
gpu.temperature gpu-1/GPU 3 | gpu.clocks gpu-1/GPU 3 = 0x48 | gpu.clocks gpu-1/GPU 3 = 0x88
gpu.fabric_manager gpu-1 | gpu.nvlink gpu-1/GPU 0 | gpu.nvlink gpu-2/GPU 0
fabric.ports gpu-1/mlx5_3 | fabric.topology gpu-1/mlx5_3 | fabric.topology gpu-1/mlx5_4
fabric.ports gpu-1 : mlx5_2, mlx5_3 | fabric.rate gpu-1 ? | fabric.rate gpu-1/mlx5_1
fabric.sm cluster | fabric.active gpu-2/mlx5_0 = 2: INIT | fabric.active gpu-2/mlx5_0 = 1: DOWN
fabric.sm gpu-1 | fabric.active gpu-1/mlx5_0 = 2: INIT | fabric.active gpu-2/mlx5_0 = 2: INIT
fabric.state gpu-1/mlx5_2 = 1: DOWN | fabric.sm gpu-1 | fabric.sm gpu-2
fabric.state gpu-1/mlx5_2 = 1: DOWN | fabric.topology gpu-1/mlx5_2 | fabric.topology gpu-1/mlx5_1
fabric.state gpu-1/mlx5_2 = 1: DOWN | fabric.rate gpu-1 ? | fabric.rate gpu-1/mlx5_1
fabric.active gpu-1/mlx5_2 = 2: INIT | fabric.rate gpu-1 ? | fabric.rate gpu-1/mlx5_1
fabric.active gpu-1/mlx5_2 = 2: INIT | fabric.topology gpu-1/mlx5_2 | fabric.topology gpu-1/mlx5_1
fabric.topology gpu-1/mlx5_2 | fabric.cabling gpu-1/mlx5_2 | fabric.cabling gpu-1/mlx5_1
fabric.rate gpu-1/mlx5_2 | fabric.links gpu-1/mlx5_2 | fabric.links gpu-1/mlx5_1
base.disk head | slurm.daemons head/slurmctld | slurm.daemons gpu-1/slurmd
base.foreign gpu-1/etc/ssh/sshd_config.d/0.conf | base.drift gpu-1 : sshd permitrootlogin, sshd passwordauthentication | base.drift gpu-1 : sshd permitrootlogin, file /etc/hosts
base.foreign gpu-1/etc/systemd/system/slurmd.service.d/zz.conf | base.access gpu-1/slurmd,open_files | base.access gpu-1/sshd,open_files
base.foreign gpu-1/etc/systemd/system/slurmd.service.d/zz.conf | base.drift gpu-1 : unit file slurmd.service | base.drift gpu-1 : nftables inet appliance
base.disk head | observe.alerts cluster ~ : FilesystemFull | observe.alerts cluster ~ : HostDown
base.access gpu-1/home/ada/.ssh | base.drift gpu-1 : keys of user ada, file /home/ada/.ssh/authorized_keys | base.drift gpu-1 : keys of user ada
base.access gpu-1/home/ada/.ssh | base.foreign gpu-1/home/ada/.ssh/rc | base.foreign gpu-1/home/ada
base.access head/data/home/bea | base.drift head : home /srv/data/home/bea | base.drift head : home /srv/data/home/bea, file /etc/hosts
base.access gpu-1/dpkg : tzdata | base.drift gpu-1 : package tzdata | base.drift gpu-1 : package tzdata, file /etc/hosts
base.access gpu-1/etc/pam.d/sudo | base.foreign gpu-1/etc/pam.d/sudo | base.foreign gpu-1/etc/pam.d/sudo-i
base.units gpu-1/chrony.service | base.clock gpu-1 ? | base.clock gpu-2 ?
base.units gpu-1/chrony.service | base.clock_spread cluster ? : gpu-1 | base.clock_spread cluster ? : gpu-2
base.clock gpu-1 | base.clock_spread cluster : gpu-1, head | base.clock_spread cluster : gpu-2, head
base.clock gpu-1 | observe.alerts cluster ~ : ClockOff | observe.alerts cluster ~ : ClockOff, UnitFailed
gpu.ecc gpu-1 | slurm.nodes gpu-1 : gpu.ecc | slurm.nodes gpu-1 : gpu.xid
storage.mount gpu-1 | slurm.watch gpu-1 : storage.mount | slurm.watch gpu-2 : storage.mount
slurm.return gpu-1 | slurm.nodes gpu-1 : storage.scratch | slurm.nodes gpu-1
slurm.watch gpu-1 | slurm.return gpu-1 ? | slurm.return gpu-2 ?
slurm.daemons gpu-1/slurmd | slurm.watch gpu-1 | slurm.watch gpu-2
storage.mount gpu-1 | kubernetes.watch gpu-1 : storage.mount | kubernetes.watch gpu-2 : storage.mount
gpu.ecc gpu-1 | kubernetes.nodes gpu-1 : gpu.ecc | kubernetes.nodes gpu-1 : gpu.xid
kubernetes.return gpu-1 | kubernetes.nodes gpu-1 : storage.scratch | kubernetes.nodes gpu-1
kubernetes.watch gpu-1 | kubernetes.return gpu-1 ? | kubernetes.return gpu-2 ?
kubernetes.api head | kubernetes.watch gpu-1 = not reported | kubernetes.watch gpu-1 = unfit
host.reachable head | slurm.watch gpu-1 : head | slurm.watch gpu-1
slurm.daemons head/slurmctld | slurm.watch gpu-2 | slurm.nodes gpu-2
slurm.watch gpu-1 | observe.alerts cluster ~ : HostUnfitAndKept | observe.alerts cluster ~ : HostUnfitAndKept, HostDown
slurm.munge gpu-1 | slurm.daemons gpu-1/slurmd | slurm.daemons head/slurmctld
slurm.munge gpu-1 | base.drift gpu-1 : file /etc/munge/munge.key | base.drift gpu-1 : file /etc/munge/munge.key, file /etc/hosts
slurm.logins gpu-1 | base.drift gpu-1 : file /etc/pam.d/sshd | base.drift gpu-1 : file /etc/pam.d/sshd, file /etc/hosts
slurm.munge gpu-1 | base.failed_units gpu-1 : munge.service | base.failed_units gpu-1 : munge.service, smartd.service
slurm.daemons gpu-1/slurmd | base.failed_units gpu-1 : slurmd.service | base.failed_units gpu-1 : cron.service
base.access gpu-1/dev/nvidia5 : /dev/nvidia5 | slurm.daemons gpu-1/slurmd | slurm.daemons head/slurmctld
slurm.daemons gpu-1/slurmd | slurm.nodes gpu-1 | slurm.nodes gpu-2
slurm.daemons head/mariadb | slurm.daemons head/slurmdbd | slurm.daemons head/slurmctld
slurm.daemons head/slurmctld | slurm.controller cluster | slurm.accounting cluster
slurm.daemons head/mariadb | slurm.accounting cluster | slurm.controller cluster
base.access head/var/lib/prometheus/metrics2 : prometheus | observe.server head/prometheus | observe.server head/appliance-prometheus
base.access head/var/lib/slurm/slurmctld : slurmctld | slurm.daemons head/slurmctld | slurm.daemons head/slurmdbd
storage.export head/srv/data = missing | base.drift head : directory /srv/data, home /srv/data/home/bea | base.drift head : directory /srv/data, file /etc/hosts
storage.mount head/data | base.access head/data/home/bea | base.access head/database
base.disk gpu-1 | base.access gpu-1/tmp | base.access gpu-2/tmp
slurm.munge head | slurm.controller cluster : head | slurm.controller cluster
slurm.munge head | slurm.accounting cluster : head | slurm.accounting cluster
base.pcie_errors gpu-1/mlx5_3 | fabric.pcie gpu-1/mlx5_3 | fabric.pcie gpu-1/mlx5_4
slurm.controller cluster | slurm.idle_gpus gpu-1 ? | slurm.idle_gpus gpu-1/GPU 3
gpu.driver gpu-1 | slurm.idle_gpus gpu-1 ? | slurm.idle_gpus gpu-2 ?
host.reachable gpu-1 | base.neighbours gpu-2/gpu-1 : gpu-1, gpu-2 | base.neighbours gpu-2/gpu-3 : gpu-3, gpu-2
base.neighbours gpu-1/head : head | base.drift gpu-1 : file /etc/hosts | base.drift gpu-1 : file /etc/hosts, file /etc/hostname
storage.server head | base.neighbours head/port 2049 | base.neighbours head/port 6818
slurm.controller cluster | slurm.leaving cluster ? | slurm.leaving cluster/node gpu-9
slurm.munge head | slurm.submit cluster/user bea | observe.exporter head
slurm.accounting cluster | slurm.submit cluster/account default | slurm.munge head
base.neighbours head/port 6817 : head | slurm.controller cluster : head | slurm.controller cluster
base.neighbours gpu-2/port 6818 | slurm.nodes gpu-2 = idle+not_responding | slurm.nodes gpu-2 = drained
slurm.submit cluster/reservation maint | slurm.nodes gpu-1 = idle+maintenance+reserved | slurm.nodes gpu-1 = drained
slurm.nodes gpu-1 | slurm.submit cluster/user bea | slurm.submit cluster/partition gpu
slurm.submit cluster/partition gpu = DOWN | slurm.submit cluster/partition gpu,user bea = refused | slurm.submit cluster/partition cpu,user bea = refused
slurm.controller cluster/slurm.conf | slurm.submit cluster/partition gpu,user bea | slurm.submit cluster/partition gpu
slurm.controller cluster | slurm.submit cluster ? | slurm.submit cluster/partition gpu
slurm.controller cluster | slurm.nodes gpu-1 ? | slurm.nodes gpu-1 = drained
kubernetes.api head | kubernetes.nodes gpu-1 ? | kubernetes.nodes gpu-1 = cordoned
kubernetes.services gpu-1/containerd | kubernetes.kubelet gpu-1 | kubernetes.nodes gpu-1 = cordoned
kubernetes.services gpu-1/containerd | base.failed_units gpu-1 : containerd.service | base.failed_units gpu-1 : containerd.service, chrony.service
kubernetes.api head | kubernetes.services head/kube-scheduler | kubernetes.services head/kube-proxy
kubernetes.etcd head | kubernetes.services head/kube-scheduler | kubernetes.services head/kube-proxy
kubernetes.etcd head-2 | kubernetes.api head | kubernetes.kubelet head
host.reachable head-2 | kubernetes.api head : head-2 | kubernetes.api head
host.reachable head-2 | kubernetes.services head/kube-scheduler : head-2 | kubernetes.services head/kube-proxy
host.reachable head-2 | kubernetes.pods head/kube-system/etcd-head : head-2 | kubernetes.pods head/kube-system/kube-proxy
kubernetes.certificates head = -2 | kubernetes.api head | kubernetes.api head-2
base.disk head | kubernetes.api head | kubernetes.api head-2
base.disk gpu-1 | kubernetes.kubelet gpu-1 | kubernetes.dns gpu-1
base.disk gpu-1 | kubernetes.nodes gpu-1 = not ready | kubernetes.nodes gpu-1 = cordoned
kubernetes.certificates gpu-1 = -2 | kubernetes.nodes gpu-1 = not ready | kubernetes.nodes gpu-1 = cordoned
base.disk head | kubernetes.backup head | kubernetes.backup head-2
kubernetes.certificates head = -2 | kubernetes.services head/kube-scheduler | kubernetes.dns head
base.disk gpu-1 | kubernetes.services gpu-1/containerd | kubernetes.services gpu-2/containerd
kubernetes.certificates head = -2 | kubernetes.pods head/kube-system/kube-scheduler-head | kubernetes.pods gpu-1/kube-system/coredns
base.disk gpu-1 | kubernetes.pods gpu-1/kube-system/coredns | kubernetes.pods cluster/kube-system/coredns
base.disk gpu-1 | kubernetes.stored_images gpu-1 | kubernetes.stored_images gpu-2
kubernetes.nodes gpu-1 = pressure | kubernetes.stored_images gpu-1 | kubernetes.stored_images gpu-2
kubernetes.nodes gpu-1 = pressure | kubernetes.pods gpu-1/kube-system/coredns | kubernetes.pods gpu-2/kube-system/coredns
kubernetes.nodes gpu-1 = pressure | kubernetes.return gpu-1 | kubernetes.return gpu-2
kubernetes.nodes gpu-1 = pressure | kubernetes.pods cluster/kube-system/coredns = Unschedulable | kubernetes.pods cluster/kube-system/coredns = OOMKilled
kubernetes.nodes gpu-1 = pressure | scheduler.pods head/kai-scheduler = Unschedulable | scheduler.pods head/kai-scheduler
kubernetes.api head | kubernetes.pods head/kube-system/kube-apiserver-head | kubernetes.pods head/kube-system/etcd-head
kubernetes.etcd head | kubernetes.nodes gpu-1 = not ready | kubernetes.nodes gpu-1 = cordoned
kubernetes.etcd head | scheduler.pods head/kai-scheduler | kubernetes.backup head
kubernetes.etcd head | scheduler.releases head/kai-scheduler | kubernetes.versions cluster
kubernetes.etcd head | workloads.pods head/jobset | workloads.network cluster
kubernetes.etcd head | limits.cluster cluster | limits.metrics cluster
kubernetes.etcd head | mig.on_demand gpu-1 | gpu.mig gpu-1
kubernetes.api head | kubernetes.etcd head ? | kubernetes.etcd head-2 ?
base.clock_spread cluster = 200000 : head | kubernetes.certificates head = -2 | kubernetes.certificates head-2 = -2
base.clock_spread cluster = 600 : head | kubernetes.api head | kubernetes.api head-2
base.clock_spread cluster = 600 : head | kubernetes.kubelet head | kubernetes.kubelet gpu-1
base.clock_spread cluster = 600 : head | kubernetes.nodes head = not ready | kubernetes.nodes head = cordoned
base.clock_spread cluster = 600 : head | kubernetes.services head/kube-scheduler | kubernetes.services head-2/kube-scheduler
base.clock_spread cluster = 600 : head | kubernetes.pods head/kube-system/kube-apiserver-head | kubernetes.pods gpu-1/kube-system/coredns
base.clock_spread cluster = 200000 : head | kubernetes.certificates head = -2 | kubernetes.certificates head = -3
kubernetes.nodes gpu-1 = not ready | base.drift gpu-1 : file /etc/cni/net.d/10-appliance.conflist | base.drift gpu-1 : file /etc/cni/net.d/10-appliance.conflist, file /etc/hosts
kubernetes.swap gpu-1 | kubernetes.kubelet gpu-1 | kubernetes.api gpu-1
kubernetes.ground gpu-1/cgroups | kubernetes.kubelet gpu-1 | kubernetes.api gpu-1
kubernetes.services gpu-1/containerd | kubernetes.stored_images gpu-1 ? | kubernetes.stored_images gpu-2 ?
kubernetes.stored_images gpu-1 | kubernetes.pods gpu-1/kube-system/coredns = ImagePullBackOff | kubernetes.pods gpu-1/kube-system/coredns = OOMKilled
kubernetes.kubelet gpu-1 | kubernetes.pods gpu-1/kube-system/kube-proxy | kubernetes.pods gpu-2/kube-system/kube-proxy
kubernetes.nodes gpu-1 | kubernetes.pods cluster/kube-system/coredns : gpu-1 | kubernetes.pods cluster/kube-system/coredns : gpu-2
kubernetes.pods cluster/kube-system/coredns | kubernetes.dns gpu-1 | kubernetes.kubelet gpu-1
kubernetes.pods head/kube-system/kube-scheduler-head | kubernetes.services head/kube-scheduler | kubernetes.services head/kube-controller-manager
kubernetes.kubelet gpu-1 | kubernetes.nodes gpu-1 = not ready | kubernetes.nodes gpu-1 = cordoned
fabric.sm cluster | kubernetes.topology gpu-1 ? | kubernetes.topology gpu-1 = none
fabric.topology gpu-1/mlx5_2 | kubernetes.topology gpu-2 ? : gpu-1 | kubernetes.topology gpu-2 ? : gpu-3
kubernetes.nodes gpu-1 | kubernetes.gpus gpu-1 | kubernetes.gpus gpu-2
kubernetes.kubelet gpu-1 | kubernetes.gpus gpu-1 | kubernetes.gpus gpu-2
kubernetes.api head | kubernetes.gpus gpu-1 ? | kubernetes.gpus gpu-1
kubernetes.etcd head | kubernetes.gpus gpu-1 | kubernetes.versions cluster
gpu.count gpu-1 = 7 | kubernetes.gpus gpu-1 | kubernetes.gpus gpu-2
gpu.error gpu-1/GPU 3 | kubernetes.gpus gpu-1 | kubernetes.gpus gpu-2
gpu.driver gpu-1 | kubernetes.gpus gpu-1 | kubernetes.gpus gpu-2
kubernetes.releases head/gpu-operator | kubernetes.gpu_pods head/gpu-operator | scheduler.pods head/kai-scheduler
kubernetes.releases head/gpu-operator | kubernetes.gpus gpu-1 | scheduler.releases head/kai-scheduler
kubernetes.gpu_pods head/gpu-operator | kubernetes.gpus gpu-2 | scheduler.pods head/kai-scheduler
kubernetes.nodes gpu-1 | scheduler.rdma gpu-1 | scheduler.rdma gpu-2
scheduler.releases head/network-operator | scheduler.pods head/network-operator | scheduler.pods head/kai-scheduler
scheduler.releases head/network-operator | scheduler.rdma gpu-1 | kubernetes.gpus gpu-1
scheduler.pods head/network-operator | scheduler.rdma gpu-1 | kubernetes.gpus gpu-1
scheduler.releases head/kai-scheduler | scheduler.members head/project team | scheduler.rdma gpu-1
scheduler.pods head/kai-scheduler | scheduler.members head/queue team-train | kubernetes.gpus gpu-1
runai.releases head/runai-cluster | runai.connected cluster | workloads.pods head/jobset
runai.certificate cluster | runai.connected cluster | workloads.pods head/jobset
workloads.releases head/jobset | workloads.pods head/jobset | workloads.pods head/lws
workloads.releases head/csi-driver-nfs | workloads.storage_class cluster | workloads.pods head/jobset
kubernetes.nodes gpu-1 = not ready | workloads.network cluster = 3 | workloads.network cluster = nobody
storage.server head | storage.mount gpu-1/data | storage.scratch gpu-1
storage.server head | base.failed_units head : nfs-ganesha.service | base.failed_units gpu-1 : nfs-ganesha.service
storage.scratch gpu-1 | storage.scratch_size gpu-1 ? | storage.scratch_size gpu-1 ? = 11
storage.scratch gpu-1 | slurm.container_room gpu-1 ? | slurm.container_room gpu-2 ?
observe.exporter gpu-1 | observe.targets gpu-1 | observe.targets gpu-2
observe.exporter gpu-1 | base.failed_units gpu-1 : prometheus-node-exporter.service | base.failed_units gpu-1 : prometheus.service
observe.server head/prometheus | observe.targets cluster ? | observe.targets gpu-1
observe.server head/prometheus | base.failed_units head : prometheus.service | base.failed_units head : prometheus-node-exporter.service
observe.targets gpu-1 | observe.alerts cluster ~ : HostDown | observe.alerts cluster ~ : UnitFailed
kubernetes.api head | limits.cluster cluster | limits.metrics cluster
limits.running head | limits.cluster cluster ? | kubernetes.nodes head
backup.target head | backup.age head | backup.age head-2
backup.target head | base.failed_units head : appliance-backup.service | base.failed_units head : appliance-backup.service, x.service
backup.age head | base.failed_units head : appliance-backup.service | base.failed_units head : appliance-backup.service, x.service
limits.running head | base.failed_units head : appliance-limits.service | base.failed_units head : appliance-limits.service, x.service
kubernetes.api head | mig.on_demand gpu-1 | gpu.mig gpu-1
limits.running head | mig.on_demand cluster ? | mig.on_demand gpu-1
gpu.driver gpu-1 | mig.on_demand gpu-1 | mig.on_demand gpu-2
mig.on_demand gpu-1 | base.failed_units gpu-1 : appliance-mig-demand.service | base.failed_units gpu-1 : x.service
observe.targets gpu-1 | limits.metrics cluster | limits.cluster cluster
observe.server head/prometheus-alertmanager | observe.receivers cluster | observe.targets gpu-1
observe.server head/prometheus-alertmanager | observe.silences cluster ? | observe.silences cluster
observe.receivers cluster | observe.alerts cluster ~ : AlertsUndelivered | observe.alerts cluster ~ : HostDown
base.failed_units gpu-1 | observe.alerts cluster ~ : UnitFailed | observe.alerts cluster ~ : HostDown
"""
"""A cause | what it explains | what it leaves alone. A result: its check, what it is of, then "?" not assessed or "~" warned,
"= value", its kind, and behind " : " what its cause names; without a sign it failed."""
RESULT = re.compile(
    r"(?P<check>\S+) (?P<target>.+?)(?: (?P<status>[?~]))?(?: = (?P<value>.+?)(?: (?P<unit>Xid))?)?"
    r"(?P<few> \(too few GPUs\))?(?: : (?P<names>.+))?"
)


def told(text: str) -> CheckResult:
    """A result as the table writes it."""
    found = RESULT.fullmatch(text)
    assert found, text
    value = found["value"]
    return of(
        found["check"],
        found["target"],
        {"?": UNKNOWN, "~": WARN}.get(found["status"], FAIL),
        *(found["names"].split(", ") if found["names"] else ()),
        value=int(value) if value and value.lstrip("-").isdigit() else value,
        unit=found["unit"] or "",
        kind=Kind.TOO_FEW_GPUS if found["few"] else Kind.OTHER,
    )


CASES = [Case(*map(told, row.split(" | "))) for row in TABLE.strip().splitlines()]
LOST = of("gpu.error", "gpu-1/GPU 3")


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
