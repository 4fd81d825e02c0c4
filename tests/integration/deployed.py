"""The rack all tests of a deployed appliance share, raised, deployed and removed by the installed program alone."""

import os
import re
import socket
import subprocess  # noqa: TID251 - a tunnel that stays open
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.process import Completed, run
from appliance.journal import Entry, Journal
from appliance.lab import ssh
from appliance.lab.spec import load
from appliance.models.plan import Plan
from appliance.models.run import RunRecord
from appliance.models.site import Role
from tests.integration.rack import PROGRAM, own_name

NAME = own_name("deployed")
ROLES = {
    "head": {Role.CONTROL, Role.STORAGE, Role.LOGIN},
    "gpu-1": {Role.GPU},
    "gpu-2": {Role.GPU},
}
HOSTS = tuple(ROLES)
ADMIN = "ada"
USER = "bea"

Pair = tuple[str, str]

# Python tells an audit hook of every program it starts, however it is started (PEP 578).
HOOK = """
import os, sys
STARTS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"}
def note(event, arguments):
    if event in STARTS:
        line = f"{event} {arguments!r}\\n".encode()
        out = os.open(os.environ["STARTED_PROGRAMS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(out, line)
        os.close(out)
sys.addaudithook(note)
"""


def appliance(
    *argv: str, timeout: float = 120, env: Mapping[str, str] | None = None, input: str | None = None
) -> Completed:
    """The installed program, to its end; ``timeout`` in seconds. A non-zero exit is no error here."""
    return run((PROGRAM, *argv), timeout=timeout, check=False, env=env, input=input)


@dataclass(frozen=True)
class Deployed:
    """A rack and how its first deployment ended."""

    site: Path
    first: Completed
    name: str = NAME

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, the head first."""
        return HOSTS

    def program(self, verb: str, *flags: str, timeout: float = 120) -> Completed:
        """A verb of the program on this site."""
        return appliance(verb, "--site", str(self.site), *flags, timeout=timeout)

    def deploy(self, *flags: str, env: Mapping[str, str] | None = None) -> Completed:
        """``appliance deploy --yes``."""
        argv = ("deploy", "--site", str(self.site), "--yes", *flags)
        return appliance(*argv, timeout=600, env=env)

    def plan(self) -> Plan:
        """What ``plan --json`` says."""
        done = self.program("plan", "--json")
        assert done.returncode == 0, done.stderr
        return Plan.model_validate_json(done.stdout)

    def shell(self, host: str, script: str, *, input: str | None = None) -> Completed:
        """A line for the shell of a host, over the ssh that ``appliance lab shell`` becomes."""
        rack = load(self.name)
        assert rack is not None
        return ssh.on_host(rack, rack.host(host), (script,), timeout=120, input=input)

    def said(self, host: str, script: str) -> str:
        """What a line for the shell printed; it must end with 0."""
        done = self.shell(host, script)
        assert done.returncode == 0, f"{host}: {script}: {done.returncode} {done.stderr}"
        return done.stdout

    def fault(self, host: str, kind: str, *arguments: str, clear: bool = False) -> None:
        """Plants a fault, or clears it."""
        flags = ("--clear",) if clear else ()
        done = appliance("lab", "fault", "--name", self.name, *flags, host, kind, *arguments)
        assert done.returncode == 0, done.stderr

    def runs(self) -> list[str]:
        """Ids of the runs that left a report, oldest first."""
        return sorted(p.parent.name for p in (self.site / "runs").glob("*/report.json"))

    def record(self, run_id: str) -> RunRecord:
        """A run's report.json, judged by its model."""
        file = self.site / "runs" / run_id / "report.json"
        return RunRecord.model_validate_json(file.read_text())

    def journal(self, run_id: str, kind: str = "") -> list[Entry]:
        """What the journal keeps of a run."""
        with Journal(self.site / "runs") as journal:
            return list(journal.entries(*filter(None, [kind]), run=run_id))

    def pairs(self, run_id: str, kind: str) -> list[Pair]:
        """Stage and host of the journal's entries of one kind."""
        return [(entry.stage, entry.host) for entry in self.journal(run_id, kind)]


@contextmanager
def way_in(name: str, host: str) -> Iterator[str]:
    """URL of a host's Prometheus, through the ssh that docs/operations.md names: it is open to root there, and not to this machine."""
    rack = load(name)
    assert rack is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program, *options = ssh.command(rack, rack.host(host))
    forward = ("-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:127.0.0.1:9090")
    with subprocess.Popen((program, *forward, *options), stdin=subprocess.DEVNULL) as tunnel:
        try:
            deadline = time.monotonic() + 30
            while not _listens(port):
                assert tunnel.poll() is None, "ssh has ended"
                assert time.monotonic() < deadline, "no way in within 30 s"
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            tunnel.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def add_people(site: Path) -> None:
    """Gives the site an admin and a user, so that there are accounts to lose."""
    key = " ".join((site / "id_ed25519.pub").read_text().split()[:2])
    text = (site / "site.yml").read_text()
    assert not re.search(r"^base:", text, re.MULTILINE), (
        "the rack's site.yml has a section base now"
    )
    block = f'''
base:
  admins: [{{name: {ADMIN}, keys: ["{key}"]}}]
  users: [{{name: {USER}, uid: 2001, groups: [vision], keys: ["{key}"]}}]
  groups: [{{name: vision, gid: 3001}}]
  homes: /data/home
slurm: {{ssh_needs_job: false}}
'''
    (site / "site.yml").write_text(f"{text.rstrip()}\n{block}")


@dataclass(frozen=True)
class Watch:
    """Notes in ``folder`` which programs a run of ours starts that is given ``env``."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """What the run needs in its environment; Python imports sitecustomize before anything else."""
        (self.folder / "sitecustomize.py").write_text(HOOK)
        path = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            "PYTHONPATH": os.pathsep.join(path),
            "STARTED_PROGRAMS": str(self.folder / "started"),
        }

    @property
    def started(self) -> list[str]:
        """One line for each program."""
        log = self.folder / "started"
        return log.read_text().splitlines() if log.exists() else []
