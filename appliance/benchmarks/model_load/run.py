"""Measures on hosts of a site, or on this machine: sends the program, reads its answer, judges it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from appliance.adapters import process
from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.model_load import tables
from appliance.benchmarks.model_load.answer import read
from appliance.benchmarks.model_load.gates import TENSORS
from appliance.benchmarks.model_load.gates import places as site_places
from appliance.benchmarks.model_load.judge import CHECKS, Limits, judge
from appliance.benchmarks.model_load.request import Request
from appliance.checks.check import View, judged, not_assessed
from appliance.errors import ApplianceError, ConfigError
from appliance.models.result import CLUSTER, CheckResult, Status
from appliance.models.site import Role
from appliance.probe import bundle
from appliance.text import quoted

PROGRAM = Path(__file__).parent / "host"
MODULE = "appliance.benchmarks.model_load.host.__main__"
WHAT = "the measurement"
SLACK = 120.0
"""Seconds in addition to the loads: creating the file, starting Python."""
NO_PYTHON = "set one that exists there with --python"


@cache
def program() -> bytes:
    """The program for the host, as a zip archive, with the same bytes for the same sources."""
    folder = "appliance/benchmarks/model_load"
    files = [
        (f"{folder}/host/{path.name}", path.read_bytes()) for path in sorted(PROGRAM.glob("*.py"))
    ]
    packages = ["appliance/benchmarks/__init__.py", f"{folder}/__init__.py"]
    return bundle.packed([*((name, b"") for name in packages), *files])


def run(view: View, remote: Remote, request: Request | None = None) -> Outcome:
    """On the hosts named, else on the first GPU host. Raises ConfigError for a host or place the site does not have."""
    asked = request or Request()
    places = asked.places or site_places(view)
    hosts = asked.hosts or tuple(h.name for h in view.site.with_role(Role.GPU)[:1])
    known = {host.name for host in view.site.hosts}
    if strange := [name for name in hosts if name not in known]:
        raise ConfigError(
            f"the site has no host {quoted(strange[0])}", "hosts: " + ", ".join(known)
        )
    if not places or not hosts:
        why = "the site has no GPU host" if not hosts else "the site has neither mount nor scratch"
        return _only(not_assessed(CLUSTER, why, fix="name folders with --place").of(TENSORS))
    limits = {name: view.limit(name) for name in CHECKS}
    simulated = bool(view.site.simulated)
    # One after the other: each host has the storage to itself.
    found = [_on_host(remote, host, asked, places, limits, simulated) for host in hosts]
    return Outcome(
        tuple(result for one in found for result in one.results),
        tuple(measured for one in found for measured in one.measurements),
        tuple(table for one in found for table in one.tables),
        tuple(raw for one in found for raw in one.raw),
    )


def here(request: Request) -> Outcome:
    """Runs on this machine. Raises ApplianceError if its Python does not start."""
    done = process.run(
        _argv(request.python),
        input=_input(request, request.places),
        timeout=_timeout(request),
        check=False,
    )
    return _read(done, "", request.places, {}, simulated=False)


def _on_host(
    remote: Remote,
    host: str,
    asked: Request,
    places: Sequence[str],
    limits: Limits,
    simulated: bool,
) -> Outcome:
    try:
        done = remote.run(
            host, _argv(asked.python), input=_input(asked, places), timeout=_timeout(asked)
        )
    except ApplianceError as error:
        return _only(not_assessed(host, error.message, fix=error.hint).of(TENSORS))
    return _read(done, host, places, limits, simulated=simulated)


def _argv(python: str) -> list[str]:
    # Not -S, unlike the probe: the loaders are site packages.
    return [python, "-I", "-B", "-c", bundle.bootstrap(MODULE, WHAT)]


def _input(request: Request, places: Sequence[str]) -> bytes:
    return bundle.payload(request.asked_of_host(tuple(places)), program())


def _timeout(request: Request) -> float:
    return request.deadline + SLACK


def _read(
    done: Completed, host: str, places: Sequence[str], limits: Limits, *, simulated: bool
) -> Outcome:
    at = host or CLUSTER
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        why = f"the measurement ended with {done.returncode}: {said[:300]}"
        return _only(not_assessed(at, why, fix=NO_PYTHON).of(TENSORS))
    try:
        answer = read(done.stdout, places)
    except ValueError as error:
        cause = f"the measurement's answer cannot be read: {error}"
        return _only(judged(at, Status.ERROR, cause=cause, fix=NO_PYTHON).of(TENSORS))
    results = [r.model_copy(update={"simulated": simulated}) for r in judge(answer, limits, host)]
    return Outcome(
        tuple(results),
        tuple(tables.measurements(answer, host, simulated)),
        tuple(tables.tables(answer, host)),
        (Raw(f"{host or 'here'}.json", done.stdout),),
    )


def _only(result: CheckResult) -> Outcome:
    return Outcome((result,))
