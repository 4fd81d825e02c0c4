"""A hundred changes by hand on a rack: each is one line with its host, what a stage owns is put back, and nothing else is touched."""

import re
import shlex
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from appliance.adapters.process import Completed
from appliance.models.plan import Plan
from appliance.report.documents import Health
from appliance.stages.observe.ids import ALERTS
from tests.integration.deployed import HOSTS, Deployed, appliance
from tests.integration.planted_changes import CHANGES, UPDATE, Change, Verb

pytestmark = [pytest.mark.rack, pytest.mark.slow]

# Of everything that is planted, in the words of the programs that know it. When a password was changed differs after midnight.
STATE = r"""find /etc /usr/local /root /usr/bin/chfn /usr/bin/nproc /var/spool/cron -xdev -type f ! -name '*-' ! -name '*.pyc' \
  ! -name '.*.lock' ! -path /etc/ld.so.cache ! -path /etc/shadow ! -path '/root/.ansible/*' -printf '%m %u %g %p ' -exec sha256sum {} \; | sort
getent passwd; getent shadow | cut -d: -f1,2,4-; getent group; uname -n; readlink /etc/localtime
systemctl list-unit-files --no-legend --no-pager --state=enabled,disabled,masked
nft -s list ruleset; findmnt -rno TARGET,OPTIONS /scratch; findmnt -rno TARGET /usr/games /etc/logrotate.d
dpkg-query -W; dpkg --get-selections; sysctl -a 2>/dev/null | grep -E 'somaxconn|accept_redirects|route_localnet'
command -v slurmctld >/dev/null || exit 0
scontrol -o show partition; scontrol -o show reservation; sacctmgr -nP show assoc format=account,user
"""
DIFFERENCE = re.compile(r"^[-+~] (\S+): (.*)$")

Lines = Mapping[Verb, list[tuple[str, str]]]
"""What each verb tells, by the host it tells it of."""
Names = list[tuple[str, str]]
"""What health names, by host: a thing that base.drift lists, the part that another check judges, or a word of its cause."""


def on_all(rack: Deployed, scripts: Mapping[str, str]) -> dict[str, str]:
    """What each host's shell printed, side by side."""

    def one(host: str) -> str:
        done = rack.shell(host, "bash -s", input=scripts[host])
        assert done.returncode == 0, f"{host}: {done.stderr}"
        return done.stdout

    with ThreadPoolExecutor(len(HOSTS)) as pool:
        return dict(zip(HOSTS, pool.map(one, HOSTS), strict=True))


def state(rack: Deployed) -> dict[str, str]:
    return on_all(rack, dict.fromkeys(HOSTS, STATE))


def script(host: str, lines: Iterator[str]) -> str:
    """Each by itself, so that one that fails is named and hinders no other."""
    each = [f"( set -e\n{line}\n) >/dev/null || failed={shlex.quote(line)}" for line in lines]
    return "\n".join([*each, 'test -z "$failed" || { echo "$failed" >&2; exit 1; }'])


def plant(rack: Deployed) -> None:
    on_all(rack, {h: script(h, (c.plant for c in CHANGES if c.host == h)) for h in HOSTS})


def undo(rack: Deployed) -> None:
    """What no deployment puts back."""
    lines = {h: [c.undo for c in CHANGES if c.host == h and c.undo] for h in HOSTS}
    on_all(rack, {h: script(h, iter([*lines[h], "systemctl daemon-reload"])) for h in HOSTS})


def told(rack: Deployed) -> tuple[Plan, Lines, Names]:
    plan = rack.plan()
    now = Health.model_validate_json(rack.program("health", "--json").stdout)
    since = rack.program("health", "--since", "baseline", "--deep").stdout
    matched = [DIFFERENCE.match(line.strip()) for line in since.splitlines()]
    differences = [(m.group(1), m.group(0)) for m in matched if m]
    # Some alerts judge the kernel, which all racks share: test_alerts tries them.
    bad = [r for r in now.results if r.status not in {"pass", "not_assessed"}]
    found = [r for r in bad if r.id != ALERTS]
    names = [
        (r.host or "", n)
        for r in found
        for n in (*r.names, r.target.partition("/")[2], *r.cause.split())
    ]
    lines = {
        Verb.PLAN: [(c.host, d) for c in plan.pending() for d in c.differences],
        Verb.HEALTH: [(r.host or "", f"{r.id} {r.target}: {r.cause}") for r in found],
        Verb.SINCE: differences,
        Verb.DEEP: differences,
    }
    return plan, lines, names


def pending(plan: Plan) -> set[tuple[str, str]]:
    return {(c.stage, c.host) for c in plan.pending() if c.stage != "validate"}


def noise(rack: Deployed) -> list[object]:
    """What is told of a rack that nobody touched."""
    plan, lines, _ = told(rack)
    return [*pending(plan), *lines[Verb.HEALTH], *lines[Verb.SINCE]]


def baseline(rack: Deployed, verb: str, *flags: str) -> Completed:
    return appliance("baseline", verb, "--site", str(rack.site), *flags)


@dataclass(frozen=True)
class Played:
    """The rack before, with all changes, and after one deployment."""

    before: Mapping[str, str]
    planted: Mapping[str, str]
    after: Mapping[str, str]
    plan: Plan
    told: Lines
    named: Names
    done: Completed
    rules: str


@pytest.fixture(scope="module")
def played(deployed: Deployed) -> Played:
    taken = baseline(deployed, "accept", "--reason", "as deployed")
    assert taken.returncode == 0, taken.stdout
    assert noise(deployed) == []
    before = state(deployed)
    try:
        plant(deployed)
        planted = state(deployed)
        plan, lines, names = told(deployed)
    finally:
        undo(deployed)
    deployed.said("head", "nft add table inet theirs")
    done = deployed.deploy("--until", "observe")
    rules = deployed.said("head", "nft list tables; nft delete table inet theirs")
    return Played(before, planted, state(deployed), plan, lines, names, done, rules)


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c.kind}: {c.told}")
def test_each_change_is_one_line_of_its_host(played: Played, change: Change) -> None:
    lines = [line for host, line in played.told[change.verb] if host == change.host]
    assert len([line for line in lines if change.told in line]) == 1, "\n".join(lines)


@pytest.mark.parametrize(
    "change", [c for c in CHANGES if c.verb is Verb.PLAN], ids=lambda c: c.told.partition(" (")[0]
)
def test_health_names_what_the_plan_would_put_back(played: Played, change: Change) -> None:
    thing = change.told.partition(" (")[0]
    named = [name for host, name in played.named if host == change.host]
    # A unit and a kernel parameter of the profile have checks of their own.
    assert thing in named or thing.split()[-1] in named, "\n".join(named)


def test_nothing_else_is_told(played: Played) -> None:
    plants = {h: " ".join(f"{c.plant} {c.told}" for c in CHANGES if c.host == h) for h in HOSTS}
    for host, line in played.told[Verb.SINCE]:
        is_known = any(c.told in line for c in CHANGES if c.host == host)
        paths = [word for word in line.split() if word.startswith("/")]
        assert is_known or any(path in plants[host] for path in paths), line
    owned = {(c.stage, c.host) for c in CHANGES if c.stage}
    assert pending(played.plan) - owned <= {("slurm", "gpu-1"), ("base", "gpu-1")}, played.plan


def test_all_is_put_back_and_nothing_else_is_touched(played: Played, deployed: Deployed) -> None:
    assert played.done.returncode == 0, played.done.stdout
    for host in HOSTS:
        before, after = played.before[host].splitlines(), played.after[host].splitlines()
        assert played.planted[host] != played.before[host]
        differ = set(before) ^ set(after)
        # kubelet on another rack sets kernel.panic of the machine; a container's file names what the machine has.
        assert sorted(line for line in differ if "sysctl.d/99-zz-appliance-base" not in line) == []
    assert "table inet theirs" in played.rules, "other tables are left alone"
    assert noise(deployed) == []


def test_what_somebody_accepts_is_told_no_more(deployed: Deployed, played: Played) -> None:
    assert played.told

    def lines() -> list[str]:
        said = deployed.program("health", "--since", "baseline").stdout.splitlines()
        return [line for line in map(str.strip, said) if DIFFERENCE.match(line)]

    deployed.said("gpu-1", "usermod -s /bin/sh backup")
    try:
        assert [line.split(": ")[1] for line in lines()] == ["account backup"]
        assert baseline(deployed, "accept", "--reason", "it logs in there").returncode == 0
        assert lines() == []
        assert "it logs in there" in baseline(deployed, "show").stdout
    finally:
        deployed.said("gpu-1", "usermod -s /usr/sbin/nologin backup")


def test_updates_of_the_distribution_are_versions_and_no_finding(deployed: Deployed) -> None:
    """Packages with another program and another file of /etc; one of them is a stage's, which holds no version of it."""
    assert baseline(deployed, "accept", "--reason", "before the updates").returncode == 0
    deployed.said("head", UPDATE)
    plan, lines, _ = told(deployed)
    assert pending(plan) == set()
    assert lines[Verb.HEALTH] == []
    updated = ["javascript-common", "keyutils", "libaio1", "numactl"]
    assert [line.split(": ")[1] for _, line in lines[Verb.SINCE]] == [
        f"package {name}" for name in updated
    ]
    done = deployed.deploy("--stage", "base", "--hosts", "head", "--full")
    assert done.returncode == 0, done.stdout
    assert deployed.said("head", "dpkg-query -W -f '${Version}' numactl").endswith("+deb12u9")
    assert pending(deployed.plan()) == set()


def test_a_changed_file_is_told_by_the_next_health_after_the_hosts_own_look(
    deployed: Deployed,
) -> None:
    look = "systemctl start appliance-weekly"

    def told_of(host: str) -> list[str]:
        said = deployed.program("health", "--check", "base.weekly", "--json").stdout
        results = Health.model_validate_json(said).results
        return [r.cause for r in results if r.host == host and r.status in {"fail", "warn"}]

    deployed.said("gpu-1", look)
    assert told_of("gpu-1") == []
    deployed.said(
        "gpu-1", f"cp -a /usr/bin/nproc /var/tmp/nproc.kept; cat /bin/true >/usr/bin/nproc; {look}"
    )
    (cause,) = told_of("gpu-1")
    assert cause.startswith("the weekly run 0 days ago found package file /usr/bin/nproc: ")
    deployed.said(
        "gpu-1", f"cat /var/tmp/nproc.kept >/usr/bin/nproc; rm /var/tmp/nproc.kept; {look}"
    )
    assert told_of("gpu-1") == []
    last = "/var/lib/appliance/weekly/last.json"
    deployed.said("gpu-1", rf"""sed -i 's/"time": [0-9.]*/"time": 1.0/' {last}""")
    (cause,) = told_of("gpu-1")
    assert cause.startswith("the last weekly run was ")
    deployed.said("gpu-1", look)
    assert told_of("gpu-1") == []
    assert deployed.said("gpu-1", "systemctl is-active appliance-weekly.timer").strip() == "active"
