"""The cluster benchmark: what a customer's size is, how a smaller site is made of it, and what counts as growing faster."""

from pathlib import Path

import pytest

from appliance.actions.kubernetes.queues import describe
from appliance.actions.sites.opening import Target
from benchmarks.cluster_load import Shape, gang, jobs, settled, write_site
from benchmarks.cluster_parts import Figure
from benchmarks.cluster_scale import _faster


def test_a_customers_size() -> None:
    shape = Shape(350)
    assert (shape.gpus, shape.projects, shape.pods) == (2800, 200, 10_000)
    assert shape.gang * shape.wide == 512
    assert (
        sum(job["spec"]["parallelism"] for q in ("build", "train") for _, job in jobs(shape, q))
        == 10_000
    )


@pytest.mark.parametrize("hosts", [3, 50, 350])
def test_a_site_of_each_size_is_sound_and_a_gang_can_be_reclaimed(
    hosts: int, tmp_path: Path
) -> None:
    shape = Shape(hosts)
    write_site(tmp_path / "site", shape)
    _, wanted = describe(Target(tmp_path / "site"))
    spaces = [r for r in wanted.resources if r["kind"] == "Namespace"]
    assert len(spaces) == shape.projects + 1
    # A department's own part holds the job that takes it back.
    assert shape.gang * shape.wide <= shape.gpus // shape.departments
    assert shape.quota * shape.projects <= shape.gpus
    assert len(gang("one", "p000-train", shape.gang, shape.wide)) == shape.gang + 1


def test_what_costs_more_for_each_object_of_a_larger_site_grows() -> None:
    def cost(seconds: float, objects: int, *, ours: bool = True) -> Figure:
        return Figure("plan, CPU", seconds, "s", objects, "project", ours)

    assert not _faster([cost(1.0, 28), cost(7.0, 200)])
    assert _faster([cost(1.0, 28), cost(51.0, 200)])
    assert not _faster([cost(1.0, 28), cost(51.0, 200, ours=False)])
    assert not _faster([cost(51.0, 200)])


def test_counting_ends_where_nothing_more_comes() -> None:
    assert settled(lambda: 3, 3, seconds=5, still=5)[0] == 3
    assert settled(lambda: 2, 3, seconds=5, still=0.1)[0] == 2
