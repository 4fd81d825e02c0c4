"""Multiplies and copies on each GPU of a host separately, or small matrices on its processors. Runs there as one file, with Python 3.8 and newer, PyTorch 1.12 and newer.

    multiply.py host gpus|processors    all devices, one after the other: prints one JSON document
    multiply.py gpu|processors INDEX    one device, in a process of its own: a fault of one GPU is no fault of the next

Matrices are random while time is measured, because sparse or regular ones need less power and run faster. Before and after, the same
products are computed with -1, 0 and 1, which every type represents exactly. Each row is compared with a result that the processor computes
in another way, so that no rounding hides a wrong value.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import statistics
import subprocess  # noqa: TID251  runs on the hosts, where the package is not
import sys
import time
from pathlib import Path
from typing import Any, Callable  # noqa: UP035  Python 3.8

SIZES = {"gpu": (4096, 8192, 16384), "processors": (512, 1024)}
SLOWEST = 2.0
"""s: a type whose products would take longer at the next size is not tried there."""
WARM, LAST, REPEATS = 0.5, 0.2, 5
"""s before time is taken, s of each repeat at least, and how many of them."""
STREAMED = {"gpu": 2 << 30, "processors": 64 << 20}
"""Octets of each buffer; the largest cache of a GPU that there is has some 126 MB."""
LEAST_STREAMED = 512 << 20
BLOCK = 1024
"""Rows that are checked at a time."""
PATTERN = 1 << 20
SECONDS = {"gpu": 150, "processors": 60}
"""Time limit of one device in s; a device that hangs is left behind."""


def ask(argv: list[str], seconds: float = 60) -> str | None:
    """Returns the output of a program; None if it failed or hangs."""
    try:
        done = subprocess.run(argv, stdout=-1, stderr=-3, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


class Bench:
    """One device, by PyTorch. ``kind``: gpu or processors."""

    def __init__(self, kind: str, index: int) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.kind, self.index = kind, index
        self.device = f"cuda:{index}" if kind == "gpu" else "cpu"
        if kind == "gpu":
            self.torch.cuda.set_device(index)

    def took(self, work: Callable[[], object], count: int) -> float:
        """s of one of ``count`` in a row, by the GPU's own clock."""
        if self.kind == "gpu":
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in "be")
            begin.record()
            for _ in range(count):
                work()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1000 / count
        began = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - began) / count

    def median(self, work: Callable[[], object]) -> float:
        """s of one, warm: the median of the repeats."""
        until = time.time() + WARM
        each = self.took(work, 1)
        while time.time() < until:
            each = self.took(work, 1)
        count = max(1, math.ceil(LAST / max(each, 1e-6)))
        return statistics.median(self.took(work, count) for _ in range(REPEATS))

    def types(self) -> dict[str, Any]:
        """Types for which the product has units, by the names of results."""
        torch = self.torch
        if self.kind == "processors":
            return {"fp64": torch.float64, "fp32": torch.float32}
        major = torch.cuda.get_device_capability(self.index)[0]
        found = {"fp64": torch.float64}
        if major >= 7:
            found["fp16"] = torch.float16
        if major >= 8:
            torch.set_float32_matmul_precision("high")
            found.update(tf32=torch.float32, bf16=torch.bfloat16)
        return found

    def identity(self) -> dict[str, Any]:
        """Returns NVML's index and UUID, which all others use, if they are known; otherwise PyTorch's index."""
        if self.kind == "processors":
            return {"index": 0, "uuid": "", "name": f"{len(os.sched_getaffinity(0))} processors"}
        properties = self.torch.cuda.get_device_properties(self.index)
        own = str(getattr(properties, "uuid", ""))
        given = [w for w in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if w]
        word = given[self.index] if self.index < len(given) else str(self.index)
        said = ask(["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]) or ""
        for row in said.splitlines():
            number, _, uuid = row.partition(", ")
            named = word == number or (word.startswith("GPU-") and uuid.startswith(word))
            if number.isdigit() and (own in uuid if own else named):
                return {"index": int(number), "uuid": uuid, "name": properties.name}
        uuid = own and f"GPU-{own.replace('GPU-', '')}"
        return {"index": self.index, "uuid": uuid, "name": properties.name}

    def products(self) -> list[dict[str, Any]]:
        """Each type at each size: TFLOPS, and rows of the checked products that are wrong."""
        torch, sizes = self.torch, SIZES[self.kind]
        most = max(sizes)
        # A quarter of the values is not 0: no sum of theirs leaves the 256 that BF16 counts to.
        drawn = [torch.randint(0, 8, (most, most), dtype=torch.int8) for _ in "ab"]
        ones = [(one == 0).to(torch.int8) - (one == 1).to(torch.int8) for one in drawn]
        found: list[dict[str, Any]] = []
        slow: dict[str, float] = {}
        for size in sizes:
            a, b = (one[:size, :size] for one in ones)
            weights = torch.randint(1, 1000, (size, 1)).double()
            right = times(a, times(b, weights))
            for name, kind in self.types().items():
                if slow.get(name, 0) * 8 > SLOWEST:
                    continue
                seconds, wrong = self.product(kind, (a, b), weights, right)
                slow[name] = seconds
                rate = 2 * size**3 / seconds / 1e12
                found.append({"dtype": name, "size": size, "tflops": rate, "wrong": wrong})
        return found

    def product(self, kind: Any, given: Any, weights: Any, right: Any) -> tuple[float, int]:
        """s of one product of random matrices, and rows of that of the ``given`` ones that are wrong, before and after."""
        size = len(weights)
        a, b, c = (self.torch.empty(size, size, device=self.device, dtype=kind) for _ in "abc")

        def work() -> None:
            self.torch.mm(a, b, out=c)

        def wrong() -> int:
            a.copy_(given[0])
            b.copy_(given[1])
            c.fill_(7)
            work()
            return int((times(c, weights) != right).sum())

        before = wrong()
        a.normal_()
        b.normal_()
        seconds = self.median(work)
        return seconds, before + wrong()

    def streams(self) -> list[dict[str, Any]]:
        """Copy and triad of 32-bit numbers: GB/s read and written, and values that are wrong."""
        torch, octets = self.torch, STREAMED[self.kind]
        if self.kind == "gpu":
            torch.cuda.empty_cache()
            octets = min(octets, torch.cuda.mem_get_info()[0] // 4)
            if octets < LEAST_STREAMED:
                raise RuntimeError("its memory is in use: another program is running on it")
        rows = octets // 4 // PATTERN
        first, second = (torch.randint(0, 1000, (1, PATTERN)).float() for _ in "bc")
        b, c = (one.to(self.device).repeat(rows, 1) for one in (first, second))
        a = torch.zeros_like(b)

        def copy() -> None:
            a.copy_(b)

        def triad() -> None:
            torch.add(b, c, alpha=3, out=a)

        found = []
        for name, work, moved, expected in (
            ("copy", copy, 2, first),
            ("triad", triad, 3, first + 3 * second),
        ):
            a.fill_(-1)
            rate = moved * rows * PATTERN * 4 / self.median(work) / 1e9
            bad = sum(int((a[at : at + 64].cpu() != expected).sum()) for at in range(0, rows, 64))
            found.append({"what": name, "octets": rows * PATTERN * 4, "gbps": rate, "wrong": bad})
        return found


def times(matrix: Any, vector: Any) -> Any:
    """The product on the processor, exact for whole numbers, some rows at a time."""
    torch: Any = importlib.import_module("torch")
    blocks = range(0, matrix.shape[0], BLOCK)
    return torch.cat([matrix[at : at + BLOCK].cpu().double() @ vector for at in blocks])


def one(kind: str, index: int) -> dict[str, Any]:
    """All that is measured of one device."""
    bench = Bench(kind, index)
    known = {**bench.identity(), "kind": kind}
    with bench.torch.no_grad():
        return {**known, "products": bench.products(), "streams": bench.streams()}


def apart(kind: str, index: int) -> dict[str, Any]:
    """The same in a separate process; returns the error if it failed."""
    failed = {"index": index, "kind": kind, "error": ""}
    said, told = (Path(f"{kind}-{index}.{what}") for what in ("out", "err"))
    argv = [sys.executable, str(Path(__file__).resolve()), kind, str(index)]
    with said.open("wb") as out, told.open("wb") as err:
        child = subprocess.Popen(argv, stdin=-3, stdout=out, stderr=err)
        try:
            code = child.wait(SECONDS[kind])
        except subprocess.TimeoutExpired:
            # Not waited for: what hangs in a driver does not even die.
            child.kill()
            return {**failed, "error": f"it did not end within {SECONDS[kind]} s"}
    if code == 0:
        found: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))
        return found
    lines = told.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"it ended with {code}")
    return {**failed, "error": last[-300:]}


def tell(document: dict[str, Any]) -> None:
    """Prints it in one line."""
    sys.stdout.write(json.dumps(document) + "\n")


def main(allowed: str) -> None:
    """GPUs where PyTorch sees any, else processors where that is allowed."""
    code = "import torch; print(torch.__version__, torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    done = subprocess.run([sys.executable, "-c", code], stdout=-1, stderr=-1, check=False)
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        tell({"torch": "", "why": (told or ["no reason given"])[-1][-300:]})
        return
    version, count = done.stdout.decode().split()[-2:]
    todo = [("gpu", index) for index in range(int(count))]
    if not todo and allowed == "processors":
        todo = [("processors", 0)]
    tell({"torch": version, "devices": [apart(*each) for each in todo]})


if __name__ == "__main__":
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if sys.argv[1] == "host":
        main(sys.argv[2])
    else:
        tell(one(sys.argv[1], int(sys.argv[2])))
