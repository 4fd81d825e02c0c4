"""Discovers fabrics of 4, 64 and 512 hosts x 8 rails with the real tool on ibsim, and measures what follows per port."""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from appliance.adapters.process import run, spawn
from appliance.checks.check import ClusterCheck, HostCheck, View
from appliance.config.load import load_profile
from appliance.errors import ApplianceError
from appliance.lab import processes
from appliance.lab.recipe import LIB_FOLDER
from appliance.lab.spec import cache_root
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.stages.fabric.checks import CHECKS as ALL_CHECKS
from appliance.stages.fabric.collect import topology
from appliance.stages.fabric.facts import Topology
from appliance.stages.fabric.switch_tree import SwitchTree, kubernetes, slurm, switch_tree
from benchmarks.__main__ import machine
from benchmarks.fabric_netlist import PER_LEAF, RAILS, SPINES, Fabric, adapter

CHECKS = [c for c in ALL_CHECKS if c.id not in {"fabric.firmware", "fabric.driver"}]
"""ibsim has no adapters whose firmware or driver could be told."""

SIZES = (4, 64, 512)
PORT = 7950
BAR = 2.0
"""How many times dearer a port of the largest fabric may be than one of the middle size, in every step of ours."""
STEPS = ("parse", "compare", "topology")
LIMITS = ("-N", "8192", "-S", "1024", "-P", "65536")


@dataclass(frozen=True)
class Size:
    """What one fabric cost: seconds of the tool, processor seconds of each step of ours, the median of the rounds."""

    hosts: int
    ports: int
    nodes: int
    cables: int
    discovery: float
    seconds: dict[str, float]

    def per_port(self, step: str) -> float:
        """Microseconds."""
        return self.seconds[step] / self.ports * 1e6


@click.command()
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(3))
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures as JSON.")
def main(rounds: int, output: Path | None) -> None:
    """Exit: 0 where every result is right and no port of the largest fabric is twice as dear as one of 64 hosts."""
    sizes = [_measure(hosts, rounds) for hosts in SIZES]
    _show(sizes)
    ratios = {step: sizes[-1].per_port(step) / sizes[-2].per_port(step) for step in STEPS}
    click.echo(
        "A port of 512 hosts against one of 64: "
        + ", ".join(f"{step} {ratio:.2f}" for step, ratio in ratios.items())
        + f" (the bar: below {BAR:g})."
    )
    if output:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "ratios": ratios,
            "sizes": [asdict(size) for size in sizes],
        }
        output.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(0 if max(ratios.values()) < BAR else 1)


def _measure(hosts: int, rounds: int) -> Size:
    good = Fabric(hosts)
    said, discovery = _discover(good)
    found = Topology.model_validate(topology.parse(said))
    view = _view(hosts, found)
    _expect(good, view)
    last = good.leaves[-1]
    bad = Fabric(hosts, swapped=(hosts - 1, 2, 5), cut={(last, SPINES)})
    _expect_faults(bad, _view(hosts, _parsed(_discover(bad)[0])), last)
    known = {name: facts for name, facts in view.facts.items() if name != "head"}
    seconds = {
        "parse": _median(rounds, lambda: _parsed(said)),
        "compare": _median(rounds, lambda: _judge(view)),
        "topology": _median(rounds, lambda: _both(switch_tree(known, found))),
    }
    nodes = len(found.hcas) + len(found.switches)
    return Size(hosts, hosts * RAILS, nodes, len(found.links), discovery, seconds)


def _parsed(said: str) -> Topology:
    return Topology.model_validate(topology.parse(said))


def _both(tree: SwitchTree) -> object:
    return slurm(tree), kubernetes(tree)


def _judge(view: View) -> list[CheckResult]:
    """Every check of the fabric on every host."""
    results = [r for c in CHECKS if isinstance(c, ClusterCheck) for r in c.results(view)]
    for host in view.site.hosts:
        for check in CHECKS:
            if isinstance(check, HostCheck) and check.roles.intersection(host.roles):
                results += check.results(view, host, view.facts[host.name])
    return results


def _expect(fabric: Fabric, view: View) -> None:
    """All is found, all is good, and the tree is the one that was built. Raises AssertionError."""
    found = view.facts["head"].topology
    assert found
    assert len(found.hcas) == fabric.hosts * RAILS
    assert len(found.switches) == len(fabric.leaves) + SPINES
    assert len(found.links) == len(list(fabric.cables()))
    results = _judge(view)
    assert {r.status for r in results} == {Status.PASS}, [
        r for r in results if r.status != Status.PASS
    ]
    tree = switch_tree({n: f for n, f in view.facts.items() if n != "head"}, found)
    lowest = [block for block in tree.blocks if block.hosts]
    assert [len(block.hosts) for block in lowest] == [
        min(PER_LEAF, fabric.hosts - first) for first in range(0, fabric.hosts, PER_LEAF)
    ]
    assert len(tree.blocks) == len(lowest) + (len(lowest) > 1)
    assert len(kubernetes(tree)) == fabric.hosts


def _expect_faults(fabric: Fabric, view: View, leaf: str) -> None:
    """Two swapped cables and a missing one between switches are found, and nothing else."""
    bad = [r for r in _judge(view) if r.status is not Status.PASS]
    host = f"gpu-{fabric.hosts - 1}"
    assert [(r.id, r.target) for r in bad] == [
        ("fabric.cabling", f"{host}/mlx5_2"),
        ("fabric.cabling", "cluster"),
    ], bad
    assert f"mlx5_5 of {host}" in bad[0].cause
    assert bad[1].cause == f"0 of 1 cables between {leaf} and spine-{SPINES} are up"


def _median(rounds: int, work: Callable[[], object]) -> float:
    """Processor seconds. What is already there is kept out of the collector's sight: it is the benchmark's own."""
    gc.collect()
    gc.freeze()
    times = []
    for _ in range(rounds):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    gc.unfreeze()
    return median(times)


def _view(hosts: int, found: Topology) -> View:
    """A site of that many hosts, whose ports are as they would be with a subnet manager."""
    names = [f"gpu-{n}" for n in range(hosts)]
    site = Site.model_validate_json(
        json.dumps(
            {
                "version": 1,
                "name": "benchmark",
                "networks": {"management": {"cidr": "10.0.0.0/16"}},
                "hosts": [
                    {"name": "head", "roles": ["control"], "address": "10.0.255.1"},
                    *(
                        {
                            "name": name,
                            "roles": ["gpu"],
                            "address": f"10.0.{n // 200}.{n % 200 + 1}",
                        }
                        for n, name in enumerate(names)
                    ),
                ],
                "fabric": {"cabling": "rail-optimised"},
            }
        )
    )
    master = {"state": "MASTER", "guid": "0x1", "priority": 14}
    facts = {name: _facts(name, ports=_ports(n)) for n, name in enumerate(names)}
    head = _facts("head", subnet_manager=master).model_copy(update={"topology": found})
    return View(load_profile("hpc"), site, {"head": head, **facts})


def _ports(host: int) -> list[dict[str, Any]]:
    return [
        {
            "device": adapter(host, rail).partition(" ")[2],
            "port": 1,
            "state": "ACTIVE",
            "physical": "LinkUp",
            "rate": 200.0,
            "link_layer": "InfiniBand",
            "counters": {"symbol_error": 0},
        }
        for rail in range(RAILS)
    ]


def _facts(host: str, **more: object) -> HostFacts:
    system = {
        "id": "debian",
        "version_id": "12",
        "kernel": "6.1",
        "boot_id": "b",
        "hostname": host,
        "cgroup": "v2",
    }
    return HostFacts.model_validate(
        {
            "version": 1,
            "host": host,
            "taken": "2026-11-21T12:00:00Z",
            "cpu_seconds": 0.1,
            "user": "root",
            "os": system,
            "cpu": {"model": "x", "sockets": 2, "cores": 96, "threads": 192},
            "memory": {"total": 1, "available": 1},
            "clock": {"time": 1.0},
            **more,
        }
    )


def _discover(fabric: Fabric) -> tuple[str, float]:
    """What ibnetdiscover prints of it, and how long it took, seconds."""
    with TemporaryDirectory() as folder, _simulated(fabric, Path(folder)) as argv:
        began = time.perf_counter()
        done = run(argv, env=_client(fabric), cwd=Path(folder), timeout=300)
        return done.stdout, time.perf_counter() - began


@contextmanager
def _simulated(fabric: Fabric, folder: Path) -> Iterator[tuple[str, ...]]:
    """ibsim at work on the fabric; gives the command line of the real ibnetdiscover on it."""
    base, tools = _base(), _tools(folder)
    (folder / "netlist").write_text(fabric.netlist())
    loader = (str(base / "lib64/ld-linux-x86-64.so.2"), "--library-path")
    own = (*loader, str(base / LIB_FOLDER), str(base / "usr/bin/ibsim"))
    log = folder / "ibsim.log"
    pid = spawn(
        (*own, "-s", "-n", "-r", "-l", str(PORT), *LIMITS, str(folder / "netlist")), log=log
    )
    try:
        _wait(log)
        yield (
            *loader,
            f"{tools / LIB_FOLDER}:{base / LIB_FOLDER}",
            "--preload",
            str(base / LIB_FOLDER / "umad2sim/libumad2sim.so"),
            str(tools / "usr/sbin/ibnetdiscover"),
        )
    finally:
        processes.kill(pid)


def _client(fabric: Fabric) -> dict[str, str]:
    first = fabric.netlist().rpartition(f'# "{adapter(0, 0)}"')[0].rpartition('Ca 1 "')[2]
    return {
        "IBSIM_SERVER_NAME": "127.0.0.1",
        "IBSIM_SERVER_PORT": str(PORT),
        "SIM_HOST": first.partition('"')[0],
    }


def _wait(log: Path) -> None:
    deadline = time.monotonic() + 60
    while "Network simulator ready" not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise ApplianceError("ibsim does not start", log.read_text(errors="replace")[-300:])
        time.sleep(0.05)


def _base() -> Path:
    """The rack's base image, which has ibsim and the libraries."""
    for found in sorted(cache_root().glob("lab/base-*")):
        if (found / "usr/bin/ibsim").exists():
            return found
    raise ApplianceError("there is no rack image yet", "appliance lab up makes it; then repeat")


def _tools(folder: Path) -> Path:
    """The real tool out of the packages the rack's image was given."""
    target = folder / "tools"
    for name in ("infiniband-diags", "libibnetdisc5"):
        packages = sorted(cache_root().glob(f"lab/packages-*/var/cache/apt/archives/{name}_*.deb"))
        if not packages:
            raise ApplianceError(f"the rack's image has no package {name}", "appliance lab up")
        run(("dpkg", "-x", str(packages[-1]), str(target)))
    return target


def _show(sizes: list[Size]) -> None:
    table = Table(box=None, pad_edge=False)
    names = (
        "hosts",
        "ports",
        "nodes",
        "cables",
        "discovery s",
        *STEPS,
        *(f"{s} µs/port" for s in STEPS),
    )
    for name in names:
        table.add_column(name, justify="right")
    for size in sizes:
        table.add_row(
            *(str(n) for n in (size.hosts, size.ports, size.nodes, size.cables)),
            f"{size.discovery:.2f}",
            *(f"{size.seconds[step]:.4f}" for step in STEPS),
            *(f"{size.per_port(step):.1f}" for step in STEPS),
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
