"""Fio hosts, as several test modules use it."""

import json
from collections.abc import Callable, Mapping, Sequence

from appliance.adapters.process import Completed
from appliance.benchmarks.fio import gates
from appliance.checks.check import View
from appliance.models.site import Site
from tests.support.batches import Batches, answer, labelled, lacking, value
from tests.support.facts import facts_of
from tests.support.profiles import profile_of

RATES = {"seq_write": 2e9, "seq_read": 3e9, "rand_write": 50_000, "rand_read": 60_000}


RATES["create"] = 4_000


Rates = Callable[[str, str, int], float]
"""Of a host on a directory, while so many are at work; a factor of what is usual."""


def printed(parts: Sequence[str], factor: float, decay: float) -> str:
    """As fio prints it: what it creates counts as read."""
    jobs = []
    for part in parts:
        moved = dict.fromkeys(("bw_bytes", "iops", "io_bytes", "total_ios", "runtime"), 0.0)
        rate = RATES[part] * factor
        own = {"bw_bytes": rate, "iops": rate, "io_bytes": rate, "total_ios": rate, "runtime": 1000}
        both = {"read": own, "write": moved} if part != "seq_write" else {}
        if part in {"seq_write", "rand_write"}:
            both = {"read": moved, "write": own}
        jobs.append({"jobname": part, "error": 0, **both})
    text = json.dumps({"fio version": "fio-3.33", "jobs": jobs})
    steps = [100.0] * 4 + [90.0] * 4 + [100.0 - decay] * 4
    lines = "".join(f"{500 * at}, {rate:g}, 0, 0, 0\n" for at, rate in enumerate(steps, 1))
    return f"{text}\nappliance-log seq_read\n{lines}"


def meeting(argv: Sequence[str], nodes: Sequence[str]) -> Completed:
    """What hosts say that see each other's files and locks."""
    told = []
    for number, node in enumerate(nodes):
        lock = "refused" if number else "held"
        met = {"place": number, "longest": 0.1, "lock": lock, "counted": 9, "added": 9}
        told.append(answer(node, json.dumps(met)))
    return Completed(tuple(argv), 0, labelled(*told), "")


class Hosts(Batches):
    """Hosts of Slurm with fio; ``rates``: how fast each is; ``silent`` have none."""

    def __init__(
        self,
        rates: Rates = lambda host, at, of: 1.0,
        *,
        decay: float = 0.0,
        decays: Mapping[str, float] | None = None,
        silent: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.rates, self.decay, self.silent = rates, decay, silent
        self.decays = decays or {}
        self.tried: list[tuple[str, tuple[str, ...]]] = []
        self.parts: list[tuple[str, int, str]] = []
        self.lengths: set[tuple[str, ...]] = set()
        self.met = 0

    def step(self, argv: Sequence[str]) -> Completed:
        nodes = value(argv, "--nodelist").split(",")
        if "python3" in argv:
            self.met += 1
            return meeting(argv, nodes)
        at, *length, parts = argv[argv.index("appliance") + 4 :]
        self.lengths.add(tuple(length))
        self.parts.append((at, len(nodes), parts))
        self.tried.append((at, tuple(nodes)))
        told = []
        for node in nodes:
            decay = self.decays.get(node, self.decay)
            said = printed(parts.split(), self.rates(node, at, len(nodes)), decay)
            told.append(lacking(node, "fio") if node in self.silent else answer(node, said))
        return Completed(tuple(argv), 0, labelled(*told), "")


def view(count: int, limits: dict[str, float] | None = None, mounted: int = 99) -> View:
    """GPU hosts of which the first ``mounted`` have the shared directory; limits by check in the unit of it."""
    names = [f"gpu-{n}" for n in range(1, count + 1)]
    hosts: list[dict[str, object]] = [
        {"name": "head", "roles": ["control", "storage"], "address": "10.0.0.10"}
    ]
    hosts += [
        {"name": name, "roles": ["gpu"], "address": f"10.0.0.{at}"}
        for at, name in enumerate(names, 11)
    ]
    found = {
        "version": 1,
        "name": "hall",
        "networks": {"management": {"cidr": "10.0.0.0/24"}},
        "hosts": hosts,
        "storage": {
            "exports": [{"path": "/srv/data"}],
            "mounts": [{"export": "/srv/data", "at": "/data"}],
            "scratch": {"at": "/scratch"},
        },
        "limits": {
            check: {"value": bound, "unit": gates.BOUNDS[check].unit, "source": "contract"}
            for check, bound in (limits or {}).items()
        },
    }
    there = {
        "at": "/data",
        "source": "10.0.0.10:/srv/data",
        "type": "nfs4",
        "size": 1,
        "free": 1,
        "inodes_free": 1,
    }
    facts = {
        name: facts_of(name, filesystems=[there] if at < mounted else [])
        for at, name in enumerate(names)
    }
    return View(profile_of(), Site.model_validate_json(json.dumps(found)), facts)
