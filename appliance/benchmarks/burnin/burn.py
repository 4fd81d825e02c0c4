"""Loads a host and samples it. Runs there as one file, with Python 3.8 and newer, and PyTorch if installed.

    burn.py FOLDER SECONDS INTERVAL

Writes FOLDER/samples.jsonl: a line "begin", one line every INTERVAL s, a line "end". Missing lines at the end mean that it was cut off.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import signal
import subprocess  # noqa: TID251  runs on the hosts, where the package is not
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

FIELDS = (
    "index,uuid,temperature.gpu,power.draw,clocks.sm,utilization.gpu,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total"
)
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""Field names from driver 535 on, and before."""
XID = re.compile(
    r"\[ *[0-9]+\.[0-9]+\] (\[ *[A-Z][0-9]+\] )?NVRM: Xid \((PCI:)?[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
)
SIZE = 8192
TRAFFIC = 1 << 26
"""Elements that each GPU exchanges at a time: 256 MiB."""


def ask(argv: list[str], seconds: float = 60) -> str | None:
    """Returns the output of a program; None if it failed, "hung" if it did not end, which is a finding of its own."""
    try:
        done = subprocess.run(argv, stdout=-1, stderr=-3, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "hung"
    except OSError:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def sample() -> dict[str, Any]:
    """One row per GPU, as nvidia-smi prints them; and the kernel's lines of Xids."""
    rows = None
    for reasons in REASONS:
        query = f"--query-gpu={FIELDS},{reasons}"
        rows = ask(["nvidia-smi", query, "--format=csv,noheader,nounits"])
        if rows:
            break
    # Only the kernel's own records, and only those that start with the driver's prefix: other records can contain names of users' programs.
    log = ask(["dmesg", "--kernel"])
    xids = [line[:200] for line in (log or "").split("\n") if XID.match(line)]
    gpus = [line for line in (rows or "").split("\n") if line.count(",") == 8]
    return {"gpus": gpus, "hung": rows == "hung", "xids": xids[-50:], "log": log is not None}


def on_gpu(index: int, ranks: int, rank: int, until: float, report: Path) -> None:
    """Multiplies on one GPU and exchanges with all others meanwhile, as a training does. Reports TFLOPS."""
    torch: Any = importlib.import_module("torch")
    torch.cuda.set_device(index)
    spread = ranks > 1
    if spread:
        torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    count = TRAFFIC // ranks * ranks
    out, back = torch.empty(count, device="cuda"), torch.empty(count, device="cuda")
    go = torch.ones(1, device="cuda")
    while go.item():
        began = time.time()
        for _ in range(50):
            work = torch.distributed.all_to_all_single(back, out, async_op=True) if spread else None
            for _ in range(4):
                torch.matmul(a, b)
            if work is not None:
                work.wait()
        torch.cuda.synchronize()
        rate = 200 * 2 * SIZE**3 / (time.time() - began) / 1e12
        with report.open("a", encoding="utf-8") as file:
            file.write(f"{rate:.1f}\n")
        go.fill_(float(time.time() < until))
        if spread:
            # Ranks that stop by their own clocks leave the others waiting.
            torch.distributed.broadcast(go, 0)


def on_processor(until: float) -> None:
    """Keeps one processor busy."""
    data = b"x" * 65536
    while time.time() < until:
        hashlib.sha512(data).digest()


def count_gpus() -> int:
    """Returns the number of GPUs that PyTorch can use; 0 without PyTorch. Runs in a separate process, because no child may inherit CUDA."""
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    said = (ask([sys.executable, "-c", code], 300) or "").strip()
    return int(said) if said.isdigit() else 0


def start(folder: Path, gpus: int, until: float) -> list[int]:
    """Starts children that load this host, on GPUs, or on processors if there are none."""
    hosts = int(os.environ.get("SLURM_NNODES") or os.environ.get("WORLD_SIZE") or 1)
    node = int(os.environ.get("SLURM_NODEID") or os.environ.get("RANK") or 0)
    children = []
    for index in range(gpus or os.cpu_count() or 1):
        child = os.fork()
        if child:
            children.append(child)
            continue
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = 1
        try:
            if gpus:
                on_gpu(index, hosts * gpus, node * gpus + index, until, folder / f"rate.{index}")
            else:
                on_processor(until)
            code = 0
        finally:
            os._exit(code)
    return children


def lost(children: list[int]) -> int:
    """Children that ended before their time."""
    gone = []
    for child in list(children):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            children.remove(child)
            if status:
                gone.append(child)
    return len(gone)


def rates(folder: Path) -> dict[str, float]:
    """The last rate that each GPU reported, TFLOPS."""
    words = {
        file.suffix[1:]: file.read_text(encoding="utf-8").split() for file in folder.glob("rate.*")
    }
    return {name: float(of[-1]) for name, of in words.items() if of}


def main(folder: Path, seconds: float, interval: float) -> None:
    """Runs until its end, or until SIGTERM; both are recorded."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    gpus = count_gpus()
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:

        def note(**what: Any) -> None:
            file.write(json.dumps({**what, "time": round(time.time(), 1)}) + "\n")
            file.flush()
            os.fsync(file.fileno())

        note(kind="sample", failed=0, rates={}, **sample())
        until = time.time() + seconds
        children = start(folder, gpus, until)
        load = "gpu" if gpus else "processor"
        note(kind="begin", seconds=seconds, interval=interval, load=load, workers=len(children))

        def stop(*_: Any) -> NoReturn:
            for child in children:
                os.kill(child, signal.SIGKILL)
            note(kind="end", why="stopped")
            os._exit(3)

        signal.signal(signal.SIGTERM, stop)
        failed = 0
        while time.time() < until:
            time.sleep(max(0.1, min(interval, until - time.time())))
            failed += lost(children)
            note(kind="sample", failed=failed, rates=rates(folder), **sample())
        deadline = time.time() + 120
        while children and time.time() < deadline:
            failed += lost(children)
            time.sleep(0.1)
        for child in children:
            os.kill(child, signal.SIGKILL)
        note(kind="end", why="done", failed=failed + len(children))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
