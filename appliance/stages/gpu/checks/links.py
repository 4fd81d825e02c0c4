"""Checks width and rate of the GPUs' links: PCIe to the host, NVLink between GPUs."""

from collections.abc import Iterable

from appliance.checks.check import View, not_assessed
from appliance.models.facts import HostFacts
from appliance.models.profile import GpuExpectation, Interconnect
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.gpu import ids
from appliance.stages.gpu.checks.each import (
    GpuResult,
    bad,
    devices,
    doubtful,
    each,
    good,
    is_simulated,
    part_of,
    unknown,
)
from appliance.stages.gpu.facts import Gpu
from appliance.text import plural

BUSY_PERCENT = 10
"""Percent from which a GPU counts as busy and its link must run at full speed."""
REPLAYS = 80
REPLAYS_SOURCE = "NVIDIA DCGM, pcie plugin: at most 80 replays"
IDLE = 0x1
"""NVML clock event reason: nothing runs."""
DIVIDED = "NVLinks of A100 are off while it is divided (MIG), and no instance uses any"


def judge_pcie(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge the PCIe link: width always; generation if the GPU is busy, or if its maximum is too low."""
    expected = view.profile.hardware.gpu
    limit = f"Gen{expected.pcie_generation} x{expected.pcie_width}"
    source = f"profile {view.profile.name}"

    def judge(gpu: Gpu) -> GpuResult:
        if gpu.pcie_width is None or gpu.pcie_max_width is None:
            return unknown("the width of its PCIe link was not read")
        if gpu.pcie_generation is None or gpu.pcie_max_generation is None:
            return unknown("the generation of its PCIe link was not read")
        value = f"Gen{gpu.pcie_generation} x{gpu.pcie_width}"
        if complaint := _width(gpu, expected) or _generation(gpu, expected):
            return bad(value, *complaint, limit, source)
        if gpu.pcie_generation < expected.pcie_generation and not _is_load_known(gpu):
            cause = (
                f"{value}, and the driver does not report its load: the link of an idle GPU is slow"
            )
            return unknown(cause, required=not gpu.mig_enabled)
        if gpu.pcie_replays is not None and gpu.pcie_replays > REPLAYS:
            cause = f"{plural(gpu.pcie_replays, 'transfer')} over PCIe had to be repeated since the driver was loaded"
            return doubtful(gpu.pcie_replays, cause, _reseat(gpu), REPLAYS, REPLAYS_SOURCE)
        return good(value + _resting(gpu, expected), limit, source)

    return each(host, facts, judge)


def _width(gpu: Gpu, expected: GpuExpectation) -> tuple[str, str] | None:
    wanted = expected.pcie_width
    if gpu.pcie_max_width is not None and gpu.pcie_max_width < wanted:
        cause = f"its slot allows x{gpu.pcie_max_width}, the class has x{wanted}"
        return (
            cause,
            "move it to a slot of full width; check for bifurcation in the firmware's setup",
        )
    if gpu.pcie_width is not None and gpu.pcie_width < wanted:
        return f"it runs at x{gpu.pcie_width}, its maximum is x{gpu.pcie_max_width}", _reseat(gpu)
    return None


def _generation(gpu: Gpu, expected: GpuExpectation) -> tuple[str, str] | None:
    wanted, best, now = expected.pcie_generation, gpu.pcie_max_generation, gpu.pcie_generation
    if best is not None and best < wanted:
        itself = gpu.pcie_gpu_generation
        if itself is not None and itself <= best:
            cause = f"the GPU allows Gen{best} at most, the class has Gen{wanted}"
            return cause, "no slot changes that: choose the profile of this hardware (gpu.model)"
        cause = f"its slot allows Gen{best} at most, the class has Gen{wanted}"
        return (
            cause,
            "set the slot's link speed to Auto in the firmware's setup, or use another slot or riser",
        )
    if now is not None and now < wanted and (gpu.utilization or 0) >= BUSY_PERCENT:
        cause = (
            f"it runs at Gen{now} under load ({gpu.utilization} % busy), the class has Gen{wanted}"
        )
        return cause, _reseat(gpu)
    return None


def _resting(gpu: Gpu, expected: GpuExpectation) -> str:
    """Return whether the GPU is idle: it lowers its link's generation then."""
    if (gpu.pcie_generation or 0) >= expected.pcie_generation:
        return ""
    return f" (idle; Gen{gpu.pcie_max_generation} at most)"


def _is_load_known(gpu: Gpu) -> bool:
    """Return whether the load is known: a divided GPU reports no utilization, but its clock event reasons may show that it is idle."""
    return gpu.utilization is not None or bool((gpu.clock_event_reasons or 0) & IDLE)


def _reseat(gpu: Gpu) -> str:
    serial = f", serial {gpu.serial}" if gpu.serial else ""
    return f"reseat GPU {gpu.index} ({gpu.bus_id}{serial}) and its riser; then appliance health --check gpu.pcie"


def judge_nvlink(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if, behind NVSwitch, every link of every GPU is up at full speed."""
    if view.profile.hardware.gpu.interconnect is not Interconnect.NVSWITCH:
        return []
    own = view.number(ids.NVLINK)

    def judge(gpu: Gpu) -> GpuResult:
        part = part_of(gpu)
        wanted = int(own[0]) if own else part.nvlinks if part else None
        source = own[1] if own else part.cite if part else ""
        if wanted is None:
            return unknown(
                f"how many NVLinks {gpu.name} has is not known: set the limit gpu.nvlink"
            )
        if gpu.mig_enabled and (gpu.nvlinks_active or 0) < wanted:
            return unknown(DIVIDED, required=False)
        if gpu.nvlinks_active is None:
            return unknown("the driver does not report the state of its NVLinks")
        if gpu.nvlinks_active < wanted:
            return _links_down(gpu, gpu.nvlinks_active, wanted, source)
        if (
            part
            and part.nvlink_speed
            and (gpu.nvlink_speed or part.nvlink_speed) < part.nvlink_speed
        ):
            return _slow(gpu, part.nvlink_speed, part.cite)
        return good(gpu.nvlinks_active, wanted, source)

    return [
        *each(host, facts, judge, "links"),
        *_speed_unknown(host, facts),
    ]


def _links_down(gpu: Gpu, active: int, wanted: int, source: str) -> GpuResult:
    cause = f"{wanted - active} of {wanted} NVLinks are down"
    fix = (
        f"nvidia-smi nvlink -s -i {gpu.index} lists them; restart nvidia-fabricmanager and reset all GPUs; "
        "if links stay down, replace the GPU"
    )
    return bad(active, cause, fix, wanted, source)


def _slow(gpu: Gpu, wanted: int, source: str) -> GpuResult:
    cause = f"its NVLinks run at {gpu.nvlink_speed} of {wanted} MB/s each"
    fix = "reset all GPUs of the host; if it stays slow, run the vendor's diagnostics (dcgmi diag -r 3)"
    return bad(gpu.nvlink_speed, cause, fix, wanted, source)


def _speed_unknown(host: Host, facts: HostFacts) -> list[Judgement]:
    """Return the result for a missing speed, which the simulated library may not report."""
    answering = (gpu for gpu in devices(facts) if gpu.bus_id)
    if all(gpu.nvlink_speed is not None or not gpu.nvlinks_active for gpu in answering):
        return []
    simulated = is_simulated(facts)
    return [
        not_assessed(
            place(host.name, "NVLink speed"),
            "the driver does not report the speed of its NVLinks",
            required=not simulated,
            simulated=simulated,
        )
    ]
