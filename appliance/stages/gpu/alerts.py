"""Alerts about GPUs, on the metrics of NVIDIA's dcgm-exporter.

Names: https://github.com/NVIDIA/dcgm-exporter/tree/main/etc (fields of the default and the dcp-metrics file). An alert on a
field that the exporter does not export never fires; role gpu configures all fields that are used here.
"""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.gpu import ids
from appliance.stages.gpu.xid_map import xid_map

WHICH = "{{ $labels.instance }}: GPU {{ $labels.gpu }}"
NO_FAILURE = " ".join(f"!= {code}" for code in xid_map().harmless)
"""Xids that do not indicate a GPU failure according to the map: errors of programs, notes, and those with nonfatal variants."""

ALERTS = (
    Alert(
        name="GpuGone",
        area="gpu",
        expr="count by (instance) (DCGM_FI_DEV_GPU_TEMP)"
        " < max_over_time(count by (instance) (DCGM_FI_DEV_GPU_TEMP)[1d:5m])",
        minutes=5,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }} has fewer GPUs than within the last day: {{ $value }}",
        remedy="nvidia-smi -L and journalctl -k -g 'NVRM|Xid' there; drain the host and power-cycle it.",
        check=ids.COUNT,
    ),
    Alert(
        name="GpuXid",
        area="gpu",
        expr="max without (scheduler) (appliance_watch_xid) == 1",
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH + " reported Xid {{ $labels.code }}",
        remedy="appliance health --check gpu.xid explains the code and recommends a reset or a reboot. The alert "
        "ends when the message is older than the limit gpu.xid (24 h), or when the host restarts.",
        check=ids.XID,
    ),
    Alert(
        name="GpuXidUnwatched",
        area="gpu",
        # One missed scrape of the node exporter is no absent watch.
        expr=f"(DCGM_FI_DEV_XID_ERRORS != 0 {NO_FAILURE})"
        " unless on (instance) last_over_time(appliance_watch_unfit[10m])",
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH
        + " reported Xid {{ $value }}; without appliance-watch on the host, only the last code is known",
        remedy="appliance health --check gpu.xid shows the kernel log and recommends a reset or a reboot. The value "
        "stays until dcgm-exporter is restarted.",
        check=ids.XID,
    ),
    Alert(
        name="GpuMemoryErrors",
        area="gpu",
        expr="increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h]) > 0",
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH + " had uncorrectable memory errors",
        remedy="Drain the host, reset the GPU (nvidia-smi -r -i {{ $labels.gpu }}), then appliance health --check gpu.",
        check=ids.ECC,
    ),
    Alert(
        name="GpuRowsWait",
        area="gpu",
        expr="DCGM_FI_DEV_ROW_REMAP_PENDING == 1",
        minutes=10,
        severity=Severity.WARNING,
        summary=WHICH + " needs a reset to remap a memory row",
        remedy="Drain the host, wait for its jobs, and reset the GPU: nvidia-smi -r -i {{ $labels.gpu }}",
        check=ids.REMAP,
    ),
    Alert(
        name="GpuRowsSpent",
        area="gpu",
        expr="DCGM_FI_DEV_ROW_REMAP_FAILURE == 1",
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH + " has no spare memory row left",
        remedy="Drain the host and replace the GPU.",
        check=ids.REMAP,
    ),
    Alert(
        name="GpuHot",
        area="gpu",
        expr="DCGM_FI_DEV_GPU_TEMP > 85",
        minutes=5,
        severity=Severity.WARNING,
        summary=WHICH + " is at {{ $value }} °C",
        remedy="Check fans, filters and blanking plates; appliance health --check gpu.temperature knows the GPU's own "
        "limit.",
        check=ids.TEMPERATURE,
    ),
    Alert(
        name="GpuSlowedByHeat",
        area="gpu",
        expr="rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m]) > 0",
        minutes=5,
        severity=Severity.CRITICAL,
        summary=WHICH + " slows down because of heat",
        remedy="appliance health --check gpu.clocks shows the reason; check fans and the air in front of the rack.",
        check=ids.CLOCKS,
    ),
    Alert(
        name="GpuStalled",
        area="gpu",
        # A kernel of NCCL that waits for another rank keeps a GPU busy, and moves next to nothing in its memory.
        expr="min_over_time(DCGM_FI_DEV_GPU_UTIL[10m]) > 95"
        " and max_over_time(DCGM_FI_PROF_DRAM_ACTIVE[10m]) < 0.05"
        " and max_over_time(DCGM_FI_DEV_POWER_USAGE[10m])"
        " < 0.4 * max_over_time(DCGM_FI_DEV_POWER_USAGE[1d:5m])",
        minutes=20,
        severity=Severity.WARNING,
        summary=WHICH
        + " has been busy for half an hour, with idle memory and little power: its job seems to wait",
        remedy="appliance health --check gpu shows whether a GPU of the job failed. Its owner looks at the last output and at the "
        "stacks of all ranks (py-spy dump), and ends the job if it waits for a lost rank.",
        check=ids.POWER,
    ),
    Alert(
        name="GpuPcieReplays",
        area="gpu",
        expr="rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[10m]) > 0.1",
        minutes=10,
        severity=Severity.WARNING,
        summary=WHICH + " repeats PCIe transfers",
        remedy="appliance health --check gpu.pcie; reseat the board or riser at the next maintenance.",
        check=ids.PCIE,
    ),
    Alert(
        name="GpuNvlinkErrors",
        area="gpu",
        expr="increase(DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL[1h]) > 100",
        minutes=0,
        severity=Severity.WARNING,
        summary=WHICH + " has errors on its NVLinks",
        remedy="nvidia-smi nvlink -e there names the link; reseat the bridge or the board.",
        check=ids.NVLINK,
    ),
    Alert(
        name="GpuMetricsSilent",
        area="gpu",
        expr='up{job="dcgm"} == 0',
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: dcgm-exporter does not answer; its GPUs are not monitored",
        remedy="systemctl status nvidia-dcgm-exporter there; a hung driver makes it hang.",
        check=ids.DRIVER,
    ),
)
