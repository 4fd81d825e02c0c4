"""The parts of the scale benchmark: what is run, what must come out of it, and what it may cost."""

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.engine.look.gather import DEADLINE
from benchmarks.scale_clients import clush, pdsh
from benchmarks.scale_network import HANGS, hosts
from benchmarks.scale_site import ANSWERS, address, write_site
from benchmarks.timing import Cost, Row, alone, interleaved

PROGRAM = str(Path(sys.executable).parent / "appliance")
AGED_S = 61.0
"""So old must facts be that counters are compared with them, as on any site that was deployed."""
ILL = 10
CONNECT_S = 6.0
DESCRIPTORS = 1024
CROWD = 1500
SLURM_HOSTS = 350
PLAN_HOSTS = 1000
GOOD = (0, 3)
"""Exit codes of a look at hosts that are well: facts recorded in containers leave some checks open."""


@dataclass(frozen=True)
class Line:
    """One figure; ``bound``: the most it may be, None where it is shown for comparison."""

    what: str
    value: float
    unit: str = ""
    bound: float | None = None

    @property
    def is_missed(self) -> bool:
        return self.bound is not None and self.value > self.bound


@dataclass
class Bench:
    """What the parts share. ``rows``: every single measurement, as it was taken."""

    folder: Path
    sizes: tuple[int, ...]
    rounds: int
    large: int
    rows: list[Row] = field(default_factory=list)

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def out(self) -> Path:
        """Where programs write what nobody reads."""
        return self.folder / "out"

    def site(self, size: int) -> Path:
        """The folder of a site of that many hosts, made where it is not there yet."""
        folder = self.folder / f"site-{size}"
        if not folder.exists():
            self.step("site", str(folder), str(self.keys), str(size))
        return folder

    def step(self, *argv: str) -> tuple[dict[str, Any], Cost]:
        """What a step of benchmarks.scale_steps found, and its cost."""
        cost = alone((sys.executable, "-m", "benchmarks.scale_steps", *argv), self.out)
        self.rows.append(Row(shlex.join(("step", *argv)), (cost,)))
        text = self.out.read_text()
        return json.loads(text) if text else {}, cost

    def once(self, name: str, argv: tuple[str, ...], ends: tuple[int, ...]) -> Cost:
        """One measurement of a program."""
        cost = alone(argv, self.out, ends=ends)
        self.rows.append(Row(name, (cost,)))
        return cost


def _asked(bench: Bench) -> Iterator[Line]:
    """Sites asked over ssh, beside pdsh and clush with as many hosts at a time."""
    for size in bench.sizes:
        site = bench.site(size)
        with hosts(site, bench.keys):
            _expect(bench, site, set())
            rows = _rounds(bench, site, size)
        bench.rows += rows
        health, other, third, plan = rows
        yield from _of(health, 476.0)
        yield from _of(other)
        yield from _of(third)
        yield Line(f"health / pdsh, {size} hosts, wall", health.wall / other.wall, "x", 1.1)
        yield Line(f"health / pdsh, {size} hosts, CPU", health.cpu / other.cpu, "x")
        yield from _of(plan, wall=40.0 if size == PLAN_HOSTS else None)


def _rounds(bench: Bench, site: Path, size: int) -> tuple[Row, ...]:
    alone(_program("plan", site), bench.out)
    time.sleep(AGED_S)
    works: tuple[tuple[str, Callable[[], object]], ...] = (
        ("health", lambda: alone(_program("health", site), bench.out, ends=GOOD)),
        ("pdsh", lambda: pdsh(site, bench.keys, size, bench.out)),
        ("clush", lambda: clush(site, bench.keys, size, bench.out)),
        ("plan", lambda: alone(_program("plan", site), bench.out)),
    )
    return interleaved(bench.rounds, [(f"{name}, {size} hosts", work) for name, work in works])


def _of(row: Row, memory: float | None = None, wall: float | None = None) -> Iterator[Line]:
    yield Line(f"{row.name}, wall", row.wall, "s", wall)
    yield Line(f"{row.name}, CPU", row.cpu, "s")
    yield Line(f"{row.name}, memory", row.peak, "MiB", memory)


def _program(verb: str, site: Path, *more: str) -> tuple[str, ...]:
    return (PROGRAM, verb, "--site", str(site), *more)


def _expect(bench: Bench, site: Path, ill: set[str], *, limit: int | None = None) -> Cost:
    """One look, in which exactly these hosts fail, as not reachable. Raises SystemExit for another outcome."""
    argv = _program("health", site, "--json")
    if limit:
        argv = ("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *argv)
    # Another end than was expected is told by what failed.
    cost = bench.once(f"health of {site.name}", argv, (*GOOD, 1))
    bad = [r for r in json.loads(bench.out.read_text())["results"] if r["status"] == "fail"]
    failed = {r["target"] for r in bad if r["id"] == "host.reachable"}
    others = [r for r in bad if r["id"] != "host.reachable" and not r["explained_by"]]
    if failed != ill or others:
        wrong = [r for r in bad if r["target"] in failed ^ ill] + others
        said = [f"{r['id']} {r['target']}: {r['cause']}" for r in wrong[:5]]
        raise SystemExit(
            f"{site.name}: {len(wrong)} results nobody expected: {said}; "
            f"well in place of ill: {sorted(ill - failed)}"
        )
    return cost


def _troubled(bench: Bench) -> Iterator[Line]:
    """Some hosts are off and some hang: what a look then takes longer than one at the same hosts well."""
    for size in bench.sizes:
        well = bench.site(size)
        site = bench.folder / f"troubled-{size}"
        dead = range(5, size, size // ILL)[:ILL]
        hanging = [n + 1 for n in dead]
        write_site(site, bench.keys, size, dead)
        (site / ANSWERS).symlink_to(well / ANSWERS)
        with hosts(well, bench.keys):
            healthy = _expect(bench, well, set())
        with hosts(site, bench.keys):
            for n in hanging:
                (site / HANGS / address(n)).touch()
            ill = {f"gpu-{n - 1}" for n in (*dead, *hanging)}
            troubled = _expect(bench, site, ill)
        what = f"{ILL} dead and {ILL} hanging of {size} hosts, added wall"
        yield Line(what, troubled.wall - healthy.wall, "s", DEADLINE + CONNECT_S)


def _crowded(bench: Bench) -> Iterator[Line]:
    """More hosts than this process may hold files open."""
    site = bench.site(CROWD)
    with hosts(site, bench.keys):
        cost = _expect(bench, site, set(), limit=DESCRIPTORS)
    yield Line(f"health, {CROWD} hosts, {DESCRIPTORS} descriptors, wall", cost.wall, "s")


def _planned(bench: Bench) -> Iterator[Line]:
    """Plan and judgement of very many hosts whose answers are there already."""
    found, cost = bench.step("plan", str(bench.site(bench.large)))
    if found["changes"]:
        raise SystemExit(f"a deployed site has nothing to do: {found}")
    of = f"{bench.large} hosts without ssh"
    for name, seconds in found["seconds"].items():
        yield Line(f"{name}, {of}, CPU", seconds, "s")
    own = sum(seconds for name, seconds in found["seconds"].items() if name != "read")
    yield Line(f"prepare, plan and judge, {of}, CPU", own, "s", 10.0)
    yield Line(f"prepare, plan and judge, {of}, memory", cost.peak, "MiB", 1024.0)


def _inventoried(bench: Bench) -> Iterator[Line]:
    """What Ansible is given for stage slurm, and what it takes to read it."""
    into = bench.folder / "inventory"
    found, _ = bench.step("inventory", str(bench.site(SLURM_HOSTS)), str(into))
    read = alone(found["argv"], bench.out, env=found["environment"])
    bench.rows.append(Row("ansible-playbook --list-hosts", (read,)))
    of = f"inventory of stage slurm, {SLURM_HOSTS} hosts"
    yield Line(f"{of}, size", found["bytes"] / 1e6, "MB")
    both = found["seconds"]["write"] + read.cpu
    yield Line(f"{of}, written and read by Ansible, CPU", both, "s", 3.0)
    yield Line(f"{of}, memory of Ansible", read.peak, "MiB", 100.0)


def _reported(bench: Bench) -> Iterator[Line]:
    """The report and the metrics of the largest site that is asked."""
    size = max(bench.sizes)
    found, _ = bench.step("report", str(bench.site(size)))
    for name, most, seconds in (("html", 1.5, 3.0), ("prometheus", 2.0, None)):
        yield Line(f"{name}, {size} hosts, size", found["bytes"][name] / 1e6, "MB", most)
        yield Line(f"{name}, {size} hosts, CPU", found["seconds"][name], "s", seconds)


PARTS: Mapping[str, Callable[[Bench], Iterator[Line]]] = {
    "asked": _asked,
    "troubled": _troubled,
    "crowded": _crowded,
    "planned": _planned,
    "inventory": _inventoried,
    "report": _reported,
}
