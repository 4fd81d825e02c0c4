"""appliance validate --self-test"""

from collections.abc import Iterator

import click

from appliance.actions.acceptance import gate_self_test as action
from appliance.actions.acceptance.gate_self_test import Tested
from appliance.actions.sites.opening import Target
from appliance.cli import options
from appliance.engine.accept.gate_self_test import HONEST, EvidenceTrial
from appliance.models.acceptance import GateState
from appliance.report.documents import SelfTest, TriedEvidence
from appliance.text import plural


def try_gates(target: Target, as_json: bool) -> int:
    """Prints each gate with its result. 0: each passed genuine evidence only; 1: one did not; 3: no gate."""
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
    """The sum, gates that could not be tested, then each gate."""
    gates: dict[str, list[EvidenceTrial]] = {}
    for one in tested.tried:
        gates.setdefault(one.gate, []).append(one)
    if tested.tried:
        count = len(tested.tried) - len(gates)
        passed = sum(one.state is GateState.PASSED and one.case != HONEST for one in tested.tried)
        tried_on = plural(count, "forged evidence", "forged evidences")
        yield f"  {tested.profile}: {plural(len(gates), 'gate')}, {tried_on}, {passed} accepted"
    else:
        yield f"  ? profile {tested.profile} has no gate that can be tested"
    for gate, why in tested.blocked.items():
        yield f"  ? {gate}  not tested: {why}"
    for gate, tried in gates.items():
        wrong = [one for one in tried if not one.as_it_should]
        word = f"{len(wrong)} WRONG" if wrong else "closes"
        yield f"  {'✗' if wrong else '✓'} {gate}  {word}: {plural(len(tried) - 1, 'forged evidence', 'forged evidences')}, 1 genuine"
        for one in wrong:
            did = "refused" if one.state != "passed" else "ACCEPTED"
            yield f"      {did}: {one.case}{f' ({one.why})' if one.why else ''}"


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
