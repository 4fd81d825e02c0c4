"""A virtual rack and the installed program, as a person at a terminal has them: by name, by command line."""

import json
import os
import re
import signal
import sqlite3
import subprocess  # noqa: TID251 - a run that is to be killed must be held by its handle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from appliance.adapters import leftovers
from appliance.adapters.process import Completed, run
from appliance.lab import cgroups, faults, network, processes, rack
from appliance.lab import ssh as lab_ssh
from appliance.lab.spec import Rack, RackSpec

PROGRAM = str(Path(sys.executable).parent / "appliance")
DEPLOY_SECONDS = 600.0


def own_name(name: str) -> str:
    """A rack's name no other checkout and no other process of this test run uses."""
    place = f"{Path(__file__).resolve()} {os.environ.get('PYTEST_XDIST_WORKER', '')}"
    return f"{name}-{sha256(place.encode()).hexdigest()[:4]}"


Event = dict[str, Any]


class Deployment:
    """``appliance deploy`` at work; what it writes goes into files that can be read meanwhile."""

    def __init__(self, folder: Path, argv: tuple[str, ...], env: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.out")))
        self.out = folder / f"{number:02}.out"
        self.err = folder / f"{number:02}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **env},
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def text(self) -> str:
        """Everything it has written so far."""
        return self.out.read_text(errors="replace") + self.err.read_text(errors="replace")

    @property
    def events(self) -> list[Event]:
        """The events of ``--json`` so far; a line still being written is left out."""
        lines = self.out.read_text(errors="replace").split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def until(self, what: Callable[[list[Event]], bool], seconds: float = DEPLOY_SECONDS) -> None:
        """Waits for the events to say so. Fails when the program ends before, or the time is over."""
        deadline = time.monotonic() + seconds
        while not what(self.events):
            assert self._process.poll() is None or what(self.events), f"it ended:\n{self.tail}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s:\n{self.tail}"
            time.sleep(0.05)

    def until_it_says(self, pattern: str, count: int = 1, seconds: float = DEPLOY_SECONDS) -> None:
        """Waits until so many lines of its output match."""
        deadline = time.monotonic() + seconds
        while len(re.findall(pattern, self.text, re.MULTILINE)) < count:
            assert self._process.poll() is None, f"it ended:\n{self.tail}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s:\n{self.tail}"
            time.sleep(0.05)

    def send(self, number: signal.Signals) -> None:
        """A signal to the deployer alone."""
        self._process.send_signal(number)

    def end(self, seconds: float = DEPLOY_SECONDS) -> int:
        """Its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still at work after {seconds:g} s:\n{self.tail}") from None

    def stop(self) -> None:
        """Ends it, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def tail(self) -> str:
        """The end of what it wrote, for a failed assertion: of events those that say how stages ended, and why."""
        told = [line for line in map(_told, self.events) if line]
        text = self.text if not told else self.err.read_text(errors="replace")
        return "\n".join([*told, text[-4000:]])


def _told(event: Event) -> str:
    """One line of an event that helps to understand a failure; "" of all others."""
    match event["event"]:
        case "message":
            return f"{event['level']}: {event['text']}"
        case "host_done" | "stage_done":
            where = event.get("host", "all")
            return f"{event['stage']} {where}: {event['state']} {event.get('cause', '')}{event.get('note', '')}"
        case "check_done" if event["result"]["status"] not in ("pass", "not_assessed"):
            result = event["result"]
            return f"{result['id']} {result['target']}: {result['status']} {result['evidence']} {result['cause']}"
        case "run_finished":
            return f"run finished: {event['verdict']} {event['exit_code']}"
    return ""


@dataclass
class Bench:
    """A rack with a site of its own, a folder for what deployments write, and whoever still runs."""

    rack: Rack
    logs: Path
    started: list[Deployment]

    @property
    def site(self) -> Path:
        """The site's folder."""
        return self.rack.site_dir

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, the head first."""
        return tuple(host.name for host in self.rack.hosts)

    def deploy(self, *flags: str, env: dict[str, str] | None = None) -> Deployment:
        """Starts ``appliance deploy --yes``; give ``--json`` for events."""
        argv = (PROGRAM, "deploy", "--site", str(self.site), "--yes", *flags)
        self.started.append(Deployment(self.logs, argv, env or {}))
        return self.started[-1]

    def program(self, verb: str, *flags: str, seconds: float = 300) -> Completed:
        """Another verb of the program on this site, to its end."""
        argv = (PROGRAM, verb, "--site", str(self.site), *flags)
        return run(argv, timeout=seconds, check=False)

    def etcd(self, *words: str) -> str:
        """What ``appliance etcd`` printed; it must end with 0."""
        argv = (PROGRAM, "etcd", *words, "--site", str(self.site))
        done = run(argv, timeout=1800, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def shell(self, host: str, script: str) -> Completed:
        """A shell script on a host, with the site's own key."""
        return lab_ssh.on_host(self.rack, self.rack.host(host), (script,), timeout=60)

    def hurt(self, host: str, kind: str, *arguments: str) -> None:
        """Makes something go wrong on a host, through the program."""
        self._fault(host, kind, *arguments)

    def heal(self, host: str, kind: str, *arguments: str) -> None:
        """Makes it good again."""
        self._fault(host, kind, *arguments, "--clear")

    def _fault(self, *words: str) -> None:
        run((PROGRAM, "lab", "fault", "--name", self.rack.name, *words), timeout=120)

    def heal_all(self) -> None:
        """Clears every fault a test may have left."""
        for host in self.rack.hosts:
            for kind in ("freeze", "power-off", "full-disk", "host-key"):
                with suppress(FileNotFoundError):
                    faults.apply(self.rack, host, kind, clear=True)

    def journal(self, kind: str = "", run_id: str = "") -> list[Event]:
        """Journal entries in their order, each with run, kind, stage, host and its data."""
        file = self.site / "runs" / "journal.sqlite"
        db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        try:
            rows = db.execute(
                "SELECT seq, run, kind, stage, host, data FROM entry ORDER BY seq"
            ).fetchall()
        finally:
            db.close()
        entries = [
            {**json.loads(data), "seq": seq, "run": r, "kind": k, "stage": stage, "host": host}
            for seq, r, k, stage, host, data in rows
        ]
        return [
            e
            for e in entries
            if (not kind or e["kind"] == kind) and (not run_id or e["run"] == run_id)
        ]

    def report(self, run_id: str) -> Event:
        """The run's report.json."""
        found: Event = json.loads((self.site / "runs" / run_id / "report.json").read_text())
        return found


def traces(found: Rack) -> list[str]:
    """Everything of a rack that this machine still shows."""
    table = run(("nft", "list", "tables")).stdout
    loops = run(("losetup", "--list", "--noheadings", "--output", "BACK-FILE")).stdout
    groups = [
        str(group)
        for top in cgroups.hierarchies().all()
        for group in (top / cgroups.PARENT).glob(f"{found.tag}-*")
    ]
    kept = (
        ("mount", str(found.state_dir) in Path("/proc/self/mounts").read_text()),
        ("bridge", found.bridge in network.links()),
        ("table", found.table in table),
        ("loop", str(found.state_dir) in loops),
        ("process", bool(processes.marked(found.state_dir))),
        ("group", bool(groups)),
        ("state", found.state_dir.exists()),
    )
    return [what for what, is_there in kept if is_there]


SomeBench = TypeVar("SomeBench", bound=Bench)


@contextmanager
def raised(spec: RackSpec, logs: Path, kind: type[SomeBench]) -> Iterator[SomeBench]:
    """A fresh rack, removed at the end whatever happened; so is every deployment still at work."""
    rack.down(spec.name)
    with ExitStack() as stack:
        stack.callback(rack.down, spec.name)
        bench = kind(rack.up(spec, lambda _: None), logs, [])
        stack.callback(_stop, bench)
        yield bench


def _stop(bench: Bench) -> None:
    for deployment in bench.started:
        deployment.stop()
    with suppress(sqlite3.Error):
        for run_id in {entry["run"] for entry in bench.journal()}:
            leftovers.end(leftovers.mark(bench.site / "runs" / run_id))


Identity = tuple[int, int | None]


def at_work(bench: Bench, deployment: Deployment) -> set[Identity]:
    """What works for a deployment now: its descendants, and whoever is connected to its hosts. With start times."""
    parents = dict(map(_parent, _pids()))
    found = {pid for pid in parents if deployment.pid in _ancestors(pid, parents)}
    told = run(("ss", "-tnpH", "dst", str(bench.rack.network))).stdout
    found |= {int(pid) for pid in re.findall(r"pid=(\d+)", told)}
    return {(pid, processes.start_time(pid)) for pid in found - {deployment.pid}}


def survivors(before: set[Identity]) -> list[str]:
    """Those that still live, with their command lines."""
    alive = [pid for pid, began in before if began and processes.start_time(pid) == began]
    return [f"{pid} {_command_line(pid)}" for pid in alive]


def private_folders(bench: Bench) -> list[Path]:
    """Folders in memory that hold this site's variables."""
    found = leftovers.MEMORY.glob("appliance-*/inventory/*")
    return [file.parent.parent for file in found if _mentions(file, str(bench.site))]


def _mentions(file: Path, words: str) -> bool:
    with suppress(OSError):
        return words in file.read_text()
    return False


def _pids() -> list[int]:
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]


def _parent(pid: int) -> tuple[int, int]:
    with suppress(OSError):
        return pid, int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid, 0


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


def _command_line(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return words.decode(errors="replace")
    return ""


def run_of(events: list[Event]) -> str:
    """The id of the run these events tell of."""
    return str(next(e["run"] for e in events if e["event"] == "run_started"))


def tasks_of(stage: str, count: int = 1) -> Callable[[list[Event]], bool]:
    """Whether hosts have begun so many tasks of a stage."""

    def reached(events: list[Event]) -> bool:
        begun = [e for e in events if e["event"] == "host_task" and e["stage"] == stage]
        return len(begun) >= count

    return reached


def repeated(entries: list[Event]) -> list[tuple[str, str, str]]:
    """Stage, host and reason of what was begun again after it had been finished."""
    done: set[tuple[str, str]] = set()
    again: list[tuple[str, str, str]] = []
    for entry in entries:
        pair = (entry["stage"], entry["host"])
        if entry["kind"] == "host_done":
            done.add(pair)
        elif entry["kind"] == "host_started" and pair in done:
            again.append((*pair, entry["why"]))
    return again
