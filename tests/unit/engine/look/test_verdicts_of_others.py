"""Whatever one host of an accepted site answers, the verdicts of all other hosts are as they were."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appliance.engine.look.gather import Round
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.survey import view_of
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult
from tests.golden.record import at_work
from tests.integration.hostile_site import exaggerated, spread
from tests.support.deployed_site import deployed

Answer = dict[str, Any]
LIAR, OTHER, HEAD = "gpu-2", "gpu-1", "head"
FUTURE = "2999-01-01T00:00:00+00:00"
WHOSE = ("host", "version", "taken", "user", "cpu_seconds")


def lies(truth: dict[str, Answer]) -> Iterator[tuple[str, Answer]]:
    own, head = truth[LIAR], truth[HEAD]
    yield "another host's answer", truth[OTHER]
    yield "the head's answer", head
    yield "names of others", spread(HostFacts, own, (OTHER, HEAD), lambda _: True)[0]
    yield "all numbers", exaggerated(HostFacts, own)[0]
    for taken, time in (("2999-01-01T00:00:00Z", 32472144000.0), ("1971-01-01T00:00:00Z", 1.0)):
        yield f"of {taken}", {**own, "taken": taken, "clock": {**own["clock"], "time": time}}
    future = {
        name: {**one, "written": FUTURE, "run": "r999"} for name, one in own["receipts"].items()
    }
    yield "receipts of the future", {**own, "receipts": future}
    yield (
        "addresses of others",
        {**own, "interfaces": truth[OTHER]["interfaces"] + head["interfaces"]},
    )
    part = {"id": 1, "slices": 1, "uuid": "MIG-1", "nodes": ["/dev/null"]}
    cut = {"profile": "1g.10gb", "profile_id": 9, "start": 0, "size": 1, "id": 1, "parts": [part]}
    gpus = copy.deepcopy(own["gpus"])
    gpus["devices"] = [{**one, "mig_enabled": True, "mig": [cut] * 500} for one in gpus["devices"]]
    yield "500 instances on each GPU", {**own, "gpus": gpus}
    failed = {f"u{n}.service": {"load": "loaded", "active": "failed"} for n in range(1000)}
    yield "1,000 failed units", {**own, "units": {**own["units"], **failed}}
    for source in (OTHER, HEAD):
        for area in own.keys() - set(WHOSE):
            if truth[source][area] != own[area]:
                yield f"{area} of {source}", {**own, area: truth[source][area]}


def of_others(results: list[CheckResult]) -> dict[tuple[str, str, str], tuple[str, str]]:
    return {
        (r.id, r.target, r.aspect): (r.status.value, r.cause)
        for r in results
        if r.host and r.host != LIAR
    }


def test_no_verdict_of_another_host_changes(tmp_path: Path) -> None:
    with at_work("infiniband", tmp_path) as site:
        session, honest = site.settled.session, site.settled.found
        deployed(session, honest.facts)
        truth = {name: facts.model_dump(mode="json") for name, facts in honest.facts.items()}

        def judged(found: Round) -> dict[tuple[str, str, str], tuple[str, str]]:
            return of_others(judge_all(view_of(session, found), found, ALL_CHECK_IDS))

        before = judged(honest)
        assert {"head", "gpu-1"} <= {target for _, target, _ in before}
        told = list(lies(truth))
        assert len(told) > 20
        for name, lie in told:
            said = HostFacts.model_validate({**lie, "host": LIAR})
            now = judged(Round({**honest.facts, LIAR: said}, honest.unanswered))
            assert now == before, name
