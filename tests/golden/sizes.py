"""What is judged and planned of sites of several sizes, a fifth of whose hosts are ill in one of a few ways."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.config.load import load_site
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.survey import view_of
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.journal import Journal
from appliance.models.facts import Drift, HostFacts
from appliance.models.plan import Plan
from appliance.models.result import CheckResult, Status
from appliance.report.findings import Finding, findings
from appliance.stages.catalog import STAGES
from benchmarks.scale_site import deployed, write_site
from tests.golden.record import RECORD, session_of

SUMMARY = RECORD / "sizes.json"
SIZES = (3, 100, 1000)
EVERY = 5
FIRST = 2
SERIAL = re.compile(r"serial \d+")
SILENT = "silent"
HOST_KEY = b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(32)).decode()


def _lost_gpu(facts: HostFacts) -> HostFacts:
    assert facts.gpus
    left = facts.gpus.model_copy(update={"devices": facts.gpus.devices[:-1]})
    return facts.model_copy(update={"gpus": left})


def _hot_gpu(facts: HostFacts) -> HostFacts:
    assert facts.gpus
    hot = facts.gpus.devices[3].model_copy(update={"ecc_uncorrected": 7, "remap_failed": True})
    devices = (*facts.gpus.devices[:3], hot, *facts.gpus.devices[4:])
    return facts.model_copy(update={"gpus": facts.gpus.model_copy(update={"devices": devices})})


def _dark_port(facts: HostFacts) -> HostFacts:
    dark = {"state": "DOWN", "physical": "Polling", "rate": 0.0}
    ports = (facts.ports[0].model_copy(update=dark), *facts.ports[1:])
    return facts.model_copy(update={"ports": ports})


def _fast_clock(facts: HostFacts) -> HostFacts:
    return facts.model_copy(update={"clock": facts.clock.model_copy(update={"offset": 20.0})})


def _changed_file(facts: HostFacts) -> HostFacts:
    drift = (Drift(kind="file", name="/etc/slurm/slurm.conf", expected="a", found="b"),)
    slurm = facts.receipts["slurm"].model_copy(update={"drift": drift})
    return facts.model_copy(update={"receipts": {**facts.receipts, "slurm": slurm}})


def _unfinished(facts: HostFacts) -> HostFacts:
    left = {name: receipt for name, receipt in facts.receipts.items() if name != "gpu"}
    return facts.model_copy(update={"receipts": left})


ILLS: Mapping[str, Callable[[HostFacts], HostFacts]] = {
    "lost GPU": _lost_gpu,
    "broken GPU": _hot_gpu,
    "dark port": _dark_port,
    "fast clock": _fast_clock,
    "changed file": _changed_file,
    "unfinished": _unfinished,
    SILENT: lambda facts: facts,
}


@dataclass(frozen=True)
class Seen:
    """A site as it was judged and planned. ``ill``: by host what was done to it; the others are well."""

    hosts: tuple[str, ...]
    ill: Mapping[str, str]
    addresses: Mapping[str, str]
    results: tuple[CheckResult, ...]
    plan: Plan

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is not simply good, as people are shown it."""
        return findings(self.results)


def pattern(size: int) -> dict[str, str]:
    """Every fifth host is ill, each in the next way."""
    kinds = list(ILLS)
    sick = range(FIRST, size, EVERY)
    return {f"gpu-{n - 1}": kinds[i % len(kinds)] for i, n in enumerate(sick)}


def seen(folder: Path, size: int, ill: Mapping[str, str]) -> Seen:
    """The site with these hosts ill. ``folder``: empty, for the site's files."""
    keys = folder / "keys"
    keys.mkdir()
    (keys / "host_key.pub").write_text(f"ssh-ed25519 {HOST_KEY}\n")
    (keys / "id").touch(mode=0o600)
    (keys / "id").write_text("key\n")
    write_site(folder / "site", keys, size)
    loaded = load_site(folder / "site")
    with Journal(folder / "runs") as journal:
        session = session_of(loaded, journal)
        facts = {n: HostFacts.model_validate(a) for n, a in deployed(session).items()}
        answers = {n: ILLS[ill[n]](f) if n in ill else f for n, f in facts.items()}
        silent = [name for name, kind in ill.items() if kind == SILENT]
        found = Round(
            {name: answer for name, answer in answers.items() if name not in silent},
            {n: Unanswered(n, "refuses port 22", "start sshd there", away=True) for n in silent},
        )
        stages = tuple(stage for stage in STAGES if stage.wanted(session.site))
        prepared = prepare(session, facts, stages)
        plan = make_plan(session, found, prepared, Selection(stages=stages))
        results = judge_all(view_of(session, found), found, ALL_CHECK_IDS)
    hosts = session.site.hosts
    addresses = {host.name: str(host.address) for host in hosts}
    return Seen(tuple(addresses), ill, addresses, tuple(results), plan)


def words_of(site: Seen) -> dict[str, str]:
    """By host all that is judged, found and planned of it, without what must differ: name, address and serial numbers."""
    parts: dict[str, list[str]] = {name: [] for name in site.hosts}
    for result in site.results:
        if result.host:
            parts[result.host].append(result.model_dump_json())
    for finding in site.findings:
        if finding.result.host:
            explained = [result.name for result in finding.explains if result.host]
            parts[finding.result.host].append(f"finding {finding.result.name}: {explained}")
    for cell in site.plan.cells:
        # Why nothing is done, and what may restart yet, may follow from a change of another host.
        left_out = {"fingerprint"} | (set() if cell.action.changes else {"why", "may_restart"})
        parts[cell.host].append(cell.model_dump_json(exclude=left_out))
    return {name: _nameless(site, name, texts) for name, texts in parts.items()}


def summary(site: Seen) -> dict[str, object]:
    """What people can compare: how many results and findings say what, and what is planned of how many hosts.

    What passes is compared host by host with a site of three (``words_of``), whose record tells it.
    """
    well = Status.PASS
    return {
        "hosts": len(site.hosts),
        "results": _counted(r.status.value for r in site.results if r.status is not well),
        "findings": _counted(map(_said, site.findings)),
        "plan": _counted(f"{c.stage} {c.action.value}" for c in site.plan.cells),
    }


def _said(finding: Finding) -> str:
    """A finding without what is another on each host."""
    result = finding.result
    also = f" (explains {', '.join(sorted({r.id for r in finding.explains}))})"
    told = f"{result.id}: {result.status.value}, {SERIAL.sub('serial N', result.cause)}"
    return told + (also if finding.explains else "")


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _nameless(site: Seen, name: str, texts: list[str]) -> str:
    joined = SERIAL.sub("serial N", "\n".join(texts)).replace(site.addresses[name], "ADDRESS")
    return re.sub(rf"\b{name}\b", "HOST", joined)
