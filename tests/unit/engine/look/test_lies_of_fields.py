"""Whatever one host of an accepted site answers in any one field, what is written on all other hosts stays as it was."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from appliance.engine.plan.prepare import prepare
from appliance.models.facts import HostFacts
from appliance.stages.catalog import STAGES
from tests.golden.record import at_work
from tests.support.deployed_site import deployed

LIAR, OTHER, HEAD = "gpu-2", "gpu-1", "head"
WHOSE = frozenset(("host", "version", "user", "cpu_seconds"))
FEW = 6
"""Fields of one place."""
Place = tuple[str | int, ...]


def fields(data: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield at, data
    if isinstance(data, dict):
        for key, value in data.items():
            yield from fields(value, (*at, key))
    elif isinstance(data, list):
        for key, value in enumerate(data[:2]):
            yield from fields(value, (*at, key))


def values(said: Any, others: list[Any]) -> Iterator[Any]:
    yield from (other for other in others if other != said)
    match said:
        case bool():
            yield not said
        case int() | float():
            yield from (0, 1, said * 1000 + 7)
        case str():
            yield from ("", OTHER, HEAD, "z" * 3000)
        case list():
            yield from ([], said * 40)
        case dict():
            yield {}
        case _:
            yield from (1, OTHER, True, [])


def at_place(data: Any, place: Place) -> Any:
    for key in place:
        known = (
            key in data
            if isinstance(data, dict)
            else isinstance(data, list) and key in range(len(data))
        )
        if not known:
            return None
        data = data[key]
    return data


def with_lie(own: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(own)
    at_place(made, place[:-1])[place[-1]] = value
    return made


def lies(truth: dict[str, dict[str, Any]]) -> Iterator[tuple[Place, Any]]:
    count: dict[Place, int] = {}
    for place, said in fields(truth[LIAR]):
        if not place or place[0] in WHOSE:
            continue
        kind = tuple("*" if isinstance(key, int) else key for key in place[:-1])
        count[kind] = count.get(kind, 0) + 1
        if count[kind] <= FEW:
            others = [at_place(truth[name], place) for name in (OTHER, HEAD)]
            yield from ((place, value) for value in values(said, others))


def test_no_field_of_one_host_changes_what_others_get(tmp_path: Path) -> None:
    with at_work("hpc", tmp_path) as site:
        session, honest = site.made.session, site.made.found.facts
        deployed(session, honest)
        truth = {name: facts.model_dump(mode="json") for name, facts in honest.items()}

        def written(said: HostFacts) -> dict[tuple[str, str], str]:
            found = prepare(session, {**honest, LIAR: said}, STAGES)
            return {key: one.fingerprint for key, one in found.items() if key[1] != LIAR}

        before = written(honest[LIAR])
        assert {host for _, host in before} == {HEAD, OTHER}
        told = 0
        for place, value in lies(truth):
            try:
                said = HostFacts.model_validate(
                    {**with_lie(truth[LIAR], place, value), "host": LIAR}
                )
            except ValidationError:
                continue  # Refused when it is read.
            told += 1
            assert written(said) == before, (place, value)
        assert told > 200
