"""What is done to a cluster of one size, and what of it is measured."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.adapters.kubernetes import KubernetesApi
from appliance.errors import ApplianceError, DeadlineExceeded
from benchmarks.cluster_load import (
    GANGS,
    GPU,
    GROUP,
    Loader,
    Shape,
    gang,
    jobs,
    nodes,
    settled,
    write_site,
)
from benchmarks.cluster_metrics import prometheus
from benchmarks.cluster_programs import Cluster, until
from benchmarks.scale_parts import PROGRAM
from benchmarks.timing import Cost, alone

PROMISES = ("gang", "reclaim")
HOSTS_S, GANGS_S, RECLAIM_S, GONE_S, TRIAL_S, BUILD_S, LOAD_S, STEP_S = (
    *(60.0, 120.0, 60.0, 60.0),
    *(300.0, 80.0, 100.0, 120.0),
)
"""Deadlines; what is not there in time is said so, and the rest goes on."""
STILL_S = 20.0
ROUNDS = 3

Told = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """One figure; ``objects`` of kind ``of``: what it is shared among. ``ours``: of a program of the product."""

    what: str
    value: float
    unit: str = "s"
    objects: int = 0
    of: str = ""
    ours: bool = False

    @property
    def each(self) -> float:
        return self.value / self.objects if self.objects else self.value


@dataclass
class Site:
    """What came of one size."""

    shape: Shape
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    peaks: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def measured(cluster: Cluster, shape: Shape, promises: tuple[str, ...], tell: Told) -> Site:
    """All parts, one after the other; one that fails is said so, and what needs it fails, too."""
    site = Site(shape)
    bench = Bench(cluster, shape, promises, site, tell)
    parts = (bench.hosts, bench.queues, bench.gangs, bench.trial, bench.load, bench.limits)
    for part in (*parts, bench.loaded):
        tell(f"{shape.hosts} hosts: {part.__name__}")
        before = len(site.notes)
        try:
            for figure in part():
                site.figures.append(figure)
                tell(f"  {figure.what}: {figure.value:.3f} {figure.unit}")
        except (ApplianceError, SystemExit) as error:
            hint = getattr(error, "hint", "")
            site.failed.append(f"{part.__name__}: {error} {hint}".strip())
            tell(f"  FAILED: {site.failed[-1]}")
        for note in site.notes[before:]:
            tell(f"  {note}")
    site.peaks = cluster.peaks()
    for name, most in site.peaks.items():
        site.figures.append(Figure(f"memory of {name}", most, "MiB"))
    return site


@dataclass
class Bench:
    """One cluster and what it is given."""

    cluster: Cluster
    shape: Shape
    promises: tuple[str, ...]
    site: Site
    tell: Told

    def __post_init__(self) -> None:
        self.loader = Loader(self.cluster.kubeconfig)
        self.folder = self.cluster.folder / "site"
        self.out = self.cluster.folder / "out"

    def hosts(self) -> Iterator[Figure]:
        """Hosts of kwok, all Ready."""
        self.loader.make(nodes(self.shape))
        took = until(lambda: self._ready() == self.shape.hosts, HOSTS_S)
        if took is None:
            raise ApplianceError(f"{self._ready()} of {self.shape.hosts} hosts became ready")
        yield Figure("hosts made and ready (kwok)", took, "s", self.shape.hosts, "host")

    def queues(self) -> Iterator[Figure]:
        """The product's own commands: plan, apply, a second plan, and one queue that changes."""
        write_site(self.folder, self.shape)
        count = self.shape.projects
        yield from self._own("queue plan, nothing there", count, "project", *self._queue("plan"))
        yield from self._own("queue apply", count, "project", *self._queue("apply", "--yes"))
        again = ("plan", "--detailed-exitcode")
        yield from self._own("queue plan, nothing to do", count, "project", *self._queue(*again))
        write_site(self.folder, self.shape, spare=1)
        one = self._queue("apply", "--yes")
        yield from self._own("queue apply, one queue changed", count, "project", *one)

    def gangs(self) -> Iterator[Figure]:
        """One department takes what is idle with its largest jobs; then another wants a part of its own back."""
        shape = self.shape
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GANGS}}
        self.loader.make([("/api/v1/namespaces", space)])
        whole = shape.gpus // shape.wide
        sizes = [shape.gang] * (whole // shape.gang)
        if rest := whole % shape.gang:
            sizes.append(rest)
        made = [
            one
            for number, pods in enumerate(sizes)
            for one in gang(f"lent-{number}", self._train(0, number), pods, shape.wide)
        ]
        began = time.monotonic()
        self.loader.make(made)
        placed, took = settled(lambda: self.loader.placed(GANGS), whole, GANGS_S, STILL_S)
        size = shape.gang * shape.wide
        self._say(placed, whole, "pods of gangs placed")
        yield Figure("gangs that fill the site, placed (KAI)", took, "s", placed, "pod")
        self.site.notes.append(
            f"{len(sizes)} gangs; one is {shape.gang} pods of {shape.wide} GPUs: {size} GPUs; submitted in {time.monotonic() - began - took:.1f} s more"
        )
        owner = gang("owner", self._train(1, 0), shape.gang, shape.wide)
        began = time.monotonic()
        self.loader.make(owner)
        back, took = settled(
            lambda: self.loader.placed(GANGS, "gang=owner"), shape.gang, RECLAIM_S, RECLAIM_S
        )
        self._say(back, shape.gang, "pods of the owner's gang placed")
        left = self.loader.placed(GANGS) - back
        self.site.notes.append(f"{whole - left} pods of the other department made room")
        if back == shape.gang:
            yield Figure("a gang reclaimed between departments (KAI)", took, "s", back, "pod")
        yield from self._clear(GANGS, whole)

    def trial(self) -> Iterator[Figure]:
        """Acceptance, on a cluster that nobody uses."""
        words = ("acceptance", str(self.cluster.kubeconfig))
        for promise in self.promises:
            try:
                found, cost = self._step(*words, promise, seconds=TRIAL_S)
            except DeadlineExceeded:
                self.site.notes.append(f"promise {promise} was not through in {TRIAL_S:g} s")
                self._step(*words, seconds=STEP_S)
                continue
            (verdict,) = found["verdicts"]
            said = " ".join(str(verdict[k]) for k in ("status", "cause", "evidence"))
            self.site.notes.append(f"promise {promise}: {said}")
            of = (self.shape.hosts, "host")
            yield Figure(f"promise {promise} tried, wall", cost.wall, "s", *of)
            yield Figure(f"promise {promise} tried, CPU", cost.cpu, "s", *of, ours=True)
            yield Figure(f"promise {promise} tried, memory", cost.peak, "MiB")

    def load(self) -> Iterator[Figure]:
        """Work of all projects by Jobs, as users submit it: what is interactive first."""
        shape = self.shape
        wanted = shape.build * shape.projects
        self.loader.make(jobs(shape, "build"))
        count = lambda: self.loader.placed(selector="load=build")  # noqa: E731
        placed, took = settled(count, wanted, BUILD_S, 2 * STILL_S)
        self._say(placed, wanted, "interactive pods placed")
        yield Figure("interactive pods of all projects placed (KAI)", took, "s", placed, "pod")
        self.loader.make(jobs(shape, "train"))
        total = shape.pods // shape.projects * shape.projects
        there, took = settled(lambda: len(self.loader.pods()), total, LOAD_S, STILL_S)
        self._say(there, total, "pods there")
        yield Figure("pods there", float(there), "pods")
        yield Figure("pods placed", float(self.loader.placed()), "pods")

    def limits(self) -> Iterator[Figure]:
        """Rounds of the program that keeps limits, with its own account's rights, every GPU's metrics beside it."""
        held = self._held()
        with prometheus(held) as address:
            words = ("limits", str(self._account()), address, str(ROUNDS))
            found, cost = self._step(*words, seconds=STEP_S)
        rounds = found["rounds"]
        for one in rounds:
            if one["problem"] or any(found["ended"].values()):
                raise ApplianceError(f"a round of limits went wrong: {one}, {found['ended']}")
        self.site.notes.append(f"limits: {rounds[-1]}")
        pods = rounds[-1]["pods"]
        first, last = rounds[0], min(rounds[1:], key=lambda one: one["wall"])
        for name, one in (("first round", first), ("a round", last)):
            yield Figure(f"limits, {name}, wall", one["wall"], "s", pods, "pod")
            yield Figure(f"limits, {name}, CPU", one["cpu"], "s", pods, "pod", ours=True)
        yield Figure("limits, memory", cost.peak, "MiB", pods, "pod", ours=True)

    def loaded(self) -> Iterator[Figure]:
        """The same cluster with all its work, seen by the probe and by the queues' plan."""
        root = self.cluster.folder / "root"
        for folder in ("etc/kubernetes", "usr/bin"):
            (root / folder).mkdir(parents=True)
        shutil.copy(self.cluster.kubeconfig, root / "etc/kubernetes/admin.conf")
        (root / "usr/bin/kubectl").symlink_to(self.cluster.programs / "kubectl")
        found, cost = self._step("facts", str(root), seconds=STEP_S)
        self.site.notes.append(f"facts: {found}")
        yield from _told("facts of the cluster", cost, self.shape.hosts, "host")
        count = self.shape.projects
        yield from self._own("queue plan under load", count, "project", *self._queue("plan"))

    def _ready(self) -> int:
        said = self.loader.get("/api/v1/nodes?resourceVersion=0")
        return sum(
            c["type"] == "Ready" and c["status"] == "True"
            for item in said.get("items", ())
            if not item["spec"].get("taints")
            for c in item["status"].get("conditions", ())
        )

    def _train(self, department: int, number: int) -> str:
        """The queue of the department's project of that number, from the first on."""
        own = [n for n in range(self.shape.projects) if self.shape.department(n) == department]
        return f"{self.shape.project(own[number % len(own)])}-train"

    def _queue(self, verb: str, *more: str) -> tuple[str, ...]:
        where = ("--site", str(self.folder), "--kubeconfig", str(self.cluster.kubeconfig))
        return (PROGRAM, "queue", verb, *where, *more)

    def _own(self, what: str, count: int, of: str, *argv: str) -> Iterator[Figure]:
        cost = alone(argv, self.out, timeout=STEP_S)
        yield from _told(what, cost, count, of)

    def _step(self, *words: str, seconds: float) -> tuple[dict[str, Any], Cost]:
        argv = (sys.executable, "-m", "benchmarks.cluster_steps", *words)
        cost = alone(argv, self.out, timeout=seconds)
        return json.loads(self.out.read_text()), cost

    def _clear(self, space: str, pods: int) -> Iterator[Figure]:
        began = time.monotonic()
        self.loader.clear(f"/apis/{GROUP}/namespaces/{space}/podgroups")
        self.loader.clear(f"/api/v1/namespaces/{space}/pods")
        if until(lambda: not self.loader.pods(space), GONE_S) is None:
            raise ApplianceError(f"pods of {space} stay")
        yield Figure(
            "pods of gangs deleted (API server)", time.monotonic() - began, "s", pods, "pod"
        )

    def _account(self) -> Path:
        """A kubeconfig of the program's own account, as it makes itself one on a control host."""
        from appliance.limits import token

        path, file = os.environ["PATH"], self.cluster.folder / "limits"
        os.environ["PATH"] = f"{self.cluster.programs}:{path}"
        try:
            token.renew(str(file), str(self.cluster.kubeconfig))
        finally:
            os.environ["PATH"] = path
        return file

    def _held(self) -> list[tuple[str, str, int]]:
        """Pods that hold GPUs: namespace, name, how many."""
        with KubernetesApi(self.cluster.kubeconfig) as api:
            found = api.find("v1", "Pod", "load")
        return [
            (
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                int(pod["spec"]["containers"][0]["resources"]["limits"][GPU]),
            )
            for pod in found
            if pod["spec"].get("nodeName")
        ]

    def _say(self, found: int, wanted: int, what: str) -> None:
        self.site.notes.append(f"{found} of {wanted} {what}")


def _told(what: str, cost: Cost, count: int, of: str) -> Iterator[Figure]:
    yield Figure(f"{what}, wall", cost.wall, "s", count, of)
    yield Figure(f"{what}, CPU", cost.cpu, "s", count, of, ours=True)
    yield Figure(f"{what}, memory", cost.peak, "MiB")
