"""Perftest cluster, as several test modules use it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from appliance.adapters.process import Completed
from appliance.checks.check import View
from tests.support.batches import Batches, answer, labelled, value
from tests.support.facts import facts_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

DATA = Path(__file__).parents[1] / "data/benchmarks/perftest"


BW, LAT = (DATA / "bw.txt").read_text(), (DATA / "lat.txt").read_text()


RAILS = ("mlx5_0", "mlx5_1")


def view(names: Sequence[str]) -> View:
    profile = profile_of(fabric={"link_layer": "InfiniBand", "ports": 2, "rate_gbps": 200})
    ports: list[dict[str, Any]] = [
        {
            "device": device,
            "port": 1,
            "state": "4: ACTIVE",
            "physical": "5: LinkUp",
            "rate": 200,
            "link_layer": "InfiniBand",
        }
        for device in RAILS
    ]
    return View(
        profile, site_of("head", *names), {name: facts_of(name, ports=ports) for name in names}
    )


class Cluster(Batches):
    """srun whose pairs are slow where a bad end ("gpu-2/mlx5_1") or path is in them."""

    def __init__(self, *bad: str, paths: Sequence[frozenset[str]] = (), cuda: bool = False) -> None:
        super().__init__()
        self.bad, self.paths, self.cuda = set(bad), paths, cuda
        self.pairs: list[frozenset[str]] = []

    def step(self, argv: Sequence[str]) -> Completed:
        nodes = value(argv, "--nodelist").split(",")
        self.pairs.append(frozenset(nodes))
        lines = []
        for device in RAILS:
            slow = {f"{node}/{device}" for node in nodes} & self.bad
            slow |= {device} if frozenset(nodes) in self.paths else set()
            text = BW.replace("197.20", "97.20") if slow else BW
            lines += [
                f"appliance-part write_bw {device}",
                text,
                f"appliance-part write_lat {device}",
                LAT,
            ]
            lines += [f"appliance-part gpu_write_bw {device}", text] if self.cuda else []
        said = "\n".join(lines)
        told = labelled(answer(nodes[0], ""), answer(nodes[1], said))
        return Completed(tuple(argv), 0, told, "")
