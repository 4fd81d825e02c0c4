"""Nccl cluster, as several test modules use it."""

from collections.abc import Sequence
from pathlib import Path

from appliance.adapters.process import Completed
from appliance.checks.check import View
from tests.support.batches import Batches, answer, labelled, value
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

DATA = Path(__file__).parents[1] / "data/benchmarks/nccl"


HOST, PAIR = (DATA / "host.txt").read_text(), (DATA / "two-hosts.txt").read_text()


A100 = "NVIDIA A100-SXM4-80GB"


def view(count: int, gpu: str = A100, gpus: int = 8) -> View:
    names = [f"gpu-{i}" for i in range(1, count + 1)]
    fabric = {"link_layer": "InfiniBand", "ports": 8, "rate_gbps": 200}
    profile = profile_of(fabric=fabric, gpu={"count": gpus})
    facts = {name: facts_of(name, gpus=gpus_of(gpu, gpus)) for name in names}
    return View(profile, site_of("head", *names), facts)


def table(hosts: Sequence[str], busbw: float = 191.0) -> str:
    """The made-up table of two hosts, of these hosts and with this plateau."""
    head, rest = PAIR.split("#  Rank", 1)[0], PAIR[PAIR.index("#\n#    ") :]
    ranks = "".join(
        f"#  Rank {8 * h + g:2d} Group  0 Pid {g:6d} on {host:>10} device {g:2d} [0x0{g}] {A100}\n"
        for h, host in enumerate(hosts)
        for g in range(8)
    )
    return head + ranks + at(rest, "190.99", busbw)


def at(text: str, shown: str, busbw: float) -> str:
    """The table with another bus bandwidth of its largest message, and the time that makes it."""
    line = next((line for line in text.splitlines() if f" {shown} " in line), "")
    if not line:
        return text
    size, *_, time, rate, _, _ = line.split()[:9]
    faster = float(rate) * busbw / float(shown)
    made = line.replace(f" {shown} ", f" {busbw:.2f} ").replace(f" {rate} ", f" {faster:.4f} ")
    return text.replace(line, made.replace(f" {time} ", f" {int(size) / faster / 1000:.2f} "))


class Cluster(Batches):
    """A control host whose srun answers with the tables of hosts, some of which slow every group they are in."""

    def __init__(self, slow: Sequence[str] = (), alone: str = HOST) -> None:
        super().__init__()
        self.slow, self.alone = slow, alone
        self.jobs: list[tuple[str, ...]] = []

    def step(self, argv: Sequence[str]) -> Completed:
        nodes = value(argv, "--nodelist").split(",")
        self.jobs.append(tuple(argv))
        if len(nodes) == 1:
            text = self.alone.replace("gpu-1 ", f"{nodes[0]} ")
        else:
            text = table(nodes, 60.0 if set(nodes) & set(self.slow) else 191.0)
        silent = labelled(*(answer(node, "") for node in nodes[1:]), first=8)
        said = f"{labelled(answer(nodes[0], text))}\n{silent}"
        return Completed(tuple(argv), 0, said, "")
