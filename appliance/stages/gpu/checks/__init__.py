"""Checks GPUs: count and model of the class, errors, links, temperature, and software."""

from appliance.checks.causes import UNASKED, Cause, Effect, Reach, both, is_unknown, no_value, on
from appliance.checks.check import GPU_HOSTS, Check, ClusterCheck, HostCheck, Nature
from appliance.models.bound import Bound
from appliance.stages.base import ids as base_ids
from appliance.stages.gpu import ids
from appliance.stages.gpu.causes import (
    counted_at_address,
    follows,
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
        explain="NVIDIA GPUs on the PCI bus, compared with those that the driver lists. If a GPU is only on the bus, the driver lost it: power, "
        "heat or a bad contact. If it is on neither, it did not start with the board. Other hosts show its position.",
        causes=(
            Cause(
                ids.ERROR,
                "the missing GPU is the one that does not answer",
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
        explain="Product names in NVML. Usual causes of a difference: the wrong profile, a host of another order, or a replacement board of another "
        "kind.",
    ),
    HostCheck(
        id=ids.MEMORY,
        title="Memory of the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_memory,
        limit="hardware.gpu.memory_gib of the profile, taken as billions of bytes (80 GB on the label is 81,559 MiB on some boards)",
        explain="Memory of each GPU in NVML. Too little memory means another product, or a board that disabled a bad memory stack.",
    ),
    HostCheck(
        id=ids.ERROR,
        title="GPUs answer",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_error,
        limit="0 errors",
        explain="Errors that NVML returns for a GPU. A lost GPU stays lost until it is reset or the host is rebooted. Until then, jobs that request "
        "all GPUs fail.",
        explains=(
            Effect(
                "gpu.*",
                "a GPU that does not answer reports nothing",
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
        explain="Width and generation of each PCIe link. The width is always checked. The generation is checked if the link's maximum is below the "
        "profile, or while the GPU is busy, because an idle GPU drops to Gen1. Usual causes: a badly seated board or riser, a slot that "
        "shares its lanes, or a firmware setting that limits the speed.",
    ),
    HostCheck(
        id=ids.NVLINK,
        title="NVLinks are up",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_nvlink,
        limit="links and speed of the product's data sheet (gpu_parts.yml): A100 SXM 12 x 25, H100 SXM 18 x 26.6 GB/s",
        bound=Bound("links", most=64, whole=True),
        explain="Active NVLinks of each GPU behind NVSwitch, and their speed. Classes without NVSwitch are not checked. A link that is down slows "
        "every collective of the host. Usual causes: no fabric manager, a badly seated tray, or a worn link. An A100 with MIG has its links "
        "off; they are not assessed.",
    ),
    HostCheck(
        id=ids.ECC,
        title="ECC is on and quiet",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_ecc,
        limit="on; 0 uncorrectable errors since the driver was loaded; SRAM: the driver's threshold, or more than 4 over its life",
        explain="Whether ECC is enabled, and uncorrectable memory errors. Errors since the driver was loaded fail, because they have ended jobs. "
        "Older errors are a warning, because their rows have been replaced. Replace the GPU if its on-chip memory has no spare left. A GPU "
        "with MIG reports only lifetime counts; without any, it is not assessed.",
    ),
    HostCheck(
        id=ids.REMAP,
        title="No memory row is pending or failed",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_remap,
        limit="0 pending, 0 failed (NVIDIA GPU memory error management)",
        explain="Row remapping of failing GPU memory. A pending remap completes at the next reset of the GPU. A failed one means that no spare row "
        "is left: replace the GPU. A GPU with MIG does not report this and is not assessed.",
    ),
    HostCheck(
        id=ids.CLOCKS,
        title="Nothing slows the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_clocks,
        limit="no hardware slowdown, heat or power brake (NVML clock event reasons 0x8, 0x40, 0x80); 0x20 warns",
        explain="NVML's reasons for reduced clocks. A hardware slowdown indicates heat, a power cable or a power supply. Idle clocks, the power "
        "limit and clocks set by a user are no faults.",
        causes=(
            Cause(
                ids.TEMPERATURE,
                "the hardware slows down a hot GPU",
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
        limit="the GPU's own slowdown threshold (NVML); within 5 °C of it warns; an idle GPU: 25 °C above the median of the host's idle GPUs (own choice)",
        bound=Bound("°C", above=20, below=120),
        explain="Core temperature, compared with the temperature at which the GPU slows down. Usual causes: a fan, a missing blanking plate, or "
        "warm air that returns to the front of the rack.",
    ),
    HostCheck(
        id=ids.POWER,
        title="Power limit of the GPUs",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_power,
        limit="TDP of the product's data sheet (gpu_parts.yml)",
        bound=Bound("W", most=5000),
        explain="The power limit of each GPU. If it was lowered, or the host cannot supply the boards, one GPU is slower than the others, and the "
        "whole job waits for it. A busy GPU that draws little power waits for another rank of its job (alert GpuStalled).",
    ),
    HostCheck(
        id=ids.DRIVER,
        title="NVIDIA driver",
        roles=GPU_HOSTS,
        judge=judge_driver,
        limit="software.driver_branch of the profile",
        explain="Whether the driver answers, and its branch. Usual causes of a failure: a kernel update without a module build, a library and a "
        "module of different versions, or secure boot.",
        explains=(
            Effect(
                "gpu.*", "without a driver no GPU can be queried", when=both(no_value, is_unknown)
            ),
            Effect(base_ids.ADVISORIES, "the driver differs", when=on("nvidia-driver")),
        ),
    ),
    ClusterCheck(
        id=ids.DRIVER_SPREAD,
        title="One driver on all hosts",
        nature=Nature.SYMPTOM,
        judge=judge_driver_spread,
        limit="1 version",
        explain="Driver versions of all GPU hosts. Different versions cause obscure faults in jobs over several hosts, and fabric manager and "
        "containers must match each of them.",
        causes=(
            UNASKED,
            Cause(ids.DRIVER, "that host has the different version", Reach.NAMED),
        ),
    ),
    HostCheck(
        id=ids.FABRIC_MANAGER,
        title="Fabric manager",
        roles=GPU_HOSTS,
        judge=judge_fabric_manager,
        limit="NVSwitch: active, exactly the driver's version (NVIDIA fabric manager guide); elsewhere: not installed",
        explain="The fabric manager, which configures NVSwitch. Without it, or with a version other than the driver's, no CUDA program starts "
        "(error 802). Usual cause: only one of the two packages was updated.",
        causes=(Cause(ids.DRIVER, "the fabric manager works with its own driver only"),),
        explains=(Effect(ids.NVLINK, "without a fabric manager no NVLink comes up"),),
    ),
    HostCheck(
        id=ids.PERSISTENCE,
        title="GPUs stay ready",
        roles=GPU_HOSTS,
        judge=judge_persistence,
        limit="on for every GPU; nvidia-persistenced active and enabled",
        explain="Persistence mode and its daemon. Without it, the driver unloads a GPU's state when its last job ends. The next job starts late, "
        "and power limits and clocks are lost.",
    ),
    HostCheck(
        id=ids.XID,
        title="No Xid messages",
        nature=Nature.HARDWARE,
        roles=GPU_HOSTS,
        judge=judge_xid,
        limit="the vendor's map (xid.yml, of NVIDIA's Xid catalog); of the last 24 h",
        bound=Bound("h", most=8760, each=Bound(words=VERDICTS)),
        explain="Xid messages of the driver in the kernel log since boot, judged by code: codes that need a reboot or reset, and unknown ones, "
        "fail; application errors are a warning; notices pass. Five fatal messages of one GPU within 24 h require service. Messages older "
        "than 24 h are only a warning, because the log does not show resets. SXid messages of NVSwitches and NVLink 5 messages (144 to 150) "
        "fail if the driver marks them fatal, and are a warning otherwise.",
        causes=(
            Cause(ids.ERROR, "the driver logs the loss of the GPU", when=logs_the_loss),
            Cause(
                ids.COUNT,
                "the driver logs that the GPU has fallen off the bus",
                when=logs_the_loss,
            ),
            Cause(
                ids.XID,
                "the driver ends the jobs of a GPU that failed",
                Reach.PART,
                when=follows,
            ),
        ),
    ),
    HostCheck(
        id=ids.SERVICES,
        title="DCGM, its exporter and the CDI description run",
        roles=GPU_HOSTS,
        judge=judge_services,
        limit="active, and started at boot; not assessed if the driver comes from the distribution",
        explain="nvidia-dcgm and nvidia-dcgm-exporter measure the GPUs. appliance-cdi describes them to container runtimes at each boot. Without "
        "it, containers get no GPU, or a GPU as it was before a change.",
    ),
    ClusterCheck(
        id=ids.VBIOS_SPREAD,
        title="One firmware on all GPUs",
        nature=Nature.HARDWARE,
        judge=judge_vbios_spread,
        limit="1 version per product",
        explain="VBIOS versions of all GPUs of a product. An outlier is a replaced board, or one that missed an update. It may differ in power and "
        "clocks.",
        causes=(
            UNASKED,
            Cause(ids.ERROR, "its firmware cannot be read", Reach.SITE, both(is_unknown, named_by)),
        ),
    ),
)
