"""Trains a small GPT on processors with PyTorch and gloo, one process per host; runs on the hosts, as one file.

It proves launch, rendezvous, gradient exchange and log reading on a cluster. It prints a Megatron-LM style line per
step; the times are real, and say nothing of a GPU. Needs PyTorch 1.13 or newer, nothing else.
"""

import argparse
import datetime
import fcntl
import importlib
import math
import os
import re
import shutil
import socket
import struct
import subprocess  # noqa: TID251  runs on the hosts, where the package is not
import sys
import time
from typing import Any

NO_TORCH = 75
GIVE_UP = 10
"""s that ranks have to say that they, too, wait in vain; who says nothing then is the one they wait for."""
VOCABULARY = 256
SIOCGIFADDR = 0x8915


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--global-batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--timeout", type=int, default=120)
    return parser.parse_args()


def slurm(*argv: str) -> str:
    return subprocess.run(
        argv, check=True, capture_output=True, text=True, timeout=20
    ).stdout.strip()


def master_address() -> str:
    """MASTER_ADDR, else the address Slurm knows the job's first host by."""
    if given := os.environ.get("MASTER_ADDR"):
        return given
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        return "127.0.0.1"
    if shutil.which("scontrol") is None:
        # A container has Slurm's variables and the host's /etc/hosts (enroot), not Slurm's programs.
        address = socket.gethostbyname(first_of(nodes))
        own_name = address.startswith("127.")
        return own_address(os.environ["SLURM_LAUNCH_NODE_IPADDR"]) if own_name else address
    first = slurm("scontrol", "show", "hostnames", nodes).split()[0]
    for word in slurm("scontrol", "show", "node", first).split():
        if word.startswith("NodeAddr="):
            return socket.gethostbyname(word.partition("=")[2])
    return socket.gethostbyname(first)


def first_of(nodes: str) -> str:
    """The first host of Slurm's list, as gpu-02 of gpu-[02-04,7]-a,head."""
    found = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\])?([^\[,]*)", nodes)
    return "".join(part or "" for part in found.groups()) if found else nodes


def own_address(towards: str) -> str:
    """The address this host has for that one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return str(probe.getsockname()[0])


def interface_towards(address: str) -> str:
    """gloo takes the interface of the host's own name, which Debian maps to 127.0.1.1: name the right one."""
    own = own_address(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    return "lo"


def build(torch: Any, args: argparse.Namespace) -> Any:
    nn = torch.nn

    class Gpt(nn.Module):  # type: ignore[misc,name-defined]
        """Decoder only: token and position embeddings, pre-norm blocks, causal attention, tied output."""

        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, args.hidden)
            self.places = nn.Embedding(args.sequence, args.hidden)
            layer = nn.TransformerEncoderLayer(
                args.hidden,
                args.heads,
                4 * args.hidden,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            self.blocks = nn.TransformerEncoder(layer, args.layers)
            self.norm = nn.LayerNorm(args.hidden)
            mask = torch.full((args.sequence, args.sequence), float("-inf")).triu(1)
            self.register_buffer("mask", mask)

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(tokens.shape[1])
            hidden = self.tokens(tokens) * 0.5 + self.places(places) * 0.1
            hidden = self.norm(self.blocks(hidden, self.mask))
            return hidden @ self.tokens.weight.t() / math.sqrt(args.hidden)

    return Gpt()


def batch(torch: Any, generator: Any, sequences: int, length: int) -> Any:
    """Counting sequences with a random start and stride: something a small model learns in seconds."""
    start = torch.randint(0, 64, (sequences, 1), generator=generator)
    stride = torch.randint(1, 4, (sequences, 1), generator=generator)
    return (start + stride * torch.arange(length + 1)) % 64


def rendezvous(torch: Any, rank: int, world: int, timeout: int) -> "Ranks":
    address = master_address()
    job = int(os.environ.get("SLURM_JOB_ID", "0"))
    step = int(os.environ.get("SLURM_STEP_ID", "0") or 0)
    port = int(os.environ.get("MASTER_PORT") or 20000 + (job * 16 + step) % 10000)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_towards(address))
    longest = datetime.timedelta(seconds=timeout)
    # Who does not come is to be named, so nobody waits for all of them unseen.
    store = torch.distributed.TCPStore(address, port, world, rank == 0, longest, False)
    ranks = Ranks(store, rank, world)
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=longest
    )
    return ranks


class Ranks:
    """Who takes part, on which host, and who of them has given up waiting; kept where they met, by the first."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self.store, self.rank = store, rank
        here = os.environ.get("SLURMD_NODENAME") or os.environ.get("NODE_NAME")
        store.set(f"host-{rank}", here or socket.gethostname())
        self.hosts = [self.of(other) for other in range(world)]

    def of(self, other: int) -> str:
        """The host of a rank, once it is there."""
        try:
            return str(self.store.get(f"host-{other}").decode())
        except RuntimeError:
            say(f"appliance: rank {other} never came")
            raise

    def silent(self) -> list[str]:
        """Those that do not say that they wait in vain, as this one does; the first where nobody keeps the word."""
        try:
            self.store.set_timeout(datetime.timedelta(seconds=GIVE_UP))
            self.store.add(f"waited-{self.rank}", 1)
            time.sleep(GIVE_UP)
            # To add nothing is to ask without waiting; PyTorch 1.13's store has no other way.
            left = [n for n in range(len(self.hosts)) if not self.store.add(f"waited-{n}", 0)]
        except RuntimeError:
            left = [0]
        return [f"rank {n} on {self.hosts[n]}" for n in left if n != self.rank]


def train(torch: Any, args: argparse.Namespace, rank: int, world: int) -> None:
    """Every rank takes its share of one global batch; the last rank prints, as in Megatron-LM."""
    torch.manual_seed(args.seed)
    model = torch.nn.parallel.DistributedDataParallel(build(torch, args))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    generator = torch.Generator().manual_seed(args.seed)
    share = args.global_batch // world
    if rank == world - 1:
        size = sum(p.numel() for p in model.parameters())
        say(
            f"model: {size} parameters, {world} hosts, sequence {args.sequence}, torch {torch.__version__}"
        )
    for step in range(1, args.steps + 1):
        torch.distributed.barrier()
        began = time.monotonic()
        data = batch(torch, generator, args.global_batch, args.sequence)
        mine = data[rank * share : (rank + 1) * share]
        optimizer.zero_grad(set_to_none=True)
        logits = model(mine[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), mine[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        if rank == world - 1:
            report(step, args, time.monotonic() - began, float(mean) / world, float(norm))


def report(step: int, args: argparse.Namespace, seconds: float, loss: float, norm: float) -> None:
    say(
        f" iteration {step:8d}/{args.steps:8d} | consumed samples: {step * args.global_batch:12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} | learning rate: 1.000000E-03 |"
        f" global batch size: {args.global_batch:5d} | lm loss: {loss:.6E} | grad norm: {norm:.3f} |"
        f" number of skipped iterations:   0 | number of nan iterations: {int(not math.isfinite(loss)):3d} |"
    )


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    args = options()
    rank = int(os.environ.get("SLURM_PROCID") or os.environ.get("RANK") or 0)
    world = int(os.environ.get("SLURM_NTASKS") or os.environ.get("WORLD_SIZE") or 1)
    if args.global_batch % world:
        say(f"appliance: a global batch of {args.global_batch} does not divide by {world} hosts")
        return 2
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ImportError as error:
        say(f"appliance: no torch on {socket.gethostname()}: {error}")
        return NO_TORCH
    torch.set_num_threads(int(os.environ.get("SLURM_CPUS_PER_TASK", "1")))
    ranks = rendezvous(torch, rank, world, args.timeout)
    try:
        train(torch, args, rank, world)
        torch.distributed.barrier()
    except RuntimeError as error:
        # What went wrong here is no other's: gloo speaks of others.
        for name in ranks.silent() if "gloo" in str(error) else ():
            say(f"appliance: {name} does not go on")
        say(str(error))
        return 1
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
