"""Trains a GPT with PyTorch alone: a small one on processors, one process per host, or one on GPUs, one process per GPU. Runs on the hosts, as one file.

The small one tests launch, rendezvous, gradient exchange and log reading on a cluster. Its times are real, but do not
describe a GPU. Both print a line per step in the style of Megatron-LM. Requires PyTorch 1.13 or newer, 2.1 for GPUs.
"""

import argparse
import contextlib
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
"""Time in s in which ranks report that they, too, wait in vain. The rank that does not report is the one for which they wait."""
IN_VAIN = "NCCL waited in vain"
SIOCGIFADDR = 0x8915


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", action="store_true")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--global-batch", type=int, default=8)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--timeout", type=int, default=120)
    return parser.parse_args()


def slurm(*argv: str) -> str:
    return subprocess.run(
        argv, check=True, capture_output=True, text=True, timeout=20
    ).stdout.strip()


def master_address() -> str:
    """Returns MASTER_ADDR, or the address that Slurm has for the job's first host."""
    if given := os.environ.get("MASTER_ADDR"):
        return given
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        return "127.0.0.1"
    if shutil.which("scontrol") is None:
        # A container has Slurm's variables and the host's /etc/hosts (enroot), but not Slurm's programs.
        address = socket.gethostbyname(first_of(nodes))
        own_name = address.startswith("127.")
        return own_address(os.environ["SLURM_LAUNCH_NODE_IPADDR"]) if own_name else address
    first = slurm("scontrol", "show", "hostnames", nodes).split()[0]
    for word in slurm("scontrol", "show", "node", first).split():
        if word.startswith("NodeAddr="):
            return socket.gethostbyname(word.partition("=")[2])
    return socket.gethostbyname(first)


def first_of(nodes: str) -> str:
    """Returns the first host of Slurm's list, such as gpu-02 of gpu-[02-04,7]-a,head."""
    found = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\])?([^\[,]*)", nodes)
    return "".join(part or "" for part in found.groups()) if found else nodes


def own_address(towards: str) -> str:
    """Returns the local address from which this host reaches that one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return str(probe.getsockname()[0])


def interface_towards(address: str) -> str:
    """gloo uses the interface of the host's own name, which Debian maps to 127.0.1.1, so set the right one."""
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
    nn, functional = torch.nn, torch.nn.functional
    size = args.hidden // args.heads

    def attend(query: Any, key: Any, value: Any) -> Any:
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mask = torch.full((query.shape[2], key.shape[2]), float("-inf")).triu(1)
        scores = query @ key.transpose(2, 3) / math.sqrt(size) + mask
        return scores.softmax(-1) @ value

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        """Pre-norm block: causal attention, then a feed-forward network of four times the width."""

        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(args.hidden), nn.LayerNorm(args.hidden)
            self.asked = nn.Linear(args.hidden, 3 * args.hidden)
            self.seen = nn.Linear(args.hidden, args.hidden)
            self.up = nn.Linear(args.hidden, 4 * args.hidden)
            self.down = nn.Linear(4 * args.hidden, args.hidden)

        def forward(self, hidden: Any) -> Any:
            shape = (*hidden.shape[:2], 3, args.heads, size)
            asked = self.asked(self.before(hidden)).view(shape).permute(2, 0, 3, 1, 4)
            hidden = hidden + self.seen(attend(*asked).transpose(1, 2).reshape(hidden.shape))
            return hidden + self.down(functional.gelu(self.up(self.between(hidden))))

    class Gpt(nn.Module):  # type: ignore[misc,name-defined]
        """Decoder only: token and position embeddings, blocks, tied output."""

        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(args.vocabulary, args.hidden)
            self.places = nn.Embedding(args.sequence, args.hidden)
            self.blocks = nn.Sequential(*(Block() for _ in range(args.layers)))
            self.norm = nn.LayerNorm(args.hidden)
            for one in self.parameters():
                if one.dim() > 1:
                    nn.init.normal_(one, std=0.02)

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            hidden = self.norm(self.blocks(self.tokens(tokens) + self.places(places)))
            return functional.linear(hidden, self.tokens.weight)

    return Gpt()


def batch(torch: Any, generator: Any, args: argparse.Namespace) -> Any:
    """Generates tokens with the frequencies of words (Zipf): the second is half as frequent as the first, so that the model can learn something."""
    drawn = torch.rand(args.global_batch, args.sequence + 1, generator=generator)
    return (args.vocabulary**drawn).long() - 1


def rendezvous(torch: Any, rank: int, world: int, timeout: int, gpus: bool) -> "Ranks":
    address = master_address()
    job = int(os.environ.get("SLURM_JOB_ID", "0"))
    step = int(os.environ.get("SLURM_STEP_ID", "0") or 0)
    port = int(os.environ.get("MASTER_PORT") or 20000 + (job * 16 + step) % 10000)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_towards(address))
    longest = datetime.timedelta(seconds=timeout)
    # A rank that does not join must be named, so do not wait for all of them in one unlimited call.
    store = torch.distributed.TCPStore(address, port, world, rank == 0, longest, False)
    ranks = Ranks(store, rank, world)
    # Ranks on GPUs also meet through gloo, because it reports missing ranks, while NCCL ends the program.
    backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    torch.distributed.init_process_group(
        backend, store=store, rank=rank, world_size=world, timeout=longest
    )
    return ranks


class Ranks:
    """Records the ranks, their hosts, and the ranks that gave up waiting, in the store of the first rank."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self.store, self.rank = store, rank
        here = os.environ.get("SLURMD_NODENAME") or os.environ.get("NODE_NAME")
        store.set(f"host-{rank}", here or socket.gethostname())
        self.hosts = [self.of(other) for other in range(world)]

    def of(self, other: int) -> str:
        """Returns the host of a rank that has joined."""
        try:
            return str(self.store.get(f"host-{other}").decode())
        except RuntimeError:
            say(f"appliance: rank {other} never started")
            raise

    def silent(self) -> list[str]:
        """Returns the ranks that do not report that they wait in vain, as this one does; the first one if the store is lost."""
        try:
            self.store.set_timeout(datetime.timedelta(seconds=GIVE_UP))
            self.store.add(f"waited-{self.rank}", 1)
            time.sleep(GIVE_UP)
            # Adding 0 reads a counter without waiting; the store of PyTorch 1.13 has no other way.
            left = [n for n in range(len(self.hosts)) if not self.store.add(f"waited-{n}", 0)]
        except RuntimeError:
            left = [0]
        return [f"rank {n} on {self.hosts[n]}" for n in left if n != self.rank]


def train(torch: Any, args: argparse.Namespace, rank: int, world: int, device: str) -> None:
    """Every rank trains its share of one global batch. The last rank prints, as in Megatron-LM."""
    torch.manual_seed(args.seed)
    model = torch.nn.parallel.DistributedDataParallel(build(torch, args).to(device))
    # One kernel for all weights, which is available in every release only for GPUs.
    fused = {"fused": True} if args.gpus else {}
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.1, **fused
    )
    generator = torch.Generator().manual_seed(args.seed)
    share = args.global_batch // world
    if rank == world - 1:
        describe(torch, args, model, world, device)
    for step in range(1, args.steps + 1):
        data = batch(torch, generator, args)[rank * share : (rank + 1) * share].to(device)
        meet(torch, 0.0)
        began = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        loss = losses(torch, args, model, data)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if args.gpus:
            settle(torch, args.timeout / 2)
        mean = meet(torch, float(loss)) / world
        if rank == world - 1:
            report(step, args, time.monotonic() - began, mean, float(norm))


def losses(torch: Any, args: argparse.Namespace, model: Any, data: Any) -> Any:
    """Returns the mean loss of a rank's share, micro-batch by micro-batch. Gradients are exchanged with the last one."""
    parts = data.split(args.micro_batch)
    total = 0.0
    for number, part in enumerate(parts, 1):
        alone = model.no_sync() if number < len(parts) else contextlib.nullcontext()
        half = torch.autocast("cuda", torch.bfloat16) if args.gpus else contextlib.nullcontext()
        with alone:
            with half:
                logits = model(part[:, :-1]).flatten(0, 1)
                loss = torch.nn.functional.cross_entropy(logits, part[:, 1:].flatten())
                loss = loss * (len(part) / len(data))
            loss.backward()
        total = total + loss.detach()
    return total


def settle(torch: Any, seconds: float) -> None:
    """Waits until the GPU has finished. Raises RuntimeError before NCCL ends the program, because otherwise this host would be blamed."""
    work = torch.cuda.Event()
    work.record()
    ends = time.monotonic() + seconds
    while not work.query():
        if time.monotonic() > ends:
            raise RuntimeError(f"{IN_VAIN} for {seconds:g} s")
        time.sleep(0.0002)


def meet(torch: Any, value: float) -> float:
    """Waits for all ranks and returns the sum of their values."""
    given = torch.tensor([value], dtype=torch.float64)
    torch.distributed.all_reduce(given)
    return float(given)


def describe(torch: Any, args: argparse.Namespace, model: Any, world: int, device: str) -> None:
    size = sum(p.numel() for p in model.parameters())
    where = torch.cuda.get_device_name(device) if args.gpus else "processors"
    say(f"model: {size} parameters on {where}, trained by PyTorch alone: {torch.__version__}")
    say(
        f"using world size: {world}, seq_length: {args.sequence}, global_batch_size: {args.global_batch}, micro-batch {args.micro_batch}"
    )


def report(step: int, args: argparse.Namespace, seconds: float, loss: float, norm: float) -> None:
    say(
        f" iteration {step:8d}/{args.steps:8d} | consumed samples: {step * args.global_batch:12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} | learning rate: {args.rate:.6E} |"
        f" global batch size: {args.global_batch:5d} | lm loss: {loss:.6E} | grad norm: {norm:.3f} |"
        f" number of skipped iterations:   0 | number of nan iterations: {int(not math.isfinite(loss)):3d} |"
    )


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    args = options()
    rank = int(os.environ.get("SLURM_PROCID") or os.environ.get("RANK") or 0)
    world = int(os.environ.get("SLURM_NTASKS") or os.environ.get("WORLD_SIZE") or 1)
    if args.global_batch % world:
        say(f"appliance: a global batch of {args.global_batch} is not divisible by {world} ranks")
        return 2
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ImportError as error:
        say(f"appliance: no torch on {socket.gethostname()}: {error}")
        return NO_TORCH
    device = "cpu"
    if args.gpus:
        index = int(os.environ.get("SLURM_LOCALID") or os.environ.get("LOCAL_RANK") or 0)
        count = torch.cuda.device_count()
        if index >= count:
            say(f"appliance: no GPU {index} on {socket.gethostname()}: PyTorch sees {count}")
            return 2
        device = f"cuda:{index}"
        try:
            torch.cuda.set_device(device)
        except RuntimeError as error:
            # NVML gives the number even if the driver is too old for this PyTorch, or broken.
            say(f"appliance: no GPU {index} on {socket.gethostname()}: {first_line(error)}")
            return 2
    torch.set_num_threads(int(os.environ.get("SLURM_CPUS_PER_TASK", "1")))
    ranks = rendezvous(torch, rank, world, args.timeout, args.gpus)
    try:
        train(torch, args, rank, world, device)
        torch.distributed.barrier()
    except RuntimeError as error:
        # An error of this rank itself; gloo reports errors of other ranks.
        if "gloo" in str(error) or IN_VAIN in str(error):
            for name in ranks.silent():
                say(f"appliance: {name} does not respond")
        else:
            say(f"appliance: rank {rank} on {ranks.hosts[rank]}: {first_line(error)}")
        say(str(error))
        return 1
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
