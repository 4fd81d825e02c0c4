"""Are the GPUs what the class says, whole, linked, cool, and served by the right software."""

from appliance.checks.causes import UNASKED, Cause, Effect, Reach, both, is_unknown, no_value, on
from appliance.checks.check import GPU_HOSTS, Check, ClusterCheck, HostCheck, Nature
from appliance.models.bound import Bound
from appliance.stages.base import ids as base_ids
from appliance.stages.gpu import ids
from appliance.stages.gpu.causes import (
    counted_at_address,
    logs_the_loss,
    named_by,
    slowed_by_heat,
)
from appliance.stages.gpu.checks.condition import judge_clocks, judge_power, judge_temperature
from appliance.stages.gpu.checks.inventory import (
    judge_count,
    judge_error,
    judge_memory,
    judge_model,
)
from appliance.stages.gpu.checks.links import judge_nvlink, judge_pcie
from appliance.stages.gpu.checks.memory import judge_ecc, judge_remap
from appliance.stages.gpu.checks.software import (
    UNITS,
    judge_driver,
    judge_driver_spread,
    judge_fabric_manager,
    judge_persistence,
    judge_services,
    judge_vbios_spread,
)
from appliance.stages.gpu.checks.xid import VERDICTS, judge_xid

__all__ = ["CHECKS", "UNITS"]

CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.COUNT,
        title="All GPUs are there",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_count,
        limit="hosts[].gpus of the site, else hardware.gpu.count of the profile",
        explain="NVIDIA GPUs on the PCI bus and those the driver answers for. One that is on the bus only has fallen off: "
        "power, heat or a bad contact. One that is on neither did not come up with the board. The other hosts tell where it belongs.",
        causes=(
            Cause(
                ids.ERROR,
                "the GPU that is missing from the count is the one that does not answer",
                when=counted_at_address,
            ),
            Cause(base_ids.PCIE_ERRORS, "the GPU's PCIe link was lost", Reach.PART),
        ),
    ),
    HostCheck(
        id=ids.MODEL,
        title="GPUs of the class",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_model,
        limit="hardware.gpu.models of the profile",
        explain="Product names as NVML gives them. Usual faults: the wrong profile, a host of another order, a replaced board "
        "of another kind.",
    ),
    HostCheck(
        id=ids.MEMORY,
        title="Memory of the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_memory,
        limit="hardware.gpu.memory_gib of the profile, taken as billions of bytes (80 GB on the label is 81,559 MiB on some boards)",
        explain="Memory of each GPU in NVML. Too little is another product, or a board that shut a bad stack off.",
    ),
    HostCheck(
        id=ids.ERROR,
        title="GPUs answer",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_error,
        limit="0 errors",
        explain="Errors NVML gives in place of an answer. A lost GPU stays lost until it is reset or the host rebooted; jobs "
        "that ask for all GPUs fail until then.",
        explains=(
            Effect(
                "gpu.*",
                "a GPU that does not answer tells nothing of itself",
                Reach.PART,
                is_unknown,
            ),
        ),
    ),
    HostCheck(
        id=ids.PCIE,
        title="PCIe link of the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_pcie,
        limit="hardware.gpu.pcie_generation and pcie_width of the profile; at most 80 replays (NVIDIA DCGM)",
        explain="Width and generation of each link. The width is judged always. The generation is judged where the best the link "
        "can do is below the profile, or where the GPU works: an idle one drops to Gen1 by itself. Usual faults: a board or "
        "riser that sits badly, a slot that shares its lanes, a firmware setting that caps the speed.",
    ),
    HostCheck(
        id=ids.NVLINK,
        title="NVLinks are up",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_nvlink,
        limit="links and speed of the product's data sheet (gpu_parts.yml): A100 SXM 12 x 25, H100 SXM 18 x 26.6 GB/s",
        bound=Bound("links", most=64, whole=True),
        explain="Active NVLinks of each GPU behind NVSwitch, and their speed. Classes without NVSwitch are not judged. A link that "
        "is down slows every collective of the host. Usual faults: no fabric manager, a tray that sits badly, a spent link. "
        "Those of an A100 that is divided (MIG) are off, and not assessed.",
    ),
    HostCheck(
        id=ids.ECC,
        title="ECC is on and quiet",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_ecc,
        limit="on; 0 uncorrectable errors since the driver was loaded; SRAM: the driver's threshold, or more than 4 over its life",
        explain="Whether memory errors are noticed, and those that could not be corrected. Errors since the driver was loaded fail: "
        "they have ended jobs. Errors of earlier days warn, for their rows have been replaced. Spent on-chip memory is a case "
        "for replacement. A GPU that is divided (MIG) tells only those over its life; it is not assessed where there are none.",
    ),
    HostCheck(
        id=ids.REMAP,
        title="No memory row waits or is spent",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_remap,
        limit="0 pending, 0 failed (NVIDIA GPU memory error management)",
        explain="Replacement of failing memory rows. One that waits is done at the next reset of the GPU; one that failed means "
        "that no spare is left: replace the GPU. A GPU that is divided (MIG) does not tell, and is not assessed.",
    ),
    HostCheck(
        id=ids.CLOCKS,
        title="Nothing slows the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_clocks,
        limit="no hardware slowdown, heat or power brake (NVML clock event reasons 0x8, 0x40, 0x80); 0x20 warns",
        explain="The reasons NVML gives for lowered clocks. Slowing by the hardware is heat, a power cable or a power supply. Being "
        "idle, working at the power limit and clocks somebody chose are no faults.",
        causes=(
            Cause(
                ids.TEMPERATURE,
                "the hardware slows down what is too hot",
                Reach.PART,
                slowed_by_heat,
            ),
        ),
    ),
    HostCheck(
        id=ids.TEMPERATURE,
        title="Temperature of the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_temperature,
        limit="the GPU's own slowdown threshold (NVML); within 5 °C of it warns",
        bound=Bound("°C", above=20, below=120),
        explain="Core temperature now against the one at which the GPU slows itself down. Usual faults: a fan, a blanking plate that "
        "is missing, warm air that comes back in front of the rack.",
    ),
    HostCheck(
        id=ids.POWER,
        title="Power limit of the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_power,
        limit="TDP of the product's data sheet (gpu_parts.yml)",
        bound=Bound("W", most=5000),
        explain="The power each GPU may draw. A limit somebody lowered, or a host that cannot feed its boards, makes one GPU "
        "slower than the rest, and all of a job waits for it.",
    ),
    HostCheck(
        id=ids.DRIVER,
        title="NVIDIA driver",
        roles=GPU_HOSTS,
        judge=judge_driver,
        limit="software.driver_branch of the profile",
        explain="Whether a driver answers, and its branch. Usual faults: a kernel update the module was not built for, a library and "
        "a module of different versions, secure boot.",
        explains=(
            Effect(
                "gpu.*", "without a driver no GPU can be asked", when=both(no_value, is_unknown)
            ),
            Effect(base_ids.ADVISORIES, "it is another driver", when=on("nvidia-driver")),
        ),
    ),
    ClusterCheck(
        id=ids.DRIVER_SPREAD,
        title="One driver on all hosts",
        nature=Nature.SYMPTOM,
        judge=judge_driver_spread,
        limit="1 version",
        explain="Driver versions of all GPU hosts. Jobs over several hosts meet strange faults where they differ, and fabric manager "
        "and containers must follow each of them.",
        causes=(
            UNASKED,
            Cause(ids.DRIVER, "that host is the one that differs", Reach.NAMED),
        ),
    ),
    HostCheck(
        id=ids.FABRIC_MANAGER,
        title="Fabric manager",
        roles=GPU_HOSTS,
        judge=judge_fabric_manager,
        limit="NVSwitch: active, exactly the driver's version (NVIDIA fabric manager guide); elsewhere: not installed",
        explain="The daemon that sets up NVSwitch. Without it, or in another version than the driver's, no CUDA program starts "
        "(error 802). An update of only one of the two packages is the usual fault.",
        causes=(Cause(ids.DRIVER, "the fabric manager works with its own driver only"),),
        explains=(Effect(ids.NVLINK, "without a fabric manager no NVLink comes up"),),
    ),
    HostCheck(
        id=ids.PERSISTENCE,
        title="GPUs stay ready",
        roles=GPU_HOSTS,
        judge=judge_persistence,
        limit="on for every GPU; nvidia-persistenced active and enabled",
        explain="Persistence mode and the daemon that keeps it. Without it the driver unloads a GPU's state when its last job ends: "
        "the next one starts late, and power limits and clocks are forgotten.",
    ),
    HostCheck(
        id=ids.XID,
        title="No Xid messages",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_xid,
        limit="the vendor's map (xid.yml: NVIDIA NVSentinel); of the last 24 h",
        bound=Bound("h", most=8760, each=Bound(words=VERDICTS)),
        explain="Messages of the driver in the kernel log since boot, each code by its class: reboot, reset and unexpected ones fail, "
        "those of applications warn, notes pass. Five fatal ones of one GPU within 24 h are a case for service. What is older "
        "than 24 h only warns, for the log does not tell of a reset. Of SXid messages of NVSwitches those the driver calls fatal fail.",
        causes=(
            Cause(ids.ERROR, "the driver logs that it has lost the GPU", when=logs_the_loss),
            Cause(
                ids.COUNT,
                "the driver logs that the GPU has fallen off the bus",
                when=logs_the_loss,
            ),
        ),
    ),
    HostCheck(
        id=ids.SERVICES,
        title="DCGM, its exporter and the description for containers",
        roles=GPU_HOSTS,
        judge=judge_services,
        limit="active, and started at boot; not judged where the driver comes from the distribution",
        explain="nvidia-dcgm and nvidia-dcgm-exporter measure the GPUs; appliance-cdi describes them to container runtimes, anew at "
        "each boot. Without it containers get no GPU, or those of before a change.",
    ),
    ClusterCheck(
        id=ids.VBIOS_SPREAD,
        title="One firmware on all GPUs",
        nature=Nature.HARDWARE,
        judge=judge_vbios_spread,
        limit="1 version per product",
        explain="VBIOS versions of all GPUs of a product. An outlier is a board that was replaced, or missed by an update; it may differ "
        "in power and clocks.",
        causes=(
            UNASKED,
            Cause(ids.ERROR, "its firmware cannot be read", Reach.SITE, both(is_unknown, named_by)),
        ),
    ),
)
