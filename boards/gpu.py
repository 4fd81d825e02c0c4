"""GPUs one by one, from NVIDIA's dcgm-exporter."""

from boards.panel import Board, Needs, Panel, Variable, lines

G = '{instance=~"$host",gpu=~"$gpu"}'
NAME = "{{instance}} GPU {{gpu}}"


def _of(title: str, expr: str, unit: str = "short") -> Panel:
    return lines(title, expr, NAME, unit, Needs.DCGM)


BOARD = Board(
    name="gpu",
    title="GPU",
    purpose="Do the GPUs work, at which clocks, how warm, and with which errors?",
    variables=(
        Variable("host", "Host", "DCGM_FI_DEV_GPU_TEMP", "instance"),
        Variable("gpu", "GPU", 'DCGM_FI_DEV_GPU_TEMP{instance=~"$host"}', "gpu"),
    ),
    panels=(
        _of("Busy", f"DCGM_FI_DEV_GPU_UTIL{G}", "percent"),
        _of("Tensor cores active", f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{G}", "percentunit"),
        _of("Memory in use", f"DCGM_FI_DEV_FB_USED{G}", "decmbytes"),
        _of("Memory bandwidth in use", f"DCGM_FI_PROF_DRAM_ACTIVE{G}", "percentunit"),
        _of("Power", f"DCGM_FI_DEV_POWER_USAGE{G}", "watt"),
        _of("Temperature", f"DCGM_FI_DEV_GPU_TEMP{G}", "celsius"),
        _of("Temperature of the memory", f"DCGM_FI_DEV_MEMORY_TEMP{G}", "celsius"),
        _of("Clock", f"DCGM_FI_DEV_SM_CLOCK{G} * 1000000", "hertz"),
        _of(
            "Time slowed by heat",
            f"rate(DCGM_FI_DEV_THERMAL_VIOLATION{G}[$__rate_interval]) / 1000000",
            "percentunit",
        ),
        _of("NVLink", f"rate(DCGM_FI_PROF_NVLINK_TX_BYTES{G}[$__rate_interval])", "Bps"),
        _of(
            "PCIe transfers repeated",
            f"increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{G}[1h])",
        ),
        _of("Last Xid", f"DCGM_FI_DEV_XID_ERRORS{G}"),
        _of("Memory errors, corrected", f"increase(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{G}[1d])"),
        _of("Memory errors, not corrected", f"increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{G}[1d])"),
        _of("Memory rows replaced", f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{G}"),
    ),
)
