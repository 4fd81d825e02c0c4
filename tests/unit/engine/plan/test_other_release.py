"""What is wrong where another release of the program deployed is told as that."""

from dataclasses import replace

import pytest

from appliance.checks.check import failed, passed, warned
from appliance.config.data import root
from appliance.engine.plan.fingerprint import files_of
from appliance.engine.plan.other_release import stages_of_other_release
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult
from appliance.stages.catalog import STAGES
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of

BASE = next(stage for stage in STAGES if stage.name == "base")
OBSERVE = next(stage for stage in STAGES if stage.name == "observe")


@pytest.fixture
def here(session: Session) -> Session:
    """With the program's own roles and playbooks."""
    return replace(session, data=root())


def hosts(session: Session, *old: tuple[str, str]) -> dict[str, HostFacts]:
    """Hosts deployed by this program, but for these stages on these hosts."""
    facts = {}
    for host in ("head", "gpu-1", "gpu-2"):
        receipts = {}
        for stage in (BASE, OBSERVE):
            inputs = dict(files_of(stage, session.data))
            if (stage.name, host) in old:
                inputs["playbook"] = "of before"
            receipts[stage.name] = receipt_of(stage.name, "f", inputs=inputs)
        facts[host] = facts_of(host, receipts=receipts)
    return facts


SYSCTL = failed("gpu-1", "vm.swappiness is 60, not 10", "appliance deploy").of("base.sysctl")
RULES = warned("cluster", "42 of 46 rules", "appliance deploy").of("observe.rules")


@pytest.mark.parametrize(
    ("old", "results", "told"),
    [
        ((), (SYSCTL, RULES), ()),
        ((("base", "gpu-1"),), (SYSCTL, RULES), ("base",)),
        ((("base", "gpu-2"),), (SYSCTL,), ()),
        ((("observe", "gpu-2"),), (SYSCTL, RULES), ("observe",)),
        ((("base", "gpu-1"), ("observe", "head")), (RULES, SYSCTL), ("base", "observe")),
        ((("base", "gpu-1"),), (passed("gpu-1").of("base.sysctl"),), ()),
    ],
    ids=["none", "that host", "another host", "of the cluster", "both", "nothing wrong"],
)
def test_only_where_something_is_wrong_and_only_of_the_host_it_speaks_of(
    here: Session,
    old: tuple[tuple[str, str], ...],
    results: tuple[CheckResult, ...],
    told: tuple[str, ...],
) -> None:
    assert stages_of_other_release(here, hosts(here, *old), results) == told


def test_a_role_that_came_with_this_release_counts_as_another_release(here: Session) -> None:
    facts = hosts(here)
    inputs = dict(files_of(BASE, here.data))
    del inputs["role base"]
    base = receipt_of("base", "f", inputs=inputs)
    facts["gpu-1"] = facts_of("gpu-1", receipts={"base": base})
    assert stages_of_other_release(here, facts, (SYSCTL,)) == ("base",)
