"""Evidence entered by hand: no GPU is here that could be measured, so a test of acceptance makes the values up."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.process import Completed
from appliance.benchmarks import BENCHMARKS
from appliance.checks.check import View
from appliance.engine.accept.evidence import begin, keep_evidence
from appliance.engine.accept.gate_self_test import honest_evidence
from appliance.engine.look.fact_history import last_facts

MARK = "/etc/appliance/simulated.json"
LOGS = Path(__file__).parents[1] / "data" / "gpt3"


class Hosts(Protocol):
    """A rack whose hosts run a shell script."""

    @property
    def site(self) -> Path:
        """The site's folder."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts."""

    def shell(self, host: str, script: str) -> Completed:
        """A script on a host."""


class Nobody:
    def handle(self, event: object) -> None: ...


@contextmanager
def unmarked_hosts(rack: Hosts) -> Iterator[None]:
    """The hardware stays simulated; only nobody says so, neither the site nor its hosts."""
    file = rack.site / "site.yml"
    text = file.read_text()
    marks = {host: _said(rack, host, f"cat {MARK}") for host in rack.hosts}
    lines = [line for line in text.splitlines(True) if not line.startswith("simulated:")]
    assert len(lines) == len(text.splitlines()) - 1
    try:
        file.write_text("".join(lines))
        for host, mark in marks.items():
            _write(rack, host, json.dumps(json.loads(mark) | {"areas": []}))
        yield
    finally:
        file.write_text(text)
        for host, mark in marks.items():
            _write(rack, host, mark)


def _write(rack: Hosts, host: str, text: str) -> None:
    _said(rack, host, f"cat > {MARK} <<'END'\n{text}\nEND")


def _said(rack: Hosts, host: str, script: str) -> str:
    done = rack.shell(host, script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def training_logs(folder: Path, through: str) -> Path:
    """Logs of one and two hosts, ``through`` "bare-metal" or "kubernetes", without dates: as if trained just now."""
    for log in LOGS.glob("*/bare-metal/[12]n.log"):
        there = folder / log.parent.parent.name / through / log.name
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(log.read_bytes())
    shutil.copy(LOGS / "runs.yml", folder)
    return folder


def enter_passes(site: Path) -> list[str]:
    """Enters a pass for every gate that a run closes, and names them."""
    entered: list[str] = []
    with open_session(Target(site), "validate", Nobody(), keeps=True) as session:
        known = {host.name: last_facts(session, host.name) for host in session.site.hosts}
        facts = {name: told for name, told in known.items() if told}
        view = View(session.profile, session.site, facts)
        for benchmark in BENCHMARKS:
            for wanted in benchmark.gates(view):
                if wanted.by_run:
                    begin(session, benchmark)
                    keep_evidence(session, honest_evidence(session, view, benchmark, wanted))
                    entered.append(wanted.id)
    return entered
