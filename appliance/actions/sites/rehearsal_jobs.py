"""What runs on the rack of a rehearsal: jobs and pods before and after the change, and services that restarted."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from appliance.errors import ApplianceError
from appliance.models.plan import Plan
from appliance.models.site import Site
from appliance.report.documents import RUNNING, RehearsedJob

START_S = 60
SERVICES = "systemctl show --property=Id,InvocationID,ActiveState,Type '*.service'"


KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf"
POD_SPEC = '{{"spec": {{"nodeName": "{host}"}}}}'


@dataclass(frozen=True)
class Work:
    """A job of Slurm, by its number, or a pod, by its name, that waits on a host until the rehearsal ends."""

    host: str
    name: str
    is_pod: bool = False


def start(maker: ModuleType, rack: Any, site: Site, hosts: Sequence[Any]) -> tuple[Work, ...]:
    """Starts one job with a GPU on each host, as a user of the site, and waits until they run. Raises ApplianceError."""
    head = _head(rack)
    found = []
    for host in hosts:
        # Without a time limit Slurm cannot say when its host is free, and refuses other users' trial submissions.
        job = f"sbatch --parsable --nodelist={host.name} --gres=gpu:1 --mem=16M --time=60 --chdir=/ --output=/dev/null --job-name=rehearsal --wrap='sleep 86400'"
        said = _on(maker, rack, head, f"runuser -u {shlex.quote(_user(site))} -- {job}")
        found.append(Work(host.name, said.strip().partition(";")[0]))
    for one in found:
        _on(
            maker,
            rack,
            head,
            f"for i in $(seq {START_S * 2}); do squeue --noheader --jobs={one.name} --states=RUNNING | grep -q . && exit; sleep 0.5; done; exit 1",
        )
    return tuple(found)


def start_pods(maker: ModuleType, rack: Any, image: str, hosts: Sequence[Any]) -> tuple[Work, ...]:
    """Starts one pod without a queue on each host, and waits until they run. Raises ApplianceError."""
    head = _head(rack)
    found = [Work(host.name, f"rehearsal-{host.name}", is_pod=True) for host in hosts]
    for one in found:
        spec = shlex.quote(POD_SPEC.format(host=one.host))
        run = f"run {one.name} --image={shlex.quote(image)} --restart=Never --overrides={spec} --command -- sleep 86400"
        _on(maker, rack, head, f"{KUBECTL} {run}")
    for one in found:
        wait = f"wait pod/{one.name} --for=condition=Ready --timeout={START_S}s"
        _on(maker, rack, head, f"{KUBECTL} {wait}")
    return tuple(found)


def states(maker: ModuleType, rack: Any, jobs: Sequence[Work]) -> tuple[RehearsedJob, ...]:
    """The work as it is now; "ended" for what its scheduler no longer knows, "unknown" if that does not answer."""
    return tuple(_pod(maker, rack, one) if one.is_pod else _job(maker, rack, one) for one in jobs)


def _pod(maker: ModuleType, rack: Any, one: Work) -> RehearsedJob:
    path = "{.status.phase} {.status.containerStatuses[0].restartCount}"
    command = f"{KUBECTL} get pod {one.name} --output=jsonpath='{path}'"
    done = maker.ssh.on_host(rack, _head(rack), (command,))
    phase, _, restarts = done.stdout.strip().partition(" ")
    gone = "ended" if "NotFound" in done.stderr else "unknown"
    state = phase.upper() if done.returncode == 0 and phase else gone
    state = "restarted" if state == RUNNING and restarts != "0" else state
    return RehearsedJob(host=one.host, scheduler="kubernetes", job=one.name, state=state)


def _job(maker: ModuleType, rack: Any, one: Work) -> RehearsedJob:
    command = f"squeue --noheader --states=all --format=%T --jobs={one.name}"
    done = maker.ssh.on_host(rack, _head(rack), (command,))
    gone = "ended" if "Invalid job id" in done.stderr else "unknown"
    state = done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else gone
    return RehearsedJob(host=one.host, scheduler="slurm", job=one.name, state=state)


def services(maker: ModuleType, rack: Any, hosts: Sequence[Any]) -> dict[str, dict[str, str]]:
    """By host, the invocation of each service that runs; one that has restarted has another."""
    found = {}
    for host in hosts:
        blocks = maker.ssh.on_host(rack, host, (SERVICES,)).stdout.split("\n\n")
        units = (dict(line.partition("=")[::2] for line in b.splitlines()) for b in blocks)
        found[host.name] = {
            unit["Id"]: unit["InvocationID"]
            for unit in units
            if unit.get("ActiveState") == "active" and unit.get("Type") != "oneshot"
        }
    return found


def restarted(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    """By host, services that ran before and after, and restarted between; hosts without any are left out."""
    found = {
        host: tuple(
            sorted(
                unit.removesuffix(".service")
                for unit, was in units.items()
                if (now := after.get(host, {}).get(unit)) is not None and now != was
            )
        )
        for host, units in before.items()
    }
    return {host: units for host, units in found.items() if units}


def unannounced(
    restarts: Mapping[str, Sequence[str]], plan: Plan | None
) -> dict[str, tuple[str, ...]]:
    """Of these restarts, those that the plan did not name; a host that reboots restarts all."""
    found = {}
    for host, units in restarts.items():
        if plan is not None and host in plan.reboots:
            continue
        named = {u for group in plan.restarts(host) for u in group} if plan else set()
        named = {unit.removesuffix(".service") for unit in named}
        if left := tuple(unit for unit in units if unit not in named):
            found[host] = left
    return found


def _head(rack: Any) -> Any:
    return next(host for host in rack.hosts if "control" in host.roles)


def _user(site: Site) -> str:
    """Who submits: the first user of an account, who may, whatever the accounts are."""
    accounts = site.slurm_options.accounts
    return next((user for account in accounts for user in account.users), "root")


def _on(maker: ModuleType, rack: Any, host: Any, command: str) -> str:
    done = maker.ssh.on_host(rack, host, (command,), timeout=START_S * 2.0)
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())
        raise ApplianceError(f"none started on the rack ({why or 'all wait'})")
    return str(done.stdout)
