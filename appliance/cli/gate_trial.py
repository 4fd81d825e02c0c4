"""appliance validate --self-test"""

from collections.abc import Iterator

import click

from appliance.actions import self_test as action
from appliance.actions.opening import Target
from appliance.actions.self_test import Tested
from appliance.cli import options
from appliance.engine.self_test import HONEST, Tried
from appliance.models.acceptance import GateState
from appliance.report.documents import SelfTest, TriedEvidence
from appliance.text import plural


def try_gates(target: Target, as_json: bool) -> int:
    """Prints each gate with what it did. 0 where each passed honest evidence and nothing else, 1 where not, 3 without a gate."""
    tested = action.try_gates(target)
    if as_json:
        options.echo_json(_document(tested))
    else:
        for line in _lines(tested):
            click.echo(line)
    if not tested.tried:
        return 3
    return 0 if tested.good else 1


def _lines(tested: Tested) -> Iterator[str]:
    gates: dict[str, list[Tried]] = {}
    for one in tested.tried:
        gates.setdefault(one.gate, []).append(one)
    for gate, tried in gates.items():
        wrong = [one for one in tried if not one.as_it_should]
        word = f"{len(wrong)} WRONG" if wrong else "closes"
        yield f"  {'✗' if wrong else '✓'} {gate}  {word}: {plural(len(tried) - 1, 'doctored evidence', 'doctored evidences')}, 1 honest"
        for one in wrong:
            did = "refused" if one.state != "passed" else "LET PASS"
            yield f"      {did}: {one.case}{f' ({one.why})' if one.why else ''}"
    if tested.tried:
        count = len(tested.tried) - len(gates)
        passed = sum(one.state is GateState.PASSED and one.case != HONEST for one in tested.tried)
        tried_on = plural(count, "doctored evidence", "doctored evidences")
        yield f"  {tested.profile}: {plural(len(gates), 'gate')}, {tried_on}, {passed} let pass"
    for gate, why in tested.blocked.items():
        yield f"  ? {gate}  not tried: {why}"
    if not tested.tried:
        yield f"  ? profile {tested.profile} has no gate that can be tried"


def _document(tested: Tested) -> SelfTest:
    tried = tuple(
        TriedEvidence(
            gate=one.gate, case=one.case, state=one.state, why=one.why, good=one.as_it_should
        )
        for one in tested.tried
    )
    return SelfTest(
        site=tested.site,
        profile=tested.profile,
        good=tested.good,
        tried=tried,
        blocked=tested.blocked,
    )
