"""Alerts about GPUs, on the metrics of NVIDIA's dcgm-exporter.

Names: https://github.com/NVIDIA/dcgm-exporter/tree/main/etc (fields of the default and the dcp-metrics file). A field the
exporter is not told to export never fires; role gpu tells it all that are used here.
"""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.gpu import ids

WHICH = "{{ $labels.instance }}: GPU {{ $labels.gpu }}"
OF_APPLICATIONS = (13, 31, 43, 45)
"""Xids a program causes by its own errors (NVIDIA's Xid catalogue); its owner sees them, nobody has to get up."""

ALERTS = (
    Alert(
        name="GpuGone",
        area="gpu",
        expr="count by (instance) (DCGM_FI_DEV_GPU_TEMP)"
        " < max_over_time(count by (instance) (DCGM_FI_DEV_GPU_TEMP)[1d:5m])",
        minutes=5,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }} shows fewer GPUs than within the last day: {{ $value }}",
        remedy="nvidia-smi -L and journalctl -k -g 'NVRM|Xid' there; drain the host, power it off and on.",
        check=ids.COUNT,
    ),
    Alert(
        name="GpuXid",
        area="gpu",
        expr="DCGM_FI_DEV_XID_ERRORS != 0 " + " ".join(f"!= {code}" for code in OF_APPLICATIONS),
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH + " reported Xid {{ $value }}",
        remedy="appliance health --check gpu.xid says what the code means and whether to reset or reboot. The value "
        "stays until dcgm-exporter is restarted.",
        check=ids.XID,
    ),
    Alert(
        name="GpuMemoryErrors",
        area="gpu",
        expr="increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h]) > 0",
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH + " had memory errors it could not correct",
        remedy="Drain the host, reset the GPU (nvidia-smi -r -i {{ $labels.gpu }}), then appliance health --check gpu.",
        check=ids.ECC,
    ),
    Alert(
        name="GpuRowsWait",
        area="gpu",
        expr="DCGM_FI_DEV_ROW_REMAP_PENDING == 1",
        minutes=10,
        severity=Severity.WARNING,
        summary=WHICH + " waits for a reset to replace a memory row",
        remedy="Drain the host when its jobs have ended and reset the GPU: nvidia-smi -r -i {{ $labels.gpu }}",
        check=ids.REMAP,
    ),
    Alert(
        name="GpuRowsSpent",
        area="gpu",
        expr="DCGM_FI_DEV_ROW_REMAP_FAILURE == 1",
        minutes=0,
        severity=Severity.CRITICAL,
        summary=WHICH + " has no spare memory row left",
        remedy="Drain the host and have the GPU replaced.",
        check=ids.REMAP,
    ),
    Alert(
        name="GpuHot",
        area="gpu",
        expr="DCGM_FI_DEV_GPU_TEMP > 85",
        minutes=5,
        severity=Severity.WARNING,
        summary=WHICH + " is at {{ $value }} °C",
        remedy="Look at fans, filters and blanking plates; appliance health --check gpu.temperature knows the GPU's own "
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
        remedy="appliance health --check gpu.clocks names the reason; look at fans and the air in front of the rack.",
        check=ids.CLOCKS,
    ),
    Alert(
        name="GpuPcieReplays",
        area="gpu",
        expr="rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[10m]) > 0.1",
        minutes=10,
        severity=Severity.WARNING,
        summary=WHICH + " repeats PCIe transfers",
        remedy="appliance health --check gpu.pcie; reseat the board or riser in the next maintenance.",
        check=ids.PCIE,
    ),
    Alert(
        name="GpuNvlinkErrors",
        area="gpu",
        expr="increase(DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL[1h]) > 100",
        minutes=0,
        severity=Severity.WARNING,
        summary=WHICH + " counts errors on its NVLinks",
        remedy="nvidia-smi nvlink -e there names the link; reseat the bridge or the board.",
        check=ids.NVLINK,
    ),
    Alert(
        name="GpuMetricsSilent",
        area="gpu",
        expr='up{job="dcgm"} == 0',
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: dcgm-exporter does not answer, its GPUs are not watched",
        remedy="systemctl status nvidia-dcgm-exporter there; a driver that hangs makes it hang.",
        check=ids.DRIVER,
    ),
)
