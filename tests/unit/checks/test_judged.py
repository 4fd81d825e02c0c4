"""A result is what the model makes of it, though what many hosts are told alike is validated once."""

from typing import Any

import pytest
from pydantic import ValidationError

from appliance.checks.check import judged, passed
from appliance.models.result import CheckResult, Kind, Place, Status, place

PLACES = ("gpu-1", "cluster", place("gpu-1", "GPU 3", "GPU 5"), Place("a\nb", ("c\x1b[2J",)))
SAID: tuple[dict[str, Any], ...] = (
    {},
    *({"value": value, "limit": value} for value in (1, True, 1.0, "1", None, 0, False, 0.0, "")),
    {"cause": "two\nlines\x1b[31m", "fix": "x" * 9000, "names": ("a\tb",), "kind": Kind.DENIED},
    {"names": ["gpu-1", "gpu-2"], "required": False, "simulated": True, "unit": "GPUs"},
)


@pytest.mark.parametrize("at", PLACES)
def test_a_result_is_the_same_the_second_time_and_alone(at: Place | str) -> None:
    where = place(at) if isinstance(at, str) else at
    for said in SAID * 2:
        alone = CheckResult(
            id="gpu.ecc",
            target=str(where),
            host=where.host,
            parts=where.parts,
            status=Status.WARN,
            **said,
        )
        found = judged(at, Status.WARN, **said).of("gpu.ecc")
        assert found == alone
        assert found.model_dump_json() == alone.model_dump_json()
        assert (type(found.value), type(found.limit)) == (type(alone.value), type(alone.limit))


def test_results_that_are_said_alike_are_not_one() -> None:
    one, other = (passed(host, 8, unit="GPUs").of("gpu.ecc") for host in ("gpu-1", "gpu-2"))
    assert (one.target, one.host, other.target, other.host) == ("gpu-1", "gpu-1", "gpu-2", "gpu-2")
    changed = one.model_copy(update={"cause": "x"})
    assert (changed.cause, one.cause, passed("gpu-1", 8, unit="GPUs").of("gpu.ecc").cause) == (
        "x",
        "",
        "",
    )


def test_a_field_nobody_declared_is_refused() -> None:
    for _ in range(2):
        with pytest.raises(ValidationError, match="remedy"):
            passed("gpu-1", remedy="x").of("gpu.ecc")
