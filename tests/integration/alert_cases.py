"""For every alert the fault that raises it and the same without the fault, as series promtool plays back."""

from collections.abc import Iterable

from appliance.alerts import ALERTS

ROOT_FS = 'instance="h",fstype="ext4",mountpoint="/"'
NFS_FS = 'instance="h",fstype="nfs4",mountpoint="/shared"'
GPU = 'instance="h",gpu="3"'
PORT = 'instance="h",device="mlx5_0",port="1"'
OTHER_PORT = 'instance="h",device="mlx5_1",port="1"'
ETCD = 'job="etcd",instance="h"'
REFUSED = f'grpc_server_handled_total{{{ETCD},grpc_method="Txn",grpc_service="etcdserverpb.KV"'
FAILED = 'alertmanager_notifications_failed_total{instance="h",integration="webhook"}'
STEADY = "x400"


Series = tuple[str, str | None] | tuple[str, str | None, str | None]
"""Its name, its values with the fault and, where they are others, those without it; None: it is not there."""


class Case:
    """Series in promtool's notation, one value a minute, judged ``at`` a minute; ``labels`` of the alert."""

    def __init__(self, alert: str, labels: dict[str, str], *series: Series, at: int = 30) -> None:
        self.alert, self.labels, self.at = alert, labels, at
        self.fault = {name: values[0] for name, *values in series if values[0] is not None}
        self.good = {name: values[-1] for name, *values in series if values[-1] is not None}


CASES = (
    Case(
        "HostDown",
        {"instance": "h", "job": "node"},
        ('up{job="node",instance="h"}', "1x5 0x40", "1" + STEADY),
        ('up{job="dcgm",instance="g"}', None, "1" + STEADY),
    ),
    Case(
        "ClusterUnseen",
        {"instance": "h", "job": "kubelet"},
        ('up{job="kubelet",instance="h"}', "1x5 0x40", "1" + STEADY),
        ('up{job="kai",instance="queues"}', None, "0x8 1x400"),
    ),
    Case(
        "EtcdFilling",
        {"instance": "h", "job": "etcd"},
        (f"etcd_mvcc_db_total_size_in_bytes{{{ETCD}}}", "81" + STEADY, "79" + STEADY),
        (f"etcd_server_quota_backend_bytes{{{ETCD}}}", "100" + STEADY),
    ),
    Case(
        "EtcdRefusesChanges",
        {"instance": "h", "grpc_code": "ResourceExhausted"},
        (f'{REFUSED},grpc_code="ResourceExhausted"}}', "0+6x400", "7" + STEADY),
        (f'{REFUSED},grpc_code="OK"}}', "0+60x400"),
    ),
    Case(
        "FilesystemFilling",
        {"instance": "h", "fstype": "ext4", "mountpoint": "/"},
        (f"node_filesystem_avail_bytes{{{ROOT_FS}}}", "400-1x400", "200" + STEADY),
        (f"node_filesystem_size_bytes{{{ROOT_FS}}}", "1000" + STEADY),
        (f"node_filesystem_readonly{{{ROOT_FS}}}", "0" + STEADY),
        at=250,
    ),
    Case(
        "FilesystemFull",
        {"instance": "h", "fstype": "ext4", "mountpoint": "/"},
        (f"node_filesystem_avail_bytes{{{ROOT_FS}}}", "20" + STEADY),
        (f"node_filesystem_size_bytes{{{ROOT_FS}}}", "1000" + STEADY),
        (f"node_filesystem_readonly{{{ROOT_FS}}}", "0" + STEADY, "1" + STEADY),
    ),
    Case(
        "InodesGone",
        {"instance": "h", "fstype": "ext4", "mountpoint": "/"},
        (f"node_filesystem_files_free{{{ROOT_FS}}}", "1" + STEADY, "0" + STEADY),
        (f"node_filesystem_files{{{ROOT_FS}}}", "1000" + STEADY, "0" + STEADY),
        (f"node_filesystem_readonly{{{ROOT_FS}}}", "0" + STEADY),
    ),
    Case(
        "ClockOff",
        {"instance": "h"},
        ('node_timex_offset_seconds{instance="h"}', "-0.2" + STEADY, "0.001" + STEADY),
    ),
    Case(
        "UnitFailed",
        {"instance": "h", "name": "x.service", "state": "failed"},
        (
            'node_systemd_unit_state{instance="h",name="x.service",state="failed"}',
            "1" + STEADY,
            "0" + STEADY,
        ),
        (
            'node_systemd_unit_state{instance="h",name="user@2001.service",state="failed"}',
            "1" + STEADY,
        ),
    ),
    Case(
        "MemoryErrorsUncorrected",
        {"instance": "h", "controller": "0"},
        (
            'node_edac_uncorrectable_errors_total{instance="h",controller="0"}',
            "0x10 1x400",
            "0" + STEADY,
        ),
    ),
    Case(
        "MemoryErrorsCorrected",
        {"instance": "h", "controller": "0"},
        (
            'node_edac_correctable_errors_total{instance="h",controller="0"}',
            "0x10 50x400",
            "3" + STEADY,
        ),
    ),
    Case(
        "MemoryLow",
        {"instance": "h"},
        ('node_memory_MemAvailable_bytes{instance="h"}', "4" + STEADY, "6" + STEADY),
        ('node_memory_MemTotal_bytes{instance="h"}', "100" + STEADY),
    ),
    Case(
        "ProcessesKilledForMemory",
        {"instance": "h"},
        ('node_vmstat_oom_kill{instance="h"}', "0x25 1x10", "7" + STEADY),
    ),
    Case(
        "GpuGone",
        {"instance": "h"},
        ('DCGM_FI_DEV_GPU_TEMP{instance="h",gpu="0"}', "40x400"),
        ('DCGM_FI_DEV_GPU_TEMP{instance="h",gpu="1"}', "40x60 stale", "40x400"),
        at=120,
    ),
    Case(
        "GpuXid",
        {"instance": "h", "gpu": "3", "code": "79"},
        (
            'appliance_watch_xid{instance="h",gpu="3",code="79",scheduler="slurm"}',
            "1" + STEADY,
            None,
        ),
        (
            'appliance_watch_xid{instance="h",gpu="3",code="79",scheduler="kubernetes"}',
            "1" + STEADY,
            None,
        ),
        (f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}}", "45" + STEADY, "45" + STEADY),
    ),
    Case(
        "GpuXidUnwatched",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}}", "0x20 79x20", "0" + STEADY),
        ('DCGM_FI_DEV_XID_ERRORS{instance="h",gpu="4"}', None, "31" + STEADY),
        ('DCGM_FI_DEV_XID_ERRORS{instance="i",gpu="4"}', None, "79" + STEADY),
        ('appliance_watch_unfit{instance="i"}', None, "0x24 _x40"),
    ),
    Case(
        "GpuMemoryErrors",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}", "0x25 1x10", "3" + STEADY),
    ),
    Case(
        "GpuRowsWait",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{GPU}}}", "1" + STEADY, "0" + STEADY),
    ),
    Case(
        "GpuRowsSpent",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}}", "1" + STEADY, "0" + STEADY),
    ),
    Case(
        "GpuHot",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}", "88" + STEADY, "80" + STEADY),
    ),
    Case(
        "GpuSlowedByHeat",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU}}}", "0+1000x40", "9000" + STEADY),
    ),
    Case(
        "GpuStalled",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}", "100" + STEADY),
        (f"DCGM_FI_PROF_DRAM_ACTIVE{{{GPU}}}", "0.6x60 0.01x340", "0.01" + STEADY),
        (f"DCGM_FI_DEV_POWER_USAGE{{{GPU}}}", "650x60 140x340", "650" + STEADY),
        at=120,
    ),
    Case(
        "GpuPcieReplays",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{GPU}}}", "0+60x40", "0+1x40"),
    ),
    Case(
        "GpuNvlinkErrors",
        {"instance": "h", "gpu": "3"},
        (f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{{{GPU}}}", "0+20x40", "50" + STEADY),
    ),
    Case(
        "GpuMetricsSilent",
        {"instance": "h", "job": "dcgm"},
        ('up{job="dcgm",instance="h"}', "0" + STEADY, "1" + STEADY),
    ),
    Case(
        "FabricPortDown",
        {"instance": "h", "device": "mlx5_0", "port": "1"},
        (f"node_infiniband_state_id{{{PORT}}}", "1" + STEADY, "4" + STEADY),
    ),
    Case(
        "FabricPortSlow",
        {"instance": "h", "device": "mlx5_0", "port": "1"},
        (f"node_infiniband_state_id{{{PORT}}}", "4" + STEADY),
        (f"node_infiniband_state_id{{{OTHER_PORT}}}", "4" + STEADY),
        (
            f"node_infiniband_rate_bytes_per_second{{{PORT}}}",
            "12500000000" + STEADY,
            "25000000000" + STEADY,
        ),
        (f"node_infiniband_rate_bytes_per_second{{{OTHER_PORT}}}", "25000000000" + STEADY),
    ),
    Case(
        "FabricErrorsGrow",
        {"instance": "h", "device": "mlx5_0", "port": "1"},
        (f"node_infiniband_symbol_error_total{{{PORT}}}", "0+5x40", "9000" + STEADY),
    ),
    Case(
        "FabricLinkFlaps",
        {"instance": "h", "device": "mlx5_0", "port": "1"},
        (f"node_infiniband_link_downed_total{{{PORT}}}", "0x10 2x10 4x20", "4" + STEADY),
    ),
    Case(
        "MountBroken",
        {"instance": "h", "fstype": "nfs4", "mountpoint": "/shared"},
        (f"node_filesystem_device_error{{{NFS_FS}}}", "1" + STEADY, "0" + STEADY),
    ),
    Case(
        "NfsRepeats",
        {"instance": "h"},
        ('node_nfs_rpc_retransmissions_total{instance="h"}', "0+600x40", "0+6x40"),
    ),
    Case(
        "ScratchDegraded",
        {"instance": "h", "device": "md0"},
        ('node_md_disks_required{instance="h",device="md0"}', "4" + STEADY),
        ('node_md_disks{instance="h",device="md0",state="active"}', "3" + STEADY, "4" + STEADY),
    ),
    Case(
        "DiskBusy",
        {"instance": "h", "device": "nvme0n1"},
        ('node_disk_io_time_seconds_total{instance="h",device="nvme0n1"}', "0+60x100", "0+30x100"),
        at=90,
    ),
    Case(
        "SlurmSilent",
        {"instance": "h"},
        ('slurm_up{instance="h"}', "0" + STEADY, "1" + STEADY),
    ),
    # Slurm has left the host, and its last sample is still the newest.
    Case(
        "SlurmSilent",
        {"instance": "h"},
        ('slurm_up{instance="h"}', "0" + STEADY, "0x20 _x400"),
        at=24,
    ),
    Case(
        "SlurmAccountingSilent",
        {"instance": "h"},
        ('slurm_up{instance="h"}', "1" + STEADY),
        ('slurm_accounting_up{instance="h"}', "0" + STEADY, "1" + STEADY),
    ),
    Case(
        "SlurmMetricsOld",
        {"instance": "h", "file": "/x/slurm.prom"},
        (
            'node_textfile_mtime_seconds{instance="h",file="/x/slurm.prom"}',
            "60" + STEADY,
            "0+60x400",
        ),
    ),
    Case(
        "SlurmNodeLost",
        {"instance": "h", "node": "gpu-1", "state": "down"},
        ('slurm_node_state{instance="h",node="gpu-1",state="down"}', "1" + STEADY, None),
        ('slurm_node_state{instance="h",node="gpu-1",state="idle"}', None, "1" + STEADY),
    ),
    Case(
        "SlurmNodeDrained",
        {"instance": "h", "node": "gpu-1", "state": "drained"},
        ('slurm_node_state{instance="h",node="gpu-1",state="drained"}', "1" + STEADY, None),
        ('slurm_node_state{instance="h",node="gpu-1",state="mixed"}', None, "1" + STEADY),
        at=90,
    ),
    Case(
        "HostUnfitAndKept",
        {"instance": "g"},
        ('appliance_watch_kept{instance="g"}', "0x5 1x40", "0" + STEADY),
        ('appliance_watch_kept{instance="g",scheduler="kubernetes"}', None, "1" + STEADY),
    ),
    Case(
        "NodeUnfitAndKept",
        {"instance": "g", "scheduler": "kubernetes"},
        ('appliance_watch_kept{instance="g",scheduler="kubernetes"}', "0x5 1x40", "0" + STEADY),
        ('appliance_watch_kept{instance="g",scheduler="slurm"}', None, "1" + STEADY),
    ),
    Case(
        "SlurmGpusIdleWhileJobsWait",
        {"instance": "h", "partition": "p"},
        ('slurm_partition_oldest_pending_seconds{instance="h",partition="p"}', "4000+60x400"),
        ('slurm_partition_gpus{instance="h",partition="p"}', "16" + STEADY),
        ('slurm_partition_gpus_allocated{instance="h",partition="p"}', "8" + STEADY, "16" + STEADY),
        at=90,
    ),
    Case(
        "LimitsNotKept",
        {"instance": "h"},
        (
            'appliance_limits_success_timestamp_seconds{instance="h"}',
            "60" + STEADY,
            "0+60" + STEADY,
        ),
    ),
    Case(
        "LimitsStuck",
        {"instance": "h"},
        ('appliance_limits_stuck{instance="h"}', "1" + STEADY, "0" + STEADY),
    ),
    Case(
        "LimitsUnknown",
        {"instance": "h"},
        ('appliance_limits_unknown{instance="h",limit="time"}', "0" + STEADY, None),
        ('appliance_limits_unknown{instance="h",limit="idle"}', "2" + STEADY, "0" + STEADY),
        at=90,
    ),
    Case(
        "RulesFail",
        {"instance": "h", "rule_group": "g"},
        (
            'prometheus_rule_evaluation_failures_total{instance="h",rule_group="g"}',
            "0+1x40",
            "2" + STEADY,
        ),
    ),
    Case(
        "PrometheusKeepsOldConfiguration",
        {"instance": "h"},
        ('prometheus_config_last_reload_successful{instance="h"}', "0" + STEADY, "1" + STEADY),
    ),
    Case(
        "MetricsOnDiskDamaged",
        {"instance": "h"},
        ('prometheus_tsdb_wal_corruptions_total{instance="h"}', "0x20 1x20", "1" + STEADY),
    ),
    Case(
        "MetricFilesUnreadable",
        {"instance": "h"},
        ('node_textfile_scrape_error{instance="h"}', "1" + STEADY, "0" + STEADY),
    ),
    Case(
        "AlertsUndelivered",
        {"instance": "h", "integration": "webhook"},
        (FAILED, "0x10 1x40", "3" + STEADY),
        ('up{job="alertmanager",instance="h"}', "1" + STEADY),
        (FAILED.replace('"h"', '"gone"'), None, "0x10 1x40"),
        ('up{job="alertmanager",instance="gone"}', None, "1x12"),
        at=15,
    ),
    Case(
        "CheckFailed",
        {"instance": "h", "site": "s", "id": "gpu.ecc", "target": "g", "status": "fail"},
        (
            'appliance_check_status{instance="h",site="s",id="gpu.ecc",target="g",status="fail"}',
            "1" + STEADY,
            None,
        ),
        (
            'appliance_check_status{instance="h",site="s",id="gpu.ecc",target="g",status="warn"}',
            None,
            "1" + STEADY,
        ),
    ),
    Case(
        "ChecksOld",
        {"instance": "h", "site": "s"},
        (
            'appliance_checked_timestamp_seconds{instance="h",site="s"}',
            "-200000" + STEADY,
            "0+60x400",
        ),
    ),
)


def promtool_tests(rules: str, cases: Iterable[Case] = CASES) -> dict[str, object]:
    """The document ``promtool test rules`` reads; each case twice: raised by the fault, silent without it."""
    severities = {alert.name: alert for alert in ALERTS}
    tests: list[dict[str, object]] = []
    for case in cases:
        alert = severities[case.alert]
        own = {
            "__name__": "ALERTS",
            "alertname": case.alert,
            "alertstate": "firing",
            "severity": str(alert.severity),
            "area": alert.area,
        }
        tests.append(_test(case, case.fault, [{"labels": _text(own | case.labels), "value": 1}]))
        tests.append(_test(case, case.good, []))
    return {"rule_files": [rules], "evaluation_interval": "1m", "tests": tests}


def _test(
    case: Case, series: dict[str, str], expected: list[dict[str, object]]
) -> dict[str, object]:
    return {
        "interval": "1m",
        "name": f"{case.alert} {'with' if expected else 'without'} its fault",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}',
                "eval_time": f"{case.at}m",
                "exp_samples": expected,
            }
        ],
    }


def _text(labels: dict[str, str]) -> str:
    told = ",".join(f'{key}="{value}"' for key, value in labels.items() if key != "__name__")
    return f"ALERTS{{{told}}}"
