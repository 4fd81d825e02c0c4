"""The command line of nvidia-smi, as far as the virtual rack needs it."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from appliance.lab.nvidia_smi import mig, views
from appliance.lab.nvidia_smi.fields import BY_NAME, value
from appliance.probe.nvml import SUCCESS, Failure, Library
from appliance.probe.problems import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from appliance.lab.nvidia_smi.views import View

BAD_USAGE, NO_GPU, NO_DRIVER, LOST = 2, 6, 9, 15
FORMATS = ("csv", "noheader", "nounits")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code is nvidia-smi's: 2 bad usage, 6 no such GPU, 9 no driver, 15 a GPU is lost."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["mig"]:
        return _with_driver(lambda library: mig.main(library, given[1:], views.SIMULATED))
    parser = _parser()
    asked = parser.parse_args(given)
    formats = asked.format.split(",")
    if asked.query_gpu and (formats[0] != "csv" or not set(formats) <= set(FORMATS)):
        parser.error("--format must be csv, csv,noheader or csv,noheader,nounits")
    names = [name.strip() for name in asked.query_gpu.split(",")] if asked.query_gpu else []
    for name in names:
        if name not in BY_NAME:
            say(f'Field "{name}" is not a valid field to query.')
            return BAD_USAGE
    return _with_driver(lambda library: _show(library, asked, names, formats))


def _with_driver(work: Callable[[Library], int]) -> int:
    try:
        library = Library()
    except Unreadable as error:
        say(
            f"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver: {error}"
        )
        return NO_DRIVER
    try:
        return work(library)
    finally:
        library.close()


def say(text: str) -> None:
    """One line of the answer."""
    sys.stdout.write(text + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "nvidia-smi",
        description=f"GPUs of this rack host, {views.SIMULATED}. Instances: nvidia-smi mig -h.",
        epilog="Fields to query: " + ", ".join(BY_NAME),
        allow_abbrev=False,
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("-L", "--list-gpus", action="store_true", help="one line per GPU")
    kinds.add_argument("-q", "--query", action="store_true", help="the long form")
    kinds.add_argument("--query-gpu", "--query-remapped-rows", metavar="FIELDS", default="")
    kinds.add_argument("-mig", "--multi-instance-gpu", type=int, choices=(0, 1), help="MIG mode")
    kinds.add_argument(
        "-r", "--gpu-reset", action="store_true", help="reset GPUs that are not in use"
    )
    parser.add_argument("-i", "--id", default="", help="GPUs by index, UUID or PCI address")
    parser.add_argument("--format", default="", help="csv[,noheader][,nounits]")
    return parser


def _show(
    library: Library, asked: argparse.Namespace, names: Sequence[str], formats: Sequence[str]
) -> int:
    count = library.number("nvmlDeviceGetCount_v2") or 0
    wanted = [index for index in range(count) if _is_wanted(library, asked.id, index)]
    if not wanted:
        say("No devices were found")
        return NO_GPU
    if asked.multi_instance_gpu is not None or asked.gpu_reset:
        return _change(library, asked, wanted)
    if asked.list_gpus or names:
        # Programs parse these two, so the text for people is printed in addition.
        sys.stderr.write(f"nvidia-smi: {views.SIMULATED}\n")
    if asked.list_gpus:
        return _each(library, wanted, views.line)
    if names:
        units = "nounits" not in formats
        if "noheader" not in formats:
            say(views.csv_head(names, units))
        return _each(library, wanted, views.csv(names, units))
    if asked.query:
        say("\n".join(views.long_head(library, count)))
        return _each(library, wanted, views.long)
    say("\n".join(views.table_head(library)))
    code = _each(library, wanted, views.table_rows)
    say("\n".join(views.table_foot()))
    return code


def _change(library: Library, asked: argparse.Namespace, wanted: Sequence[int]) -> int:
    """Modes and resets, the worst code."""
    codes = [
        mig.reset(library, index, library.handle(index))
        if asked.gpu_reset
        else mig.set_mode(library, index, library.handle(index), asked.multi_instance_gpu)
        for index in wanted
    ]
    return max(codes)


def _each(library: Library, wanted: Sequence[int], view: View) -> int:
    """Show the GPUs; one that is lost has its line, and the others are shown all the same."""
    code = SUCCESS
    for index in wanted:
        try:
            lines = view(library, library.handle(index))
        except Failure as failure:
            lines, code = [views.lost(index, failure)], LOST
        say("\n".join(lines))
    return code


def _is_wanted(library: Library, ids: str, index: int) -> bool:
    """Whether one of the ids is the GPU's index, UUID or PCI address."""
    if not ids:
        return True
    names = {str(index)}
    with suppress(Failure):
        gpu = library.handle(index)
        address = value(library, gpu, "pci.bus_id").lower()
        # NVML writes the PCI domain with eight digits, the kernel with four.
        names |= {value(library, gpu, "uuid").lower(), address, address[4:]}
    return any(one.strip().lower() in names for one in ids.split(","))
