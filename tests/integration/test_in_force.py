"""Changes without a changed file of ours: named by plan and health, mended by one deployment, and nothing else touched."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from appliance.adapters.process import Completed
from appliance.models.plan import Action, Plan
from tests.integration.deployed import ADMIN, Deployed

pytestmark = [pytest.mark.rack, pytest.mark.slow]

CHECKS = {"base.drift", "base.foreign", "base.purge", "base.sysctl_boot"}
NFT = "nft -s list table inet appliance 2>&1 || true"
WHO = f"id {ADMIN}"
RULES = "nft -s list ruleset"


@dataclass(frozen=True)
class Live:
    """A change without a changed file of ours. ``look`` prints it; ``why`` the plan must say."""

    what: str
    stage: str
    host: str
    plant: str
    look: str
    why: str


LIVE = (
    Live(
        "ruleset flushed",
        "base",
        "head",
        "nft flush ruleset",
        NFT,
        "nftables inet appliance (loaded → not loaded)",
    ),
    Live(
        "rule added",
        "base",
        "gpu-1",
        "nft insert rule inet appliance input tcp dport 99 accept",
        NFT,
        'nftables inet appliance (as written → "chain input: tcp dport 99 accept")',
    ),
    Live(
        "policy opened",
        "base",
        "gpu-2",
        "nft chain inet appliance input '{ policy accept; }'",
        NFT,
        'nftables inet appliance ("chain input: type filter hook input priority 0; policy drop;"',
    ),
    Live(
        "host name",
        "base",
        "gpu-1",
        "hostname evil",
        "uname -n",
        "sysctl kernel.hostname (gpu-1 → evil)",
    ),
    Live(
        "group root",
        "base",
        "head",
        f"usermod -G root {ADMIN}",
        WHO,
        f"user {ADMIN} (groups appliance-admins → groups root)",
    ),
    Live(
        "primary group root",
        "base",
        "gpu-2",
        f"usermod -g root {ADMIN}",
        WHO,
        f"user {ADMIN} (gid 1000 → gid 0)",
    ),
    Live(
        "password",
        "base",
        "gpu-1",
        f"usermod -p '$6$x$y' {ADMIN}",
        f"getent shadow {ADMIN} | cut -d: -f2",
        f"user {ADMIN} (password locked → password set)",
    ),
    Live(
        "mount options",
        "storage",
        "gpu-1",
        "mount -o remount,bind,noexec /scratch",
        "findmnt -no OPTIONS /scratch",
        "mount options /scratch (none → noexec)",
    ),
    Live(
        "unit not read anew",
        "observe",
        "gpu-2",
        "sleep 1.1; touch /usr/lib/systemd/system/prometheus-node-exporter.service",
        "systemctl show -p NeedDaemonReload prometheus-node-exporter",
        "unit file prometheus-node-exporter.service (loaded → changed on disk",
    ),
)


@dataclass(frozen=True)
class Played:
    """The live changes: before, planted, and after one deployment; ``found`` by the plan in between."""

    before: Mapping[str, str]
    planted: Mapping[str, str]
    after: Mapping[str, str]
    found: Plan
    told: Mapping[str, list[str]]
    done: Completed
    left: Plan


def failures(deployed: Deployed) -> dict[str, str]:
    """Target of each failure of these checks -> what health says."""
    said = json.loads(deployed.program("health", "--json").stdout)["results"]
    return {
        r["target"]: f"{r['id']}: {r['cause']}"
        for r in said
        if r["id"] in CHECKS and r["status"] != "pass"
    }


@pytest.fixture(scope="module")
def played(deployed: Deployed) -> Played:
    def seen() -> dict[str, str]:
        return {live.what: deployed.said(live.host, live.look) for live in LIVE}

    assert [c for c in deployed.plan().pending() if c.stage != "validate"] == []
    assert failures(deployed) == {}
    deployed.said("head", "nft add table inet theirs")
    before = seen()
    for live in LIVE:
        deployed.said(live.host, live.plant)
    deployed.said("head", "nft add table inet theirs")
    planted, found = seen(), deployed.plan()
    said = json.loads(deployed.program("health", "--json").stdout)["results"]
    told = {r["target"]: r["names"] for r in said if r["id"] == "base.drift"}
    done = deployed.deploy("--until", "observe")
    return Played(before, planted, seen(), found, told, done, deployed.plan())


each = pytest.mark.parametrize("live", LIVE, ids=lambda live: live.what)


@each
def test_a_live_change_is_named_and_mended(played: Played, live: Live) -> None:
    assert played.planted[live.what] != played.before[live.what]
    cell = played.found.cell(live.stage, live.host)
    assert cell is not None
    assert cell.action is Action.REPAIR
    assert live.why in cell.why
    assert live.why.split(" (")[0] in played.told[live.host], "health names it, too"
    assert played.after[live.what] == played.before[live.what]


def test_nothing_else_is_planned_and_all_is_mended(played: Played, deployed: Deployed) -> None:
    planned = {(c.stage, c.host) for c in played.found.pending() if c.stage != "validate"}
    assert planned == {(live.stage, live.host) for live in LIVE}
    assert played.done.returncode == 0, played.done.stdout
    assert [c for c in played.left.pending() if c.stage != "validate"] == []
    assert "table inet theirs" in deployed.said("head", RULES), "other tables are left alone"
    deployed.said("head", "nft delete table inet theirs")
