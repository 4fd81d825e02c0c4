"""What a result speaks of, as data and as people read it."""

import pytest

from appliance.checks.check import judged, passed
from appliance.models.result import CLUSTER, CheckResult, Kind, Place, Status, place


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Place(), "cluster"),
        (place(CLUSTER), "cluster"),
        (place(CLUSTER, "5b bare-metal 2n"), "cluster/5b bare-metal 2n"),
        (place("gpu-1"), "gpu-1"),
        (place("gpu-1", "GPU 3"), "gpu-1/GPU 3"),
        (place("gpu-1", "GPU 3", "GPU 5"), "gpu-1/GPU 3,5"),
        (place("gpu-1", "mlx5_3"), "gpu-1/mlx5_3"),
        (place("gpu-1", "/var"), "gpu-1//var"),
        (place("head", "registry.k8s.io/pause:3.10"), "head/registry.k8s.io/pause:3.10"),
    ],
)
def test_a_place_is_read_as_it_was_written(where: Place, text: str) -> None:
    now = judged(where, Status.FAIL).of("gpu.ecc")
    assert (now.target, now.host, now.parts) == (text, where.host, where.parts)
    assert CheckResult.model_validate_json(now.model_dump_json()) == now
    old = CheckResult.model_validate({"id": "gpu.ecc", "target": text, "status": "fail"})
    assert old == now


def test_a_record_of_results_without_data_is_still_read() -> None:
    old = '{"id": "gpu.ecc", "target": "gpu-1/GPU 3", "status": "fail", "cause": "3 errors"}'
    read = CheckResult.model_validate_json(old)
    assert (read.host, read.parts, read.names, read.kind) == ("gpu-1", ("GPU 3",), (), Kind.OTHER)


def test_a_result_equals_one_made_alone() -> None:
    own = passed("gpu-1", 1.5, evidence="x").of("base.os")
    alone = CheckResult(
        id="base.os",
        target="gpu-1",
        host="gpu-1",
        status=Status.PASS,
        value=1.5,
        evidence="x",
    )
    assert own == alone
    assert own.model_dump() == alone.model_dump()
    assert passed("gpu-2", 1.5, evidence="x").of("base.os").host == "gpu-2"
    assert own.host == "gpu-1"


def test_a_place_of_another_kind_of_text_is_a_text() -> None:
    assert type(passed(Kind.WAITS).of("base.os").host) is str
