"""Steps of the scale benchmark that are measured in a process of their own; each prints its figures as JSON."""

import gc
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.ansible import stage_in
from appliance.cli.collector import relax
from appliance.cli.options import quiet
from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.run_record import Findings, record_of
from appliance.engine.look.survey import view_of
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.run.stage_run import play_of
from appliance.report import prometheus
from appliance.report.html import render
from appliance.stages.catalog import STAGES
from benchmarks.scale_site import answered, write_answers, write_site

T = TypeVar("T")
FOLDER = click.Path(path_type=Path)


@click.group()
def main() -> None:
    """One step, with the collector as the program sets it."""
    relax()


@main.command()
@click.argument("folder", type=FOLDER)
@click.argument("keys", type=FOLDER)
@click.argument("hosts", type=int)
def site(folder: Path, keys: Path, hosts: int) -> None:
    """Makes a site, and what its hosts answer."""
    write_site(folder, keys, hosts)
    write_answers(folder)


@main.command()
@click.argument("folder", type=FOLDER)
def plan(folder: Path) -> None:
    """Plans a site and judges it, in processor seconds."""
    seconds: dict[str, float] = {}
    with open_session(Target(folder), "plan", quiet()) as session:
        facts = _timed(seconds, "read", lambda: answered(session))
        # As the program does once all hosts have answered.
        gc.freeze()
        found = Round(facts, {})
        stages = tuple(stage for stage in STAGES if stage.wanted(session.site))
        made = _timed(seconds, "prepare", lambda: prepare(session, facts, stages))
        chosen = Selection(stages=stages)
        whole = _timed(seconds, "plan", lambda: make_plan(session, found, made, chosen))
        view = view_of(session, found)
        results = _timed(seconds, "judge", lambda: judge_all(view, found, ALL_CHECK_IDS))
        changes = sum(cell.action.changes for cell in whole.cells)
    _tell(seconds=seconds, cells=len(whole.cells), changes=changes, results=len(results))


@main.command()
@click.argument("folder", type=FOLDER)
@click.argument("into", type=FOLDER)
def inventory(folder: Path, into: Path) -> None:
    """Writes Ansible's inventory of stage slurm into a folder, with what ansible-playbook needs to read it."""
    into.mkdir(mode=0o700)
    seconds: dict[str, float] = {}
    with open_session(Target(folder), "plan", quiet()) as session:
        facts = answered(session)
        stages = tuple(stage for stage in STAGES if stage.name == "slurm")
        made = prepare(session, facts, stages)
        everything = Selection(stages=stages, full=True)
        whole = make_plan(session, Round(facts, {}), made, everything)
        play = play_of(session, stages[0], whole.cells, made, {})
        environment = _timed(seconds, "write", lambda: stage_in(into, play))
    size = (into / "inventory/hosts.json").stat().st_size
    program = str(Path(sys.executable).parent / "ansible-playbook")
    argv = (program, "-i", str(into / "inventory"), "--list-hosts", str(play.playbook))
    _tell(seconds=seconds, bytes=size, argv=argv, environment=environment)


@main.command()
@click.argument("folder", type=FOLDER)
def report(folder: Path) -> None:
    """Renders the report and the metrics of a site, in processor seconds and bytes."""
    seconds: dict[str, float] = {}
    with open_session(Target(folder), "health", quiet()) as session:
        found = Round(answered(session), {})
        results = judge_all(view_of(session, found), found, ALL_CHECK_IDS)
        record = record_of(session, found, Findings(results=results))
        page = _timed(seconds, "html", lambda: render(record))
        now = datetime.now(UTC)
        metrics = _timed(seconds, "prometheus", lambda: prometheus.render("a", results, now))
    sizes = {"html": len(page.encode()), "prometheus": len(metrics.encode())}
    _tell(seconds=seconds, bytes=sizes)


def _timed(seconds: dict[str, float], name: str, work: Callable[[], T]) -> T:
    before = time.process_time()
    done = work()
    seconds[name] = time.process_time() - before
    return done


def _tell(**figures: object) -> None:
    click.echo(json.dumps(figures))


if __name__ == "__main__":
    main()
