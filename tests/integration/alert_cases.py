"""For every alert the fault that raises it and the same without the fault, as series promtool plays back."""

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.alerts import ALERTS

ROOT_FS = 'instance="h",fstype="ext4",mountpoint="/"'
NFS_FS = 'instance="h",fstype="nfs4",mountpoint="/shared"'
GPU = 'instance="h",gpu="3"'
PORT = 'instance="h",device="mlx5_0",port="1"'
OTHER_PORT = 'instance="h",device="mlx5_1",port="1"'
FAILED = 'alertmanager_notifications_failed_total{instance="h",integration="webhook"}'
STEADY = "x400"


@dataclass(frozen=True)
class Case:
    """Series by name and values in promtool's notation, one value a minute; judged ``at`` a minute."""

    alert: str
    fault: dict[str, str]
    good: dict[str, str]
    labels: dict[str, str]
    at: int = 30


CASES = (
    Case(
        "HostDown",
        {'up{job="node",instance="h"}': "1x5 0x40"},
        {'up{job="node",instance="h"}': "1" + STEADY, 'up{job="dcgm",instance="g"}': "1" + STEADY},
        {"instance": "h", "job": "node"},
    ),
    Case(
        "ClusterUnseen",
        {'up{job="kubelet",instance="h"}': "1x5 0x40"},
        {
            'up{job="kubelet",instance="h"}': "1" + STEADY,
            'up{job="kai",instance="queues"}': "0x8 1x400",
        },
        {"instance": "h", "job": "kubelet"},
    ),
    Case(
        "FilesystemFilling",
        {
            f"node_filesystem_avail_bytes{{{ROOT_FS}}}": "400-1x400",
            f"node_filesystem_size_bytes{{{ROOT_FS}}}": "1000" + STEADY,
            f"node_filesystem_readonly{{{ROOT_FS}}}": "0" + STEADY,
        },
        {
            f"node_filesystem_avail_bytes{{{ROOT_FS}}}": "200" + STEADY,
            f"node_filesystem_size_bytes{{{ROOT_FS}}}": "1000" + STEADY,
            f"node_filesystem_readonly{{{ROOT_FS}}}": "0" + STEADY,
        },
        {"instance": "h", "fstype": "ext4", "mountpoint": "/"},
        at=250,
    ),
    Case(
        "FilesystemFull",
        {
            f"node_filesystem_avail_bytes{{{ROOT_FS}}}": "20" + STEADY,
            f"node_filesystem_size_bytes{{{ROOT_FS}}}": "1000" + STEADY,
            f"node_filesystem_readonly{{{ROOT_FS}}}": "0" + STEADY,
        },
        {
            f"node_filesystem_avail_bytes{{{ROOT_FS}}}": "20" + STEADY,
            f"node_filesystem_size_bytes{{{ROOT_FS}}}": "1000" + STEADY,
            f"node_filesystem_readonly{{{ROOT_FS}}}": "1" + STEADY,
        },
        {"instance": "h", "fstype": "ext4", "mountpoint": "/"},
    ),
    Case(
        "InodesGone",
        {
            f"node_filesystem_files_free{{{ROOT_FS}}}": "1" + STEADY,
            f"node_filesystem_files{{{ROOT_FS}}}": "1000" + STEADY,
            f"node_filesystem_readonly{{{ROOT_FS}}}": "0" + STEADY,
        },
        {
            f"node_filesystem_files_free{{{ROOT_FS}}}": "0" + STEADY,
            f"node_filesystem_files{{{ROOT_FS}}}": "0" + STEADY,
            f"node_filesystem_readonly{{{ROOT_FS}}}": "0" + STEADY,
        },
        {"instance": "h", "fstype": "ext4", "mountpoint": "/"},
    ),
    Case(
        "ClockOff",
        {'node_timex_offset_seconds{instance="h"}': "-0.2" + STEADY},
        {'node_timex_offset_seconds{instance="h"}': "0.001" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "UnitFailed",
        {'node_systemd_unit_state{instance="h",name="x.service",state="failed"}': "1" + STEADY},
        {'node_systemd_unit_state{instance="h",name="x.service",state="failed"}': "0" + STEADY},
        {"instance": "h", "name": "x.service", "state": "failed"},
    ),
    Case(
        "MemoryLow",
        {
            'node_memory_MemAvailable_bytes{instance="h"}': "4" + STEADY,
            'node_memory_MemTotal_bytes{instance="h"}': "100" + STEADY,
        },
        {
            'node_memory_MemAvailable_bytes{instance="h"}': "6" + STEADY,
            'node_memory_MemTotal_bytes{instance="h"}': "100" + STEADY,
        },
        {"instance": "h"},
    ),
    Case(
        "ProcessesKilledForMemory",
        {'node_vmstat_oom_kill{instance="h"}': "0x25 1x10"},
        {'node_vmstat_oom_kill{instance="h"}': "7" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "GpuGone",
        {
            'DCGM_FI_DEV_GPU_TEMP{instance="h",gpu="0"}': "40x400",
            'DCGM_FI_DEV_GPU_TEMP{instance="h",gpu="1"}': "40x60 stale",
        },
        {
            'DCGM_FI_DEV_GPU_TEMP{instance="h",gpu="0"}': "40x400",
            'DCGM_FI_DEV_GPU_TEMP{instance="h",gpu="1"}': "40x400",
        },
        {"instance": "h"},
        at=120,
    ),
    Case(
        "GpuXid",
        {f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}}": "0x20 79x20"},
        {
            f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}}": "0" + STEADY,
            'DCGM_FI_DEV_XID_ERRORS{instance="h",gpu="4"}': "31" + STEADY,
        },
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuMemoryErrors",
        {f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}": "0x25 1x10"},
        {f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}": "3" + STEADY},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuRowsWait",
        {f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{GPU}}}": "1" + STEADY},
        {f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{GPU}}}": "0" + STEADY},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuRowsSpent",
        {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}}": "1" + STEADY},
        {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}}": "0" + STEADY},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuHot",
        {f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": "88" + STEADY},
        {f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}}": "80" + STEADY},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuSlowedByHeat",
        {f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU}}}": "0+1000x40"},
        {f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU}}}": "9000" + STEADY},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuPcieReplays",
        {f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{GPU}}}": "0+60x40"},
        {f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{GPU}}}": "0+1x40"},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuNvlinkErrors",
        {f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{{{GPU}}}": "0+20x40"},
        {f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{{{GPU}}}": "50" + STEADY},
        {"instance": "h", "gpu": "3"},
    ),
    Case(
        "GpuMetricsSilent",
        {'up{job="dcgm",instance="h"}': "0" + STEADY},
        {'up{job="dcgm",instance="h"}': "1" + STEADY},
        {"instance": "h", "job": "dcgm"},
    ),
    Case(
        "FabricPortDown",
        {f"node_infiniband_state_id{{{PORT}}}": "1" + STEADY},
        {f"node_infiniband_state_id{{{PORT}}}": "4" + STEADY},
        {"instance": "h", "device": "mlx5_0", "port": "1"},
    ),
    Case(
        "FabricPortSlow",
        {
            f"node_infiniband_state_id{{{PORT}}}": "4" + STEADY,
            f"node_infiniband_state_id{{{OTHER_PORT}}}": "4" + STEADY,
            f"node_infiniband_rate_bytes_per_second{{{PORT}}}": "12500000000" + STEADY,
            f"node_infiniband_rate_bytes_per_second{{{OTHER_PORT}}}": "25000000000" + STEADY,
        },
        {
            f"node_infiniband_state_id{{{PORT}}}": "4" + STEADY,
            f"node_infiniband_state_id{{{OTHER_PORT}}}": "4" + STEADY,
            f"node_infiniband_rate_bytes_per_second{{{PORT}}}": "25000000000" + STEADY,
            f"node_infiniband_rate_bytes_per_second{{{OTHER_PORT}}}": "25000000000" + STEADY,
        },
        {"instance": "h", "device": "mlx5_0", "port": "1"},
    ),
    Case(
        "FabricErrorsGrow",
        {f"node_infiniband_symbol_error_total{{{PORT}}}": "0+5x40"},
        {f"node_infiniband_symbol_error_total{{{PORT}}}": "9000" + STEADY},
        {"instance": "h", "device": "mlx5_0", "port": "1"},
    ),
    Case(
        "FabricLinkFlaps",
        {f"node_infiniband_link_downed_total{{{PORT}}}": "0x10 2x10 4x20"},
        {f"node_infiniband_link_downed_total{{{PORT}}}": "4" + STEADY},
        {"instance": "h", "device": "mlx5_0", "port": "1"},
    ),
    Case(
        "MountBroken",
        {f"node_filesystem_device_error{{{NFS_FS}}}": "1" + STEADY},
        {f"node_filesystem_device_error{{{NFS_FS}}}": "0" + STEADY},
        {"instance": "h", "fstype": "nfs4", "mountpoint": "/shared"},
    ),
    Case(
        "NfsRepeats",
        {'node_nfs_rpc_retransmissions_total{instance="h"}': "0+600x40"},
        {'node_nfs_rpc_retransmissions_total{instance="h"}': "0+6x40"},
        {"instance": "h"},
    ),
    Case(
        "ScratchDegraded",
        {
            'node_md_disks_required{instance="h",device="md0"}': "4" + STEADY,
            'node_md_disks{instance="h",device="md0",state="active"}': "3" + STEADY,
        },
        {
            'node_md_disks_required{instance="h",device="md0"}': "4" + STEADY,
            'node_md_disks{instance="h",device="md0",state="active"}': "4" + STEADY,
        },
        {"instance": "h", "device": "md0"},
    ),
    Case(
        "DiskBusy",
        {'node_disk_io_time_seconds_total{instance="h",device="nvme0n1"}': "0+60x100"},
        {'node_disk_io_time_seconds_total{instance="h",device="nvme0n1"}': "0+30x100"},
        {"instance": "h", "device": "nvme0n1"},
        at=90,
    ),
    Case(
        "SlurmSilent",
        {'slurm_up{instance="h"}': "0" + STEADY},
        {'slurm_up{instance="h"}': "1" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "SlurmAccountingSilent",
        {
            'slurm_up{instance="h"}': "1" + STEADY,
            'slurm_accounting_up{instance="h"}': "0" + STEADY,
        },
        {
            'slurm_up{instance="h"}': "1" + STEADY,
            'slurm_accounting_up{instance="h"}': "1" + STEADY,
        },
        {"instance": "h"},
    ),
    Case(
        "SlurmMetricsOld",
        {'node_textfile_mtime_seconds{instance="h",file="/x/slurm.prom"}': "60" + STEADY},
        {'node_textfile_mtime_seconds{instance="h",file="/x/slurm.prom"}': "0+60x400"},
        {"instance": "h", "file": "/x/slurm.prom"},
    ),
    Case(
        "SlurmNodeLost",
        {'slurm_node_state{instance="h",node="gpu-1",state="down"}': "1" + STEADY},
        {'slurm_node_state{instance="h",node="gpu-1",state="idle"}': "1" + STEADY},
        {"instance": "h", "node": "gpu-1", "state": "down"},
    ),
    Case(
        "SlurmNodeDrained",
        {'slurm_node_state{instance="h",node="gpu-1",state="drained"}': "1" + STEADY},
        {'slurm_node_state{instance="h",node="gpu-1",state="mixed"}': "1" + STEADY},
        {"instance": "h", "node": "gpu-1", "state": "drained"},
        at=90,
    ),
    Case(
        "HostUnfitAndKept",
        {'appliance_watch_kept{instance="g"}': "0x5 1x40"},
        {'appliance_watch_kept{instance="g"}': "0" + STEADY},
        {"instance": "g"},
    ),
    Case(
        "SlurmGpusIdleWhileJobsWait",
        {
            'slurm_partition_oldest_pending_seconds{instance="h",partition="p"}': "4000+60x400",
            'slurm_partition_gpus{instance="h",partition="p"}': "16" + STEADY,
            'slurm_partition_gpus_allocated{instance="h",partition="p"}': "8" + STEADY,
        },
        {
            'slurm_partition_oldest_pending_seconds{instance="h",partition="p"}': "4000+60x400",
            'slurm_partition_gpus{instance="h",partition="p"}': "16" + STEADY,
            'slurm_partition_gpus_allocated{instance="h",partition="p"}': "16" + STEADY,
        },
        {"instance": "h", "partition": "p"},
        at=90,
    ),
    Case(
        "LimitsNotKept",
        {'appliance_limits_success_timestamp_seconds{instance="h"}': "60" + STEADY},
        {'appliance_limits_success_timestamp_seconds{instance="h"}': "0+60" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "LimitsStuck",
        {'appliance_limits_stuck{instance="h"}': "1" + STEADY},
        {'appliance_limits_stuck{instance="h"}': "0" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "LimitsUnknown",
        {
            'appliance_limits_unknown{instance="h",limit="time"}': "0" + STEADY,
            'appliance_limits_unknown{instance="h",limit="idle"}': "2" + STEADY,
        },
        {'appliance_limits_unknown{instance="h",limit="idle"}': "0" + STEADY},
        {"instance": "h"},
        at=90,
    ),
    Case(
        "RulesFail",
        {'prometheus_rule_evaluation_failures_total{instance="h",rule_group="g"}': "0+1x40"},
        {'prometheus_rule_evaluation_failures_total{instance="h",rule_group="g"}': "2" + STEADY},
        {"instance": "h", "rule_group": "g"},
    ),
    Case(
        "PrometheusKeepsOldConfiguration",
        {'prometheus_config_last_reload_successful{instance="h"}': "0" + STEADY},
        {'prometheus_config_last_reload_successful{instance="h"}': "1" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "MetricsOnDiskDamaged",
        {'prometheus_tsdb_wal_corruptions_total{instance="h"}': "0x20 1x20"},
        {'prometheus_tsdb_wal_corruptions_total{instance="h"}': "1" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "MetricFilesUnreadable",
        {'node_textfile_scrape_error{instance="h"}': "1" + STEADY},
        {'node_textfile_scrape_error{instance="h"}': "0" + STEADY},
        {"instance": "h"},
    ),
    Case(
        "AlertsUndelivered",
        {FAILED: "0x10 1x40", 'up{job="alertmanager",instance="h"}': "1" + STEADY},
        {
            FAILED: "3" + STEADY,
            FAILED.replace('"h"', '"gone"'): "0x10 1x40",
            'up{job="alertmanager",instance="gone"}': "1x12",
            'up{job="alertmanager",instance="h"}': "1" + STEADY,
        },
        {"instance": "h", "integration": "webhook"},
        at=15,
    ),
    Case(
        "CheckFailed",
        {
            'appliance_check_status{instance="h",site="s",id="gpu.ecc",target="g",status="fail"}': "1"
            + STEADY
        },
        {
            'appliance_check_status{instance="h",site="s",id="gpu.ecc",target="g",status="warn"}': "1"
            + STEADY
        },
        {"instance": "h", "site": "s", "id": "gpu.ecc", "target": "g", "status": "fail"},
    ),
    Case(
        "ChecksOld",
        {'appliance_checked_timestamp_seconds{instance="h",site="s"}': "-200000" + STEADY},
        {'appliance_checked_timestamp_seconds{instance="h",site="s"}': "0+60x400"},
        {"instance": "h", "site": "s"},
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
