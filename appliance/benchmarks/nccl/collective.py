"""Measures a collective between hosts with PyTorch. Runs there as one file, with Python 3.8 and newer.

    collective.py KIND MOST gpus|processors

KIND: all_reduce, all_gather, reduce_scatter or alltoall; MOST: bytes of the largest message. RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT describe the hosts, NODE_NAME is the own one. Each GPU has a process; without GPUs there is one process for each host.
The first host prints one JSON object a line: "begin", one "row" for each size, "end". Bandwidths are defined as in nccl-tests (doc/PERFORMANCE.md).
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import signal
import socket
import subprocess  # noqa: TID251  runs on the hosts, where the package is not
import sys
import time
from collections.abc import Callable
from typing import Any

LEAST = 1 << 13
"""Bytes of the smallest message."""
WARM, COUNTED = 5, 20
FEW = 3
"""Exchanges that are timed without GPUs."""
JOIN_S, EXCHANGE_S = 120, 60
"""For all ranks to join, and for one size."""
GRACE_S, IN_VAIN = 3, 3
"""Wait before the end, and exit code, of a process that waited in vain for another."""
NO_TORCH = 4
"""Exit code of a host without PyTorch, or whose PyTorch sees no GPU."""
FACTOR: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "alltoall": lambda ranks: (ranks - 1) / ranks,
}
"""Bus bandwidth by bytes per second."""
PERIOD = 31
"""The values repeat after so many elements, so that data at a wrong place is wrong data; sums stay exact in float32."""


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def count_gpus() -> int:
    """GPUs that PyTorch can use. A separate process asks, because no child may inherit CUDA."""
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=False, timeout=120
    )
    said = done.stdout.decode("utf-8", "replace").strip()
    return int(said) if said.isdigit() else -1


class Exchange:
    """One collective of one size: buffers with known values, and what they must become."""

    def __init__(
        self, torch: Any, kind: str, size: int, device: str, rank: int, world: int
    ) -> None:
        self.torch, self.kind, self.rank, self.world = torch, kind, rank, world
        self.count = max(1, size // 4 // world) * world
        self.size = self.count * 4
        share = self.count // world
        make = torch.zeros
        self.out = make(share if kind == "reduce_scatter" else self.count, device=device)
        given = share if kind == "all_gather" else self.count
        self.given = self.values(given, rank)

    def values(self, count: int, rank: int) -> Any:
        """What a rank contributes: its number and a pattern."""
        pattern = self.torch.arange(count, device=self.out.device) % PERIOD
        return (pattern + rank).to(self.torch.float32)

    def run(self) -> None:
        """One exchange whose result is known. Raises RuntimeError if the backend has none of its kind."""
        if self.kind == "all_reduce":
            self.out.copy_(self.given)
            self.torch.distributed.all_reduce(self.out)
        else:
            self.again()

    def again(self) -> None:
        """The same traffic without a copy: sums would grow without end, so the maximum is taken."""
        dist = self.torch.distributed
        lists = self.out.device.type == "cpu"
        if self.kind == "all_reduce":
            dist.all_reduce(self.out, dist.ReduceOp.MAX)
        elif self.kind == "all_gather" and lists:
            dist.all_gather(list(self.out.chunk(self.world)), self.given)
        elif self.kind == "all_gather":
            dist.all_gather_into_tensor(self.out, self.given)
        elif self.kind == "reduce_scatter" and lists:
            dist.reduce_scatter(self.out, list(self.given.chunk(self.world)))
        elif self.kind == "reduce_scatter":
            dist.reduce_scatter_tensor(self.out, self.given)
        else:
            dist.all_to_all_single(self.out, self.given)

    def wrong(self) -> int:
        """Elements that differ from what they must be."""
        share = self.count // self.world
        ranks = range(self.world)
        if self.kind == "all_reduce":
            expected = self.values(self.count, 0) * self.world + sum(ranks)
        elif self.kind == "all_gather":
            expected = self.torch.cat([self.values(share, rank) for rank in ranks])
        elif self.kind == "reduce_scatter":
            own = slice(self.rank * share, (self.rank + 1) * share)
            expected = (self.values(self.count, 0) * self.world + sum(ranks))[own]
        else:
            own = slice(self.rank * share, (self.rank + 1) * share)
            expected = self.torch.cat([self.values(self.count, rank)[own] for rank in ranks])
        return int((self.out != expected).sum())


def measure(
    torch: Any, store: Any, kind: str, most: int, device: str, rank: int, world: int
) -> None:
    """All sizes. The time of a size is that of the slowest rank."""
    on_gpu = device != "cpu"
    size = LEAST
    while size <= most:
        exchange = Exchange(torch, kind, size, device, rank, world)
        exchange.run()
        store.add(f"wrong-{size}", exchange.wrong())
        for _ in range(WARM if on_gpu else 1):
            exchange.again()
        times = COUNTED if on_gpu else FEW
        settle(torch, on_gpu)
        torch.distributed.barrier()
        began = time.perf_counter()
        for _ in range(times):
            exchange.again()
        settle(torch, on_gpu)
        spent = torch.tensor([(time.perf_counter() - began) / times], device=device)
        torch.distributed.all_reduce(spent, torch.distributed.ReduceOp.MAX)
        seconds = float(spent)
        if rank == 0:
            rate = exchange.size / seconds / 1e9
            say(
                kind="row",
                size=exchange.size,
                us=round(seconds * 1e6, 3),
                busbw=float(f"{rate * FACTOR[kind](world):.4g}"),
                wrong=store.add(f"wrong-{size}", 0),
            )
        size *= 2


def settle(torch: Any, on_gpu: bool) -> None:
    """Waits for the GPU. Raises RuntimeError before NCCL ends the program, which would blame this host."""
    if not on_gpu:
        return
    work = torch.cuda.Event()
    work.record()
    ends = time.monotonic() + EXCHANGE_S
    while not work.query():
        if time.monotonic() > ends:
            raise RuntimeError(f"the GPUs waited in vain for {EXCHANGE_S} s")
        time.sleep(0.0002)


def of_rank(kind: str, most: int, index: int, gpus: int) -> int:
    """The work of one process; its exit code."""
    torch: Any = importlib.import_module("torch")
    each = max(1, gpus)
    node, hosts = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rank, world = node * each + index, hosts * each
    device = f"cuda:{index}" if gpus else "cpu"
    if gpus:
        torch.cuda.set_device(index)
    torch.set_num_threads(1)
    here = os.environ.get("NODE_NAME") or socket.gethostname()
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    longest = datetime.timedelta(seconds=JOIN_S)
    store = torch.distributed.TCPStore(address, port, world, rank == 0, longest, False)
    name = torch.cuda.get_device_name(index) if gpus else "processors"
    store.set(f"rank-{rank}", json.dumps({"host": here, "device": index, "name": name}))
    try:
        ranks = [json.loads(store.get(f"rank-{other}")) for other in range(world)]
        if not gpus:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_towards(address, port))
        torch.distributed.init_process_group(
            "nccl" if gpus else "gloo",
            store=store,
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=EXCHANGE_S),
        )
        if rank == 0:
            backend = f"torch {torch.__version__}"
            say(kind="begin", collective=kind, program=backend, gpus=bool(gpus), ranks=ranks)
        measure(torch, store, kind, most, device, rank, world)
        torch.distributed.barrier()
    except RuntimeError as error:
        said = str(error).strip().partition("\n")[0]
        complain(f"rank {rank} on {here}: {said or type(error).__name__}")
        # The others find out, too, before this end closes their connections.
        time.sleep(GRACE_S)
        return IN_VAIN
    if rank == 0:
        say(kind="end")
    return 0


def interface_towards(address: str, port: int) -> str:
    """The interface of the route to an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))
        own = probe.getsockname()[0]
    done = subprocess.run(
        ["ip", "-json", "address", "show"], stdout=subprocess.PIPE, check=False, timeout=30
    )
    for link in json.loads(done.stdout or b"[]"):
        if any(one.get("local") == own for one in link.get("addr_info", [])):
            return str(link["ifname"])
    return "lo"


def main(kind: str, most: int, allowed: str) -> int:
    """Starts a process for each GPU, and ends them all where one fails."""
    gpus = count_gpus()
    here = os.environ.get("NODE_NAME") or socket.gethostname()
    if gpus < 0:
        complain(f"no PyTorch on {here}")
        return NO_TORCH
    if not gpus and allowed == "gpus":
        complain(f"PyTorch sees no GPU on {here}")
        return NO_TORCH
    children = {}
    for index in range(max(1, gpus)):
        child = os.fork()
        if not child:
            code = 1
            try:
                code = of_rank(kind, most, index, gpus)
            finally:
                sys.stdout.flush()
                os._exit(code)
        children[child] = index
    worst = 0
    while children:
        child, status = os.wait()
        index = children.pop(child)
        if status and not worst:
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            worst = 128 + number if number else os.WEXITSTATUS(status)
            if number:
                complain(f"the process of GPU {index} on {here} was ended by signal {number}")
            for other in children:
                os.kill(other, signal.SIGKILL)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
