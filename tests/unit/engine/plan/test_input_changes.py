"""A plan names what changed inside a variable, where the value that was applied is known."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from appliance.config.secrets import Secret
from appliance.engine.look.gather import Round
from appliance.engine.plan.input_changes import (
    SECRET,
    changes_between,
    changes_since_receipt,
    store_parts,
)
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import Prepared, prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.session import Session
from appliance.stages.context import Variables
from appliance.stages.stage import Stage
from tests.support.engine_fakes import receipt_of, stage_of
from tests.support.facts import facts_of

HOSTS = ("head", "gpu-1", "gpu-2")
NODES = [{"name": "gpu-1", "cpus": 64}, {"name": "gpu-2", "cpus": 64}]


def stage_with(value: object) -> Stage:
    variables: Variables = {"x_nodes": value}
    return stage_of("one", variables=lambda context: variables)


def prepared_with(session: Session, value: object) -> Prepared:
    return prepare(session, {}, (stage_with(value),))["one", "head"]


def told(session: Session, before: object, now: object) -> list[str]:
    """What is said of a value whose receipt is that of another."""
    old = prepared_with(session, before)
    store_parts(session, "one", [old])
    receipt = receipt_of("one", old.fingerprint, inputs=old.inputs)
    return changes_since_receipt(session, "one", receipt, prepared_with(session, now))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (NODES, [*NODES, {"name": "gpu-3", "cpus": 64}], "x_nodes (gpu-3 added)"),
        (NODES, NODES[:1], "x_nodes (gpu-2 removed)"),
        (NODES, [NODES[0], {"name": "gpu-2", "cpus": 32}], "x_nodes (gpu-2 changed)"),
        (NODES, NODES[::-1], "x_nodes"),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}, "x_nodes (c added, b changed)"),
        (["10.0.0.1"], ["10.0.0.2"], "x_nodes (10.0.0.2 added, 10.0.0.1 removed)"),
        ([{"at": "/data"}], [], "x_nodes (/data removed)"),
        ([{"cpus": 1}], [{"cpus": 2}], "x_nodes"),
        ("text", "another", "x_nodes"),
        (
            [],
            [{"name": f"gpu-{n}"} for n in range(1, 351)],
            "x_nodes (gpu-1 added, gpu-2 added, gpu-3 added and 347 more)",
        ),
    ],
)
def test_what_changed_inside_is_named(
    session: Session, before: object, now: object, said: str
) -> None:
    if before != []:
        assert told(session, before, now) == [said]
    assert changes_between(
        session, prepared_with(session, before), prepared_with(session, now)
    ) == [said]


def test_a_secret_is_no_name_and_its_digest_is_salted(session: Session) -> None:
    assert told(session, [Secret("hunter2")], [Secret("hunter3")]) == ["x_nodes"]
    assert told(session, {"key": Secret("hunter2")}, {"key": Secret("hunter3")}) == [
        "x_nodes (key changed)"
    ]
    kept = [entry.data for entry in session.journal.entries("variable")]
    assert "hunter" not in str(kept)
    other = replace(session, secrets={**session.secrets, "more": Secret("x")})
    assert prepared_with(other, {"key": "v"}).inputs != prepared_with(session, {"key": "v"}).inputs


def test_a_value_is_kept_once_however_many_hosts_it_goes_to(session: Session) -> None:
    for _ in range(2):
        store_parts(session, "one", prepare(session, {}, (stage_with(NODES),)).values())
    assert len(list(session.journal.entries("variable"))) == 1


def test_a_value_of_another_control_machine_is_told_by_its_name_alone(session: Session) -> None:
    old, now = prepared_with(session, NODES), prepared_with(session, NODES[:1])
    receipt = receipt_of("one", old.fingerprint, inputs=old.inputs)
    assert changes_since_receipt(session, "one", receipt, now) == ["x_nodes"]


def test_another_secret_is_told_as_that_and_not_as_changes_of_all_settings(
    session: Session,
) -> None:
    stage = stage_of("one", variables=lambda context: {"x_nodes": NODES, "x_plain": "text"})
    old = prepare(session, {}, (stage,))["one", "head"]
    store_parts(session, "one", [old])
    receipt = receipt_of("one", old.fingerprint, inputs={**old.inputs, "playbook": "another"})
    other = replace(session, secrets={**session.secrets, "more": Secret("x")})
    said = changes_since_receipt(other, "one", receipt, prepare(other, {}, (stage,))["one", "head"])
    assert said == [SECRET, "playbook"]
    back = changes_since_receipt(session, "one", receipt, old)
    assert back == ["playbook"]


def whys(session: Session, stage: Stage, inputs: Mapping[str, str]) -> set[str]:
    receipt = receipt_of("one", "another", inputs=inputs)
    found = Round({h: facts_of(h, receipts={"one": receipt}) for h in HOSTS}, {})
    prepared = prepare(session, found.facts, (stage,))
    plan = make_plan(session, found, prepared, Selection(stages=(stage,)))
    return {cell.why for cell in plan.cells}


def test_the_plan_says_it(session: Session) -> None:
    old = prepared_with(session, NODES)
    store_parts(session, "one", [old])
    assert whys(session, stage_with(NODES[:1]), old.inputs) == {"changed: x_nodes (gpu-2 removed)"}


def test_a_receipt_of_a_release_that_counted_modules_together_says_so(session: Session) -> None:
    old = {**prepared_with(session, NODES).inputs, "modules": "0123"}
    (why,) = whys(session, stage_with(NODES), old)
    assert "did not record modules separately" in why
