"""What the program makes of known sites and hosts: role variables, files, plans, health and reports.

The hosts' facts were taken from a deployed rack (class hpc, three hosts); the last GPU host is hurt in four places.
"""

import io
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from rich.console import Console

from appliance.config.data import root
from appliance.config.load import LoadedSite, load_site
from appliance.config.new_secrets import CLUSTER_KEY
from appliance.config.secrets import MAIL_PASSWORD, Redactor, Secret
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.run_record import Findings, record_of
from appliance.engine.look.survey import view_of
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import Preparation, prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.session import Session
from appliance.journal import Journal
from appliance.models.facts import HostFacts, Receipt
from appliance.models.plan import Plan
from appliance.models.result import CheckResult
from appliance.models.run import RunRecord
from appliance.models.site import Host, Role
from appliance.report import nagios
from appliance.report.console import plan_table, run_summary
from appliance.report.html import render as render_html
from appliance.stages.catalog import STAGES
from tests.golden.compact import compact
from tests.golden.hosts import Whose
from tests.golden.sections import OF, Sections, common_first, counted_out, differences, text_of
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.full_sites import VARIABLE, write_full_site
from tests.support.rendering import rendered

RECORD = Path(__file__).parents[1] / "data/golden"
WIDTH = 120
PROGRAMS = (
    "appliance.stages.base.variables.executable",
    "appliance.stages.fitness.executable",
    "appliance.stages.mig.variables.executable",
    "appliance.stages.limits.variables.executable",
    "appliance.stages.backup.variables.executable",
)
"""What carries code of ours to hosts: in the record every change of it would be a change of every site."""
TAKEN = datetime(2026, 11, 23, 14, 17, 42, tzinfo=UTC)
"""When the facts were taken; every clock of the record shows it."""
NO_WORDS = re.compile(r"<(style|script|svg)\b.*?</\1>", re.DOTALL)
CELL = re.compile(r"\s*<(?:td|th|dd)\b[^>]*>\s*")
BLOCK = re.compile(
    r"<(?:/?(?:title|body|main|section|header|footer|div|h[1-6]|p|li|ul|ol|dl|table|thead|tbody|details|summary|figure)"
    r"|dt|tr|br|/tr|/dl)\b[^>]*>"
)
MARKUP = re.compile(r"<[^>]+>")
KEPT = re.compile(r"\b[\d.]+ KiB\b|\b[0-9a-f]{64}\b")
"""Size and digest of what is kept of a host: they follow every change of a role."""
SECRET = "k" * 43 + "="
EXTERNAL = """
kubernetes: {external: kubeconfig}
scheduler:
  kind: kai
  admission: warn
  projects:
    - {name: team, queues: [{name: train, gpu: {quota: 2}}]}
"""
SERVED = """\
  kubernetes_encryption_key: {file: munge_key}
kubernetes: {}
scheduler:
  projects:
    - {name: team, queues: [{name: models, work: inference, gpu: {quota: 2}}]}
storage:
  exports: [{path: /srv/data}]
workloads:
  vllm: {open_to_cluster: true, models: [{name: llama, path: llama/3-8b}]}
"""


@dataclass(frozen=True)
class Made:
    """A site at work, with the facts of its hosts."""

    session: Session
    found: Round


@dataclass(frozen=True)
class Site:
    """One before its first deployment and after it."""

    made: Made
    settled: Made
    prepared: Preparation


def _plain_site(profile: str, more: str = "") -> Callable[[Path], Path]:
    """Three hosts of a class, with what a site must have."""

    def write(folder: Path) -> Path:
        file = folder / "site.yml"
        hosts = "".join(
            f"  - {{name: {name}, roles: [{roles}], address: 10.0.0.{number}}}\n"
            for name, roles, number in (
                ("head", "control, storage, login", 10),
                ("gpu-1", "gpu", 11),
                ("gpu-2", "gpu", 12),
            )
        )
        file.write_text(
            f"version: 1\nname: acme\nprofile: {profile}\n"
            "networks:\n  management: {cidr: 10.0.0.0/24}\n"
            f"hosts:\n{hosts}"
            "secrets:\n  munge_key: {file: munge_key}\n  slurmdbd_password: {file: munge_key}\n"
            f"{more}"
        )
        (folder / "munge_key").touch(mode=0o600)
        (folder / "munge_key").write_text(SECRET * 4)
        (folder / "kubeconfig").touch(mode=0o600)
        (folder / "known_hosts").write_text("")
        return file

    return write


SITES: Mapping[str, Callable[[Path], Path]] = {
    "hpc": _plain_site("hpc"),
    "balanced": _plain_site("balanced", SERVED),
    "cost-efficient": _plain_site("cost-efficient"),
    "external-cluster": _plain_site("hpc", EXTERNAL),
    "infiniband": lambda folder: write_full_site(folder, "infiniband"),
    "ethernet": lambda folder: write_full_site(folder, "ethernet"),
}
"""Balanced: a cluster that serves models to all; infiniband: a cluster of one control plane, MIG, Slurm beside it; ethernet: three control planes and Run:ai."""


FULL = "infiniband"
BESIDE: Mapping[str, str] = {
    "ethernet": FULL,
    "hpc": FULL,
    "balanced": FULL,
    "cost-efficient": "hpc",
    "external-cluster": "hpc",
}
"""Of which site the difference is recorded. FULL is recorded as a whole."""
DIFFERENCES = RECORD / "differences.txt"
REPORTS = ("console", "--json")
"""What is recorded of the reports of the other sites."""
MACHINES = ("infiniband", "ethernet")
"""Sites whose hosts are no containers, as those are that the facts were taken from: a role is given less there."""


@contextmanager
def at_work(name: str, folder: Path) -> Iterator[Site]:
    """A site before and after its first deployment. ``folder``: empty, for the site's files."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict("os.environ", {VARIABLE: "x" * 20, "TZ": "UTC"}))
        for program in PROGRAMS:
            stack.enter_context(patch(program, return_value=b"the program, whatever it is today"))
        time.tzset()
        loaded = load_site(SITES[name](folder))
        with Journal(folder / "runs") as journal:
            made = _made(loaded, journal, name in MACHINES)
            prepared = prepare(made.session, made.found.facts, _stages(made))
            yield Site(made, _settled(made, prepared), prepared)


def documents(site: Site) -> dict[str, Any]:
    """What verbs print of a deployed site with --json: the plan, the results of health, and the record of a run."""
    settled = site.settled
    results = judge_all(view_of(settled.session, settled.found), settled.found, ALL_CHECK_IDS)
    return {
        "plan": planned(settled, site.prepared),
        "results": results,
        "run": report_of(settled, results),
    }


@cache
def recorded(name: str) -> dict[str, Sections]:
    """The record of a site: by file its sections."""
    with TemporaryDirectory() as folder, at_work(name, Path(folder)) as site:
        made, prepared, now = site.made, site.prepared, documents(site)
        whose = Whose(made.session.site)
        results, run = now["results"], now["run"]
        files = {
            "variables.txt": _variables(made, prepared),
            "files.txt": _files(made, prepared),
            "plan.txt": {
                "before the first deployment": _plan(made, prepared),
                "after it": _plan(site.settled, prepared),
                "after it, --json": _cells(now["plan"], whose),
            },
            "health.txt": _results(results, whose),
            "report.txt": {
                "nagios": nagios.render("acme", results)[0].splitlines(),
                "console": _shown(lambda console: run_summary(console, run)),
                "page": _read(render_html(run)),
                "--json": _run(run),
            },
        }
        return {
            file: {t: [line.replace(folder, "SITE") for line in own] for t, own in parts.items()}
            for file, parts in files.items()
        }


def full() -> dict[str, str]:
    """The files of the record of the full site."""
    return {
        file: text_of(common_first(parts) if file == "variables.txt" else parts)
        for file, parts in recorded(FULL).items()
    }


def difference(name: str) -> str:
    """What a site has other than the one it stands beside (BESIDE)."""
    base, own = recorded(BESIDE[name]), recorded(name)
    lines = [f"##### {name}, other than {BESIDE[name]}"]
    for file, parts in own.items():
        before = base[file]
        if file == "report.txt":
            # Page and Nagios show the same results; how many there are is read in the full record.
            before, parts = (counted_out({t: s[t] for t in REPORTS}) for s in (before, parts))
        lines += differences(file.removesuffix(".txt"), before, parts)
    return "\n".join(lines) + "\n"


def _made(loaded: LoadedSite, journal: Journal, machines: bool) -> Made:
    """The site before its first deployment."""
    facts = {host.name: _facts(host, machines) for host in loaded.site.hosts}
    return Made(session_of(loaded, journal), Round(facts, {}))


def session_of(loaded: LoadedSite, journal: Journal) -> Session:
    """A verb at work on a site none of whose hosts is asked."""
    secrets = {name: Secret(SECRET) for name in (*loaded.site.secrets, CLUSTER_KEY)}
    told = (receiver.name for receiver in loaded.site.observe.receivers)
    secrets |= {f"receiver.{name}": Secret(f"https://{name}.example.com") for name in told}
    secrets |= {MAIL_PASSWORD: Secret(SECRET)}
    return Session(
        run="r1",
        verb="deploy",
        site=loaded.site,
        profile=loaded.profile,
        folder=loaded.folder,
        data=root(),
        runs=loaded.folder / "runs",
        secrets=secrets,
        remote=FakeHosts(),
        journal=journal,
        observer=Recorder(),
        redact=Redactor(secrets.values()),
        lock=loaded.lock,
    )


def _facts(host: Host, machine: bool) -> HostFacts:
    kind = "gpu" if Role.GPU in host.roles else "control"
    data: dict[str, Any] = json.loads((RECORD / f"facts/{kind}.json").read_text())
    data["os"] |= {"hostname": host.name} | ({"container": ""} if machine else {})
    data["interfaces"][0]["addresses"] = [f"{host.address}/24"]
    for port in data["ports"] if host.name != "head" else ():
        # No two hosts have one GUID.
        port["guid"] = f"0x0c42a103{int(host.address) & 0xFF:04x}{port['guid'][-4:]}"
    if machine and kind == "gpu":
        # The machine that the container of the record ran on is none of the class.
        data["cpu"] |= {"sockets": 2, "cores": 128, "threads": 256}
        data["memory"] |= {"total": 1000 << 30, "available": 990 << 30}
    return HostFacts.model_validate(data | {"host": host.name, "receipts": {}})


def _settled(made: Made, prepared: Preparation) -> Made:
    """The site after it: receipts of all, the last GPU host hurt, and the last control host but one silent."""
    facts = {
        name: facts.model_copy(
            update={"receipts": _receipts(name, prepared), "foreign": (), "sysctl_at_boot": {}}
        )
        for name, facts in made.found.facts.items()
    }
    gpus = [host.name for host in made.session.site.with_role(Role.GPU)]
    facts[gpus[-1]] = _hurt(facts[gpus[-1]])
    heads = [h.name for h in made.session.site.with_role(Role.CONTROL)][1:2]
    silent = {
        name: Unanswered(name, "10.0.0.20 refuses port 22", "is sshd up?", away=True)
        for name in heads
    }
    return replace(made, found=Round({n: f for n, f in facts.items() if n not in silent}, silent))


def _receipts(host: str, prepared: Preparation) -> dict[str, Receipt]:
    return {
        stage: Receipt(
            stage=stage,
            fingerprint=one.fingerprint,
            inputs=one.inputs,
            written=TAKEN.isoformat(),
            run="r0",
            appliance="0.1.0",
            resources=1,
        )
        for (stage, name), one in prepared.items()
        if name == host
    }


def _hurt(facts: HostFacts) -> HostFacts:
    """A GPU off its bus, a cable out, a clock that is off, and a receipt of other partitions."""
    assert facts.gpus
    gpus = facts.gpus.model_copy(update={"devices": facts.gpus.devices[:-1]})
    ports = tuple(
        port.model_copy(update={"state": "DOWN", "physical": "Polling", "rate": 0.0})
        if n == 0
        else port
        for n, port in enumerate(facts.ports)
    )
    clock = facts.clock.model_copy(update={"offset": 20.0})
    receipts = dict(facts.receipts)
    if "slurm" in receipts:
        inputs = {**receipts["slurm"].inputs, "slurm_partitions": "another"}
        changed = {"inputs": inputs, "fingerprint": "another"}
        receipts["slurm"] = receipts["slurm"].model_copy(update=changed)
    return facts.model_copy(
        update={"gpus": gpus, "ports": ports, "clock": clock, "receipts": receipts}
    )


def _stages(made: Made) -> tuple[Any, ...]:
    return tuple(stage for stage in STAGES if stage.wanted(made.session.site))


def planned(made: Made, prepared: Preparation) -> Plan:
    """What a deployment would do now."""
    plan = make_plan(made.session, made.found, prepared, Selection(stages=_stages(made)))
    # Fingerprints follow every change of a role.
    cells = tuple(cell.model_copy(update={"fingerprint": ""}) for cell in plan.cells)
    return plan.model_copy(update={"cells": cells})


def _plan(made: Made, prepared: Preparation) -> list[str]:
    plan = planned(made, prepared)
    return _shown(lambda console: plan_table(console, plan))


def _kinds(made: Made) -> dict[str, str]:
    """By what they are one host of each set of roles and owner: others differ in name and address."""
    site = made.session.site
    kinds: dict[str, str] = {}
    for host in site.hosts:
        gpu = Role.GPU in host.roles
        kind = f"gpu host of {site.owner(host)}" if gpu else f"{'+'.join(host.roles)} host"
        kinds.setdefault(kind, host.name)
    return kinds


def _variables(made: Made, prepared: Preparation) -> Sections:
    """By stage and kind of host every variable that a role is given."""
    return {
        f"{stage.name}{OF}{kind}": [
            line
            for name, value in prepared[stage.name, host].variables.items()
            for line in f"{name}: {compact(value, f'{name}: ')}".splitlines()
        ]
        for kind, host in _kinds(made).items()
        for stage in _stages(made)
        if (stage.name, host) in prepared
    }


def _files(made: Made, prepared: Preparation) -> Sections:
    """Every template of every role, by stage, path and kind of host."""
    found: Sections = {}
    for stage in _stages(made):
        for kind, host in _kinds(made).items():
            if one := prepared.get((stage.name, host)):
                given = json.loads(json.dumps(one.variables, default=str))
                for path, text in rendered(stage.ansible_roles, host, given).items():
                    found[f"{stage.name}: {path}{OF}{kind}"] = text.splitlines()
    return found


def _results(results: list[CheckResult], whose: Whose) -> Sections:
    """By check what was judged of which hosts."""
    said = [one.model_dump(mode="json", exclude_defaults=True) for one in results]
    by_check: dict[str, list[dict[str, Any]]] = {}
    for one in said:
        by_check.setdefault(one.pop("id"), []).append(one)
    return {check: whose.folded(own) for check, own in by_check.items()}


def _cells(plan: Plan, whose: Whose) -> list[str]:
    document = plan.model_dump(mode="json", exclude_defaults=True)
    cells = document.pop("cells")
    return [*compact(document).splitlines(), *whose.folded(cells)]


def _run(run: RunRecord) -> list[str]:
    document = run.model_dump(mode="json", exclude_defaults=True, exclude={"results"})
    # The evidence kept of a host names files of the site, so it is another in each folder.
    document["evidence"] = [one["path"] for one in document["evidence"]]
    return compact(document).splitlines()


def report_of(made: Made, results: list[CheckResult]) -> RunRecord:
    """The record of a run that found this."""
    record = record_of(made.session, made.found, Findings(results=results))
    same = {"user": "ada", "control_host": "control", "started": TAKEN, "finished": TAKEN}
    return record.model_copy(update=same)


def _read(page: str) -> list[str]:
    """The words of a page: a line for each paragraph, heading and row of a table, whose cells are apart by "|"."""
    text = KEPT.sub("DIGEST", NO_WORDS.sub("", page))
    for tags, sign in ((CELL, " | "), (BLOCK, "\n"), (MARKUP, " ")):
        text = tags.sub(sign, text)
    return [line for raw in unescape(text).splitlines() if (line := " ".join(raw.split()))]


def _shown(show: Callable[[Console], object]) -> list[str]:
    into = io.StringIO()
    show(Console(file=into, width=WIDTH, markup=False, color_system=None))
    return [line.rstrip() for line in into.getvalue().splitlines()]
