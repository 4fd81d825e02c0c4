"""What a result speaks of, as data and as people read it."""

import pytest

from appliance.checks.check import judged
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
