"""Twelve changes by hand, each on one host: the plan names it, the next deployment mends that and nothing else.

Three rounds of four: all four are planted, found in one plan and repaired by one deployment.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from appliance.adapters.process import Completed
from appliance.journal import Entry
from appliance.models.plan import Action, Plan
from tests.integration.deployed import ADMIN, Deployed, Pair, Watch

pytestmark = [pytest.mark.rack, pytest.mark.slow]

OLDER = "0~older"
ACT = "/usr/local/sbin/appliance-watch act; true"
# A package of the same content with a lower version, as somebody would go back to one.
REBUILD = f"""set -e
cd "$(mktemp -d)"
dpkg-deb -R /var/cache/apt/archives/{{package}}_*.deb tree
sed -i "s/^Version: .*/Version: {OLDER}/" tree/DEBIAN/control
dpkg-deb -b tree older.deb >/dev/null
dpkg -i older.deb >/dev/null 2>&1
"""
VERSION = "dpkg-query -W -f '${{Status}} ${{Version}}' {package}"
METADATA = "stat -c '%a %U %G' {path}"
DIGEST = "sha256sum {path}"
UNIT = "systemctl is-active {unit}; systemctl is-enabled {unit}; true"


@dataclass(frozen=True)
class Drift:
    """``plant`` changes the host; ``look`` prints what it changed, whole before and after; ``why`` the plan must say.

    ``also``: stages that follow on that host, in the same deployment.
    """

    what: str
    stage: str
    host: str
    plant: str
    look: str
    why: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def pairs(self) -> list[Pair]:
        """What a deployment runs for it."""
        return [(stage, self.host) for stage in (self.stage, *self.also)]

    @property
    def pair(self) -> Pair:
        """Where it is."""
        return self.stage, self.host


FIRST = (
    Drift(
        "file content",
        "fabric",
        "head",
        "echo '# by hand' >> /etc/opensm/opensm.conf",
        DIGEST.format(path="/etc/opensm/opensm.conf"),
        ("file /etc/opensm/opensm.conf (as written → changed",),
    ),
    Drift(
        "file mode",
        "observe",
        "head",
        "chmod 0666 /etc/prometheus/prometheus.yml",
        METADATA.format(path="/etc/prometheus/prometheus.yml"),
        ("file /etc/prometheus/prometheus.yml (mode 0644 → mode 0666)",),
    ),
    Drift(
        "package removed",
        "base",
        "gpu-2",
        "dpkg --remove numactl",
        f"{VERSION.format(package='numactl')} || true",
        ("package numactl (", "→ removed)"),
    ),
    Drift(
        "munge key",
        "slurm",
        "gpu-1",
        "head -c 96 /dev/urandom | base64 -w0 > /etc/munge/munge.key",
        DIGEST.format(path="/etc/munge/munge.key"),
        ("file /etc/munge/munge.key (as written → changed",),
    ),
)
SECOND = (
    Drift(
        "package older",
        "fabric",
        "gpu-1",
        REBUILD.format(package="perftest"),
        VERSION.format(package="perftest"),
        ("package perftest (", f"→ {OLDER})"),
    ),
    Drift(
        "sysctl",
        "base",
        "head",
        "echo 1024 > /proc/sys/net/core/somaxconn",
        "cat /proc/sys/net/core/somaxconn",
        ("sysctl net.core.somaxconn (4096 → 1024)",),
    ),
    Drift(
        "unit stopped",
        "observe",
        "gpu-2",
        "systemctl stop prometheus-node-exporter",
        UNIT.format(unit="prometheus-node-exporter"),
        ("unit prometheus-node-exporter.service (active → inactive)",),
    ),
    Drift(
        "mount gone",
        "storage",
        "gpu-1",
        # Its own watch meets the fault before it is mended, and drains the host.
        f"umount /scratch; {ACT}",
        "findmnt --noheadings --output TARGET,SOURCE /scratch || true",
        ("unit scratch.mount (active → inactive)",),
        also=("slurm",),
    ),
)
THIRD = (
    Drift(
        "file owner",
        "storage",
        "head",
        "chown daemon /etc/ganesha/ganesha.conf",
        METADATA.format(path="/etc/ganesha/ganesha.conf"),
        ("file /etc/ganesha/ganesha.conf (owner root → owner daemon)",),
    ),
    Drift(
        "unit disabled",
        "observe",
        "gpu-1",
        "systemctl disable prometheus-node-exporter",
        UNIT.format(unit="prometheus-node-exporter"),
        ("unit prometheus-node-exporter.service (enabled → disabled)",),
    ),
    Drift(
        "user removed",
        "base",
        "gpu-2",
        f"userdel {ADMIN}",
        f"id -Gn {ADMIN} || true; stat -c %U /home/{ADMIN}",
        (f"user {ADMIN} (present → missing)",),
    ),
    Drift(
        "slurm.conf",
        "slurm",
        "gpu-2",
        "sed -i 's/^ReturnToService=.*/ReturnToService=0/' /etc/slurm/slurm.conf",
        DIGEST.format(path="/etc/slurm/slurm.conf"),
        ("file /etc/slurm/slurm.conf (as written → changed",),
    ),
)
ROUNDS = (FIRST, SECOND, THIRD)
DRIFTS = tuple(drift for drifts in ROUNDS for drift in drifts)


@dataclass(frozen=True)
class Round:
    """What became of the drifts planted together; ``before``, ``planted`` and ``after`` by what they changed."""

    before: dict[str, str]
    planted: dict[str, str]
    found: Plan
    deployed: Completed
    started: tuple[str, ...]
    journal: tuple[Entry, ...]
    after: dict[str, str]
    left: Plan

    def pairs(self, kind: str) -> list[Pair]:
        """Stage and host of the deployment's journal entries of a kind."""
        return sorted((e.stage, e.host) for e in self.journal if e.kind == kind)


@pytest.fixture(scope="module")
def played(
    deployed: Deployed, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Drift], Round]:
    """The round of a drift; played once, when the first of its drifts is asked for."""
    assert _pending(deployed.plan()) == []
    rounds: dict[int, Round] = {}

    def round_of(drift: Drift) -> Round:
        number = next(i for i, drifts in enumerate(ROUNDS) if drift in drifts)
        if number not in rounds:
            watch = Watch(tmp_path_factory.mktemp("watch"))
            rounds[number] = _play(deployed, ROUNDS[number], watch)
        return rounds[number]

    return round_of


def _play(deployed: Deployed, drifts: tuple[Drift, ...], watch: Watch) -> Round:
    def seen() -> dict[str, str]:
        return {d.what: deployed.said(d.host, d.look) for d in drifts}

    before = seen()
    for drift in drifts:
        deployed.said(drift.host, drift.plant)
    planted, found = seen(), deployed.plan()
    # The benchmarks have tests of their own; only after the last round they run, and leave all as it was.
    narrow = () if drifts is ROUNDS[-1] else ("--until", "observe")
    done = deployed.deploy(*narrow, env=watch.env)
    journal = tuple(deployed.journal(deployed.runs()[-1]))
    return Round(
        before, planted, found, done, tuple(watch.started), journal, seen(), deployed.plan()
    )


def _pending(plan: Plan) -> list[Pair]:
    return sorted((c.stage, c.host) for c in plan.pending() if c.stage != "validate")


each = pytest.mark.parametrize("drift", DRIFTS, ids=lambda drift: drift.what)


@each
def test_drift_is_found_and_named(played: Callable[[Drift], Round], drift: Drift) -> None:
    played_round = played(drift)
    assert played_round.planted[drift.what] != played_round.before[drift.what]
    cell = played_round.found.cell(*drift.pair)
    assert cell is not None
    assert cell.action is Action.REPAIR
    for words in drift.why:
        assert words in cell.why


@each
def test_drift_is_repaired(played: Callable[[Drift], Round], drift: Drift) -> None:
    played_round = played(drift)
    assert drift.pair in played_round.pairs("host_done"), played_round.deployed.stdout
    assert drift.pair in played_round.pairs("task_changed")
    assert played_round.after[drift.what] == played_round.before[drift.what]


@each
def test_drift_is_gone_from_the_plan(played: Callable[[Drift], Round], drift: Drift) -> None:
    cell = played(drift).left.cell(*drift.pair)
    assert cell is not None
    assert (cell.action, cell.why) == (Action.SKIP, "")


@pytest.mark.parametrize("drifts", ROUNDS, ids=("first", "second", "third"))
def test_nothing_else_is_planned_or_touched(
    played: Callable[[Drift], Round], drifts: tuple[Drift, ...]
) -> None:
    played_round = played(drifts[0])
    assert _pending(played_round.found) == sorted(d.pair for d in drifts)
    planted = sorted(pair for d in drifts for pair in d.pairs)
    assert played_round.pairs("host_started") == planted
    assert sorted(set(played_round.pairs("task_changed"))) == planted
    assert played_round.pairs("host_failed") == []
    assert _pending(played_round.left) == []
    assert played_round.deployed.returncode == 0, played_round.deployed.stdout
    # One playbook for each stage, and the watch that sees none in test_deploy sees them here.
    playbooks = [line for line in played_round.started if "ansible-playbook" in line]
    assert len(playbooks) == len({stage for stage, _ in planted})


@pytest.mark.parametrize("drifts", ROUNDS[:-1], ids=("first", "second"))
def test_repair_asks_for_new_benchmarks(
    played: Callable[[Drift], Round], drifts: tuple[Drift, ...]
) -> None:
    cells = played(drifts[0]).left.by_stage("validate")
    assert {cell.action for cell in cells} == {Action.RUN}


def test_repaired_cluster_runs_jobs_again(
    deployed: Deployed, played: Callable[[Drift], Round]
) -> None:
    for drifts in ROUNDS:
        played(drifts[0])
    answer = deployed.said("head", "timeout 60 srun -N2 --gres=gpu:8 hostname")
    assert sorted(answer.split()) == ["gpu-1", "gpu-2"]
    assert deployed.program("plan", "--detailed-exitcode").returncode == 0
