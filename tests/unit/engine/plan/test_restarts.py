"""A plan names what a change restarts, and what it may."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from appliance.config.secrets import Secret
from appliance.engine.look.gather import Round
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, Plan
from appliance.stages.restart import Restart
from appliance.stages.stage import Stage
from tests.support.engine_fakes import receipt_of, stage_of
from tests.support.facts import facts_of

HOSTS = ("head", "gpu-1", "gpu-2")
VARIABLES = {"x_name": "n", "x_nodes": ["a", "b"], "x_users": ["u"], "x_releases": []}
DAEMON, READER = "/etc/x/daemon.conf", "/etc/x/reader.conf"
RESTARTS = (
    Restart("daemon", (DAEMON,), frozenset({"x_nodes"}), frozenset({"x_users"})),
    Restart("reader", (READER,), by=("fixer",), before=True),
    Restart("pods", maybe=frozenset({"x_releases"})),
)
RUN = {"load": "loaded", "active": "active"}
DEAD = {"load": "loaded", "active": "inactive"}
UNITS = {"daemon.service": RUN, "reader.service": RUN}


def stage(**variables: object) -> Stage:
    return stage_of("one", restarts=RESTARTS, variables=lambda _: {**VARIABLES, **variables})


def facts(
    session: Session,
    units: Mapping[str, object] = UNITS,
    inputs: Mapping[str, str] | None = None,
    drift: Sequence[Mapping[str, str]] = (),
) -> Round:
    """Hosts on which stage one is finished as the variables were; ``inputs``: with others."""
    known = prepare(session, {}, (stage(),))
    receipts = {
        host: receipt_of(
            "one",
            "of others" if inputs else known["one", host].fingerprint,
            inputs=inputs or known["one", host].inputs,
            drift=drift,
        )
        for host in HOSTS
    }
    told = {host: facts_of(host, units=units, receipts={"one": receipts[host]}) for host in HOSTS}
    return Round(told, {})


def planned(session: Session, found: Round, *stages: Stage, full: bool = False) -> Plan:
    prepared = prepare(session, found.facts, stages)
    return make_plan(session, found, prepared, Selection(stages=stages, full=full))


def units(session: Session, found: Round, one: Stage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return planned(session, found, one).restarts("gpu-1")


def test_a_variable_that_comes_into_a_file_restarts_who_reads_it(session: Session) -> None:
    assert units(session, facts(session), stage(x_nodes=["a"])) == (("daemon",), ())


def test_a_variable_that_comes_into_no_file_restarts_nothing(session: Session) -> None:
    assert units(session, facts(session), stage(x_name="other")) == ((), ())


def test_a_variable_whose_presence_alone_counts(session: Session) -> None:
    assert units(session, facts(session), stage(x_users=["u", "v"])) == ((), ())
    assert units(session, facts(session), stage(x_users=[])) == (("daemon",), ())


def test_a_variable_that_only_the_host_can_judge(session: Session) -> None:
    assert units(session, facts(session), stage(x_releases=["kai"])) == ((), ("pods",))


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        ("as written", "changed (sha256 1234…)", ("daemon",)),
        ("a file", "missing", ("daemon",)),
        ("mode 0644", "mode 0600", ()),
    ],
)
def test_a_file_that_drifted_restarts_who_reads_it_unless_only_its_mode_differs(
    session: Session, expected: str, found: str, told: tuple[str, ...]
) -> None:
    drift = [{"kind": "file", "name": DAEMON, "expected": expected, "found": found}]
    assert units(session, facts(session, drift=drift), stage()) == (told, ())


def test_another_release_of_the_role_may_restart_all_it_has(session: Session) -> None:
    inputs = {**prepare(session, {}, (stage(),))["one", "gpu-1"].inputs, "role x": "old"}
    found = facts(session, inputs=inputs)
    assert units(session, found, stage()) == ((), ("daemon", "reader", "pods"))


def test_under_another_secret_nothing_is_known_for_certain(session: Session) -> None:
    found = facts(session)
    other = replace(session, secrets={"munge_key": Secret("another")})
    assert units(other, found, stage()) == ((), ("daemon", "reader", "pods"))


def test_a_package_that_is_put_back_may_restart_what_it_brings(session: Session) -> None:
    drift = [{"kind": "package", "name": "x", "expected": "1", "found": "removed"}]
    assert units(session, facts(session, drift=drift), stage()) == (
        (),
        ("daemon", "reader", "pods"),
    )


def test_what_does_not_run_is_started_and_not_restarted(session: Session) -> None:
    found = facts(session, {"daemon.service": DEAD, "reader.service": RUN})
    assert units(session, found, stage(x_nodes=[])) == ((), ())


def test_a_first_deployment_may_restart_what_ran_before(session: Session) -> None:
    bare = {h: facts_of(h, units={"daemon.service": DEAD}) for h in HOSTS}
    assert units(session, Round(bare, {}), stage()) == ((), ("reader",))


def test_a_run_of_all_that_differs_in_nothing_restarts_nothing(session: Session) -> None:
    plan = planned(session, facts(session), stage(), full=True)
    assert plan.cells[0].action is Action.RUN
    assert plan.restarts("gpu-1") == ((), ())


def test_what_a_stage_restarts_for_certain_is_judged_by_facts(session: Session) -> None:
    def is_old(host: object, facts: HostFacts | None, variables: object) -> bool:
        return facts is not None and facts.os.kernel == "5.15"

    driver = (Restart("client", by=("driver",), when=is_old),)
    one = replace(stage(x_name="other"), restarts=driver)
    found = facts(session, {"client.service": RUN})
    assert units(session, found, one) == ((), ())
    host = found.facts["gpu-1"]
    old = host.model_copy(update={"os": host.os.model_copy(update={"kernel": "5.15"})})
    assert units(session, Round({**found.facts, "gpu-1": old}, {}), one) == (("client",), ())


def test_a_stage_that_was_not_proved_may_do_what_its_tasks_do_about_it(session: Session) -> None:
    session.journal.append("r0", "host_failed", stage="one", host="gpu-1", cause="it hangs")
    plan = planned(session, facts(session), stage(x_name="other"))
    assert plan.restarts("gpu-1") == ((), ("reader",))
    assert plan.restarts("gpu-2") == ((), ())


def test_a_finished_stage_that_learns_of_others_is_named_with_what_it_may_restart(
    session: Session,
) -> None:
    teacher = stage_of("two")
    found = facts(session)
    plan = planned(session, found, teacher, replace(stage(), facts_from=("two",)))
    assert plan.cell("one", "gpu-1").action is Action.SKIP  # type: ignore[union-attr]
    assert plan.restarts("gpu-1") == ((), ("daemon", "pods"))
