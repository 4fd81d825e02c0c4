"""Checks GPU memory: ECC on, no uncorrectable errors, no pending or failed row remaps."""

from collections.abc import Iterable

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.gpu.checks.each import GpuResult, bad, doubtful, each, good, unknown
from appliance.stages.gpu.facts import Gpu
from appliance.text import plural

SRAM_MOST = 4
SRAM_SOURCE = "ml-engineering: more than 4 aggregate SRAM errors justify an RMA"
ECC_SOURCE = "NVIDIA GPU memory error management"
REMAP_SOURCE = "NVIDIA GPU memory error management, row remapping and RMA policy"
RMA = "drain the host, run the vendor's field diagnostics and request a replacement (RMA)"
RESET = "drain its jobs, nvidia-smi --gpu-reset -i {gpu}"


def judge_ecc(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if ECC is on and has found no uncorrectable error."""
    del view
    return each(host, facts, _ecc, "errors")


def _ecc(gpu: Gpu) -> GpuResult:
    if gpu.ecc_enabled is None:
        return unknown("the driver does not report whether ECC is on")
    if not gpu.ecc_enabled:
        fix = f"nvidia-smi -e 1 -i {gpu.index}, then reboot the host"
        return bad(
            "off", "ECC is off: memory errors corrupt results unnoticed", fix, "on", ECC_SOURCE
        )
    if gpu.sram_exceeded:
        cause = "its on-chip memory (SRAM) has failed: its errors exceed the GPU's threshold"
        return bad("exceeded", cause, RMA, "not exceeded", ECC_SOURCE)
    if (errors := gpu.sram_uncorrected or 0) > SRAM_MOST:
        cause = f"its on-chip memory (SRAM) has failed: {plural(errors, 'uncorrectable error')} over its life"
        return bad(errors, cause, RMA, SRAM_MOST, SRAM_SOURCE)
    if gpu.ecc_uncorrected:
        cause = f"{plural(gpu.ecc_uncorrected, 'memory error')} could not be corrected since the driver was loaded"
        fix = f"{RESET.format(gpu=gpu.index)}; gpu.remap shows whether the rows were replaced"
        return bad(gpu.ecc_uncorrected, cause, fix, 0, ECC_SOURCE)
    return _past(gpu)


def _past(gpu: Gpu) -> GpuResult:
    """Return errors before the driver was loaded. A divided GPU (MIG) reports only lifetime errors."""
    over_life, since_load = gpu.ecc_uncorrected_aggregate, gpu.ecc_uncorrected
    if over_life is None or (since_load is None and not gpu.mig_enabled):
        return unknown("its ECC counters were not read")
    if over_life:
        when = "none since the driver was loaded"
        if since_load is None:
            when = "at an unknown time, which the driver does not report in MIG mode"
        cause = f"{plural(over_life, 'uncorrectable memory error')} over its life, {when}"
        fix = "note its serial; if the number grows, run dcgmi diag -r 3"
        return doubtful(over_life, cause, fix, 0, ECC_SOURCE)
    if since_load is None:
        why = "in MIG mode the driver reports only lifetime errors, and there are none"
        return unknown(why, required=False)
    if gpu.sram_uncorrected is None and gpu.sram_exceeded is None:
        return unknown("the errors of its on-chip memory (SRAM) were not read")
    return good(0, 0, ECC_SOURCE)


def judge_remap(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if no row remap is pending or has failed."""
    del view
    return each(host, facts, _remap, "rows")


def _remap(gpu: Gpu) -> GpuResult:
    if gpu.mig_enabled and (gpu.remap_pending is None or gpu.remap_failed is None):
        why = "the driver does not report replaced rows while the GPU is divided (MIG): read them with MIG off"
        return unknown(why, required=False)
    if gpu.remap_pending is None or gpu.remap_failed is None:
        return unknown("its replaced memory rows were not read")
    rows = gpu.remapped_rows
    if gpu.remap_failed:
        return bad(rows, "a failing memory row could not be replaced", RMA, 0, REMAP_SOURCE)
    if gpu.remap_pending:
        cause = "a failing memory row is replaced at the next reset; running jobs are safe"
        fix = f"soon: {RESET.format(gpu=gpu.index)}"
        return doubtful(rows, cause, fix, 0, REMAP_SOURCE)
    return good(rows, source=REMAP_SOURCE)
