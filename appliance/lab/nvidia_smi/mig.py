"""``nvidia-smi mig``: what GPUs are divided into, and dividing them by hand."""

from __future__ import annotations

import argparse
import ctypes
import sys
from typing import TYPE_CHECKING, Any

from appliance.probe import mig
from appliance.probe.nvml import NOT_SUPPORTED, SUCCESS, UINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from appliance.probe.nvml import Library

    Rows = Callable[[Library, int, Any], Iterator[str]]

BAD_USAGE, NO_GPU = 2, 6
WIDTH = 57


def main(library: Library, arguments: Sequence[str], said: str) -> int:
    """Run it with the arguments after ``mig``; ``said`` marks simulated output. The exit code is NVML's."""
    asked = _parser().parse_args(arguments)
    count = library.number("nvmlDeviceGetCount_v2") or 0
    wanted = range(count) if asked.id is None else [asked.id]
    if any(not 0 <= index < count for index in wanted):
        sys.stdout.write("No devices were found\n")
        return NO_GPU
    sys.stderr.write(f"nvidia-smi: {said}\n")
    gpus = [(index, library.handle(index)) for index in wanted]
    for flag, (title, head, rows) in LISTS.items():
        if getattr(asked, flag):
            return _table(library, gpus, title, head, rows)
    if asked.cgi:
        return _create(library, gpus, [int(part) for part in asked.cgi.split(",")], asked.C)
    return _destroy(library, gpus, parts_only=asked.dci)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("nvidia-smi mig", allow_abbrev=False)
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("-lgi", action="store_true", help="list GPU instances")
    kinds.add_argument("-lci", action="store_true", help="list compute instances")
    kinds.add_argument("-lgip", action="store_true", help="list profiles")
    kinds.add_argument("-lgipp", action="store_true", help="list places of profiles")
    kinds.add_argument("-cgi", metavar="IDS", help="make GPU instances of these profile ids")
    kinds.add_argument("-dgi", action="store_true", help="destroy GPU instances")
    kinds.add_argument("-dci", action="store_true", help="destroy compute instances")
    parser.add_argument("-C", action="store_true", help="with compute instances")
    parser.add_argument("-i", "--id", type=int, help="a GPU by its index")
    return parser


def _table(
    library: Library, gpus: Sequence[tuple[int, Any]], title: str, head: str, rows: Rows
) -> int:
    if not any((mig.mode(library, gpu) or (False,))[0] for _, gpu in gpus):
        sys.stdout.write("No MIG-enabled devices found.\n")
        return NO_GPU
    line = "+" + "-" * WIDTH + "+"
    lines = [line, f"| {title:<{WIDTH - 2}} |", f"| {head:<{WIDTH - 2}} |", line.replace("-", "=")]
    for index, gpu in gpus:
        lines += [f"| {row:<{WIDTH - 2}} |" for row in rows(library, index, gpu)]
    sys.stdout.write("\n".join([*lines, line]) + "\n")
    return SUCCESS


def _instances(library: Library, index: int, gpu: Any) -> Iterator[str]:
    for one in mig.instances(library, gpu) or ():
        yield f"{index:>3}  MIG {one.name:<14} {one.profile:>7} {one.id:>9} {one.start:>7}:{one.size}"


def _parts(library: Library, index: int, gpu: Any) -> Iterator[str]:
    for one in mig.instances(library, gpu) or ():
        for part in one.parts:
            yield f"{index:>3} {one.id:>9}  MIG {one.name:<14} {part.profile:>7} {part.id:>9}"


def _profiles(library: Library, index: int, gpu: Any) -> Iterator[str]:
    for number, (name, _) in mig.profiles(library, gpu).items():
        free = library.number("nvmlDeviceGetGpuInstanceRemainingCapacity", gpu, UINT(number))
        yield f"{index:>3}  MIG {name:<14} {number:>7} {'N/A' if free is None else free:>9}"


def _places(library: Library, index: int, gpu: Any) -> Iterator[str]:
    for number in mig.profiles(library, gpu):
        found = mig.places(library, gpu, number)
        starts = ",".join(str(start) for start, _ in found)
        if found:
            yield f"GPU {index} Profile ID {number:>2} Placements: {{{starts}}}:{found[0][1]}"


LISTS: dict[str, tuple[str, str, Rows]] = {
    "lgi": ("GPU instances:", "GPU  Name               Profile  Instance  Start:Size", _instances),
    "lci": ("Compute instances:", "GPU  Instance  Name               Profile  Compute", _parts),
    "lgip": ("GPU instance profiles:", "GPU  Name                    ID      Free", _profiles),
    "lgipp": ("Places:", "", _places),
}


def _create(
    library: Library, gpus: Sequence[tuple[int, Any]], profiles: Sequence[int], with_parts: bool
) -> int:
    for index, gpu in gpus:
        for profile in profiles:
            handle = ctypes.c_void_p()
            asked = (gpu, UINT(profile), ctypes.byref(handle))
            code = library.call("nvmlDeviceCreateGpuInstance", *asked)
            if code == SUCCESS and with_parts:
                sizes = mig.part_profiles(library, handle)
                part = ctypes.c_void_p()
                made = (handle, UINT(max(s.id for s in sizes)), ctypes.byref(part))
                code = library.call("nvmlGpuInstanceCreateComputeInstance", *made)
            if code != SUCCESS:
                return _failed(library, f"create a GPU instance on GPU {index}", code)
            sys.stdout.write(f"Successfully created GPU instance on GPU {index}\n")
    return SUCCESS


def _destroy(library: Library, gpus: Sequence[tuple[int, Any]], *, parts_only: bool) -> int:
    for index, gpu in gpus:
        for one in mig.instances(library, gpu) or ():
            codes = [
                library.call("nvmlComputeInstanceDestroy", part.handle)
                for part in one.parts
                if parts_only
            ]
            if not parts_only:
                codes.append(library.call("nvmlGpuInstanceDestroy", one.handle))
            for code in codes:
                if code != SUCCESS:
                    return _failed(library, f"destroy instance {one.id} of GPU {index}", code)
    return SUCCESS


def set_mode(library: Library, index: int, gpu: Any, mode: int) -> int:
    """``nvidia-smi -mig 0|1`` for a GPU."""
    status = ctypes.c_int()
    code = library.call("nvmlDeviceSetMigMode", gpu, UINT(mode), ctypes.byref(status))
    if code != SUCCESS:
        return _failed(library, f"set MIG mode of GPU {index}", code)
    if status.value != SUCCESS:
        why = library.words(status.value)
        sys.stdout.write(f"Warning: MIG mode is in pending state for GPU {index}: {why}\n")
    return SUCCESS


def reset(library: Library, index: int, gpu: Any) -> int:
    """``nvidia-smi --gpu-reset`` for a GPU."""
    code = library.call("labDeviceReset", gpu)
    if code == SUCCESS:
        sys.stdout.write(f"GPU {index} was successfully reset.\n")
        return SUCCESS
    return _failed(library, f"reset GPU {index}", code)


def _failed(library: Library, what: str, code: int) -> int:
    sys.stdout.write(f"Unable to {what}: {library.words(code)}\n")
    return code or NOT_SUPPORTED


def devices(library: Library, gpu: Any) -> list[str]:
    """The lines of MIG devices below a GPU in ``nvidia-smi -L``."""
    if not (mig.mode(library, gpu) or (False,))[0]:
        return []
    parts = [
        (one.name, part.uuid) for one in mig.instances(library, gpu) or () for part in one.parts
    ]
    return [
        f"  MIG {name:<14} Device {number:>2}: (UUID: {uuid})"
        for number, (name, uuid) in enumerate(parts)
    ]
