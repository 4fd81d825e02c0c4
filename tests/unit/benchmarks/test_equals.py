"""One figure per host: floors, outliers among equals, and silence where neither can be had."""

import pytest

from appliance.benchmarks.equals import Figure, held, judge_hosts
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.models.result import Status
from tests.support.facts import facts_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

FIGURE = Figure("fio.scratch_read", "seq read at /scratch", "GB/s", "look at the disk")
FLOOR = Limit(value=3, unit="GB/s", source="the disk's data sheet")


def view(**limits: Limit) -> View:
    given = {"fio.scratch_read": limits["floor"]} if limits else {}
    return View(profile_of(), site_of("gpu-1", "gpu-2", limits=given), {})


def statuses(found: View, values: dict[str, float]) -> list[Status]:
    return [r.status for r in judge_hosts(found, FIGURE, values)]


def test_a_host_below_the_floor_fails_and_is_named() -> None:
    fine, slow = judge_hosts(view(floor=FLOOR), FIGURE, {"gpu-1": 3.5, "gpu-2": 2.9})
    assert (fine.status, slow.status, slow.host) == (Status.PASS, Status.FAIL, "gpu-2")
    assert slow.cause == "seq read at /scratch is 2.9 GB/s, below the limit of 3"
    assert (slow.limit, slow.limit_source, slow.fix) == (3, FLOOR.source, "look at the disk")


def test_an_outlier_fails_though_it_is_above_the_floor() -> None:
    values = {"a": 7.0, "b": 7.1, "c": 6.9, "gpu-2": 4.0}
    found = {r.host: r for r in judge_hosts(view(floor=FLOOR), FIGURE, values)}
    assert [r.status for r in found.values()].count(Status.PASS) == 3
    assert found["gpu-2"].status is Status.FAIL
    assert found["gpu-2"].cause.endswith("42 % worse than the median of 4 equal hosts")


def test_without_a_limit_too_few_equals_are_not_judged() -> None:
    (first, _) = judge_hosts(view(), FIGURE, {"gpu-1": 3.5, "gpu-2": 0.1})
    assert first.status is Status.NOT_ASSESSED
    assert first.cause == (
        "no limit is set (fio.scratch_read), and of 2 equals; 4 are needed to identify an outlier"
    )
    assert first.value == 3.5


def test_two_camps_are_a_warning_under_a_limit_and_not_judged_without() -> None:
    camps = {"a": 9.0, "b": 9.0, "c": 5.0, "d": 5.0}
    assert set(statuses(view(floor=FLOOR), camps)) == {Status.WARN}
    assert set(statuses(view(), camps)) == {Status.NOT_ASSESSED}


@pytest.mark.parametrize(("value", "status"), [(4.9, Status.PASS), (5.1, Status.FAIL)])
def test_of_a_latency_less_is_better(value: float, status: Status) -> None:
    ceiling = Limit(value=5, unit="us", source="oracle")
    figure = Figure("fio.scratch_read", "latency", "us", "look", more_is_better=False)
    (found,) = judge_hosts(view(), figure, {"gpu-1": value}, limit=ceiling)
    assert found.status is status


def test_of_latencies_the_longest_is_the_outlier() -> None:
    figure = Figure("fio.scratch_read", "latency", "us", "look", more_is_better=False)
    values = {"a": 2.0, "b": 2.1, "c": 1.9, "gpu-1": 4.0, "gpu-2": 0.5}
    found = {r.host: r for r in judge_hosts(view(), figure, values)}
    assert [host for host, r in found.items() if r.status is Status.FAIL] == ["gpu-1"]
    late = judge_hosts(view(), figure, values, limit=Limit(value=3, unit="us", source="x"))
    (bad,) = [r for r in late if r.status is Status.FAIL]
    assert bad.cause == "latency is 4 us, above the limit of 3; its equals reach 2"


@pytest.mark.parametrize(
    ("simulated", "container", "expected"),
    [((), "", False), (("gpu",), "", True), ((), "nspawn", True), (("gpu",), "nspawn", True)],
)
def test_figures_of_containers_and_of_simulated_sites_are_marked(
    simulated: tuple[str, ...], container: str, expected: bool
) -> None:
    seen = view(floor=FLOOR)
    site = seen.site.model_copy(update={"simulated": simulated})
    facts = {"gpu-1": facts_of("gpu-1", os={"container": container})}
    marked = View(seen.profile, site, facts)
    first, second = judge_hosts(marked, FIGURE, {"gpu-1": 3.5, "gpu-2": 2.0})
    assert (first.simulated, second.simulated) == (expected, bool(simulated))
    assert (first.unit, second.unit) == ("GB/s", "GB/s")


def test_evidence_is_that_of_each_host_or_of_all() -> None:
    values = {"gpu-1": 3.5, "gpu-2": 3.6}
    own = judge_hosts(view(floor=FLOOR), FIGURE, values, {"gpu-1": "run 1"})
    assert [r.evidence for r in own] == ["run 1", ""]
    all_alike = judge_hosts(view(floor=FLOOR), FIGURE, values, "run 2")
    assert [r.evidence for r in all_alike] == ["run 2", "run 2"]


def test_an_outlier_is_named_beside_what_it_fell_short_of() -> None:
    values = {"a": 7.0, "b": 7.1, "c": 6.9, "gpu-2": 4.0}
    (bad,) = [r for r in judge_hosts(view(), FIGURE, values) if r.status is Status.FAIL]
    assert bad.names == ("gpu-2",)


def test_two_camps_keep_what_they_reached_and_the_limit() -> None:
    camps = {"a": 9.0, "b": 9.0, "c": 5.0, "d": 5.0}
    found = list(judge_hosts(view(floor=FLOOR), FIGURE, camps))
    assert [(r.value, r.limit) for r in found] == [(9.0, 3), (9.0, 3), (5.0, 3), (5.0, 3)]
    assert {r.required for r in judge_hosts(view(), FIGURE, camps)} == {False}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("more", [True, False])
def test_what_is_no_figure_passes_no_limit(value: float, more: bool) -> None:
    figure = Figure("fio.scratch_read", "x", "GB/s", "look", more_is_better=more)
    found = list(judge_hosts(view(floor=FLOOR), figure, {"gpu-1": value, "gpu-2": 3.0}))
    assert found[0].status is not Status.PASS
    assert found[1].status is Status.PASS


@pytest.mark.parametrize("more", [True, False])
def test_what_reaches_the_limit_exactly_is_good(more: bool) -> None:
    figure = Figure("fio.scratch_read", "x", "GB/s", "look", more_is_better=more)
    (found,) = judge_hosts(view(floor=FLOOR), figure, {"gpu-1": 3.0})
    assert (found.status, found.limit_source) == (Status.PASS, FLOOR.source)


def test_without_a_limit_the_equals_are_told_as_the_source() -> None:
    values = {"a": 7.0, "b": 7.1, "c": 6.9, "gpu-2": 4.0}
    found = {r.host: r for r in judge_hosts(view(), FIGURE, values)}
    assert (found["gpu-2"].limit, found["gpu-2"].limit_source) == (
        6.95,
        "median of 4 hosts, less 10 %",
    )
    assert found["a"].limit_source == "within 10 % of 4 equal hosts; no limit is set"


def test_what_could_not_be_judged_is_not_required() -> None:
    (found,) = judge_hosts(view(), FIGURE, {"gpu-1": 3.5})
    assert not found.required


def test_an_outlier_above_the_floor_keeps_the_limit_it_reached() -> None:
    values = {"a": 7.0, "b": 7.1, "c": 6.9, "gpu-2": 4.0}
    found = {r.host: r for r in judge_hosts(view(floor=FLOOR), FIGURE, values)}
    assert found["gpu-2"].limit_source == found["a"].limit_source == FLOOR.source


CLASS = Limit(value=9.3, unit="GB/s", source="Azure NHC")


def of_a_class(container: str) -> View:
    """The profile asks for ten times of what a container host gives; the site for nothing."""
    profile = profile_of().model_copy(update={"limits": {"fio.scratch_read": CLASS}})
    facts = {name: facts_of(name, os={"container": container}) for name in ("gpu-1", "gpu-2")}
    return View(profile, site_of("gpu-1", "gpu-2"), facts)


def test_hosts_without_hardware_of_their_own_are_not_held_to_the_limit_of_a_class() -> None:
    spared = list(judge_hosts(of_a_class("nspawn"), FIGURE, {"gpu-1": 0.9, "gpu-2": 0.8}))
    assert [(r.status, r.required, r.value) for r in spared] == [
        (Status.NOT_ASSESSED, False, 0.9),
        (Status.NOT_ASSESSED, False, 0.8),
    ]
    assert spared[0].cause == (
        "the limit of 9.3 GB/s is for real hardware of this class (fio.scratch_read), "
        "and of 2 equals; 4 are needed to identify an outlier"
    )
    real = of_a_class("")
    assert statuses(real, {"gpu-1": 0.9, "gpu-2": 9.4}) == [Status.FAIL, Status.PASS]


def test_they_are_still_compared_and_held_to_what_the_site_asks_of_them() -> None:
    shared = of_a_class("nspawn")
    slow = {"a": 0.7, "b": 0.71, "c": 0.69, "gpu-2": 0.4}
    facts = {name: facts_of(name, os={"container": "nspawn"}) for name in slow}
    found = {r.host: r for r in judge_hosts(View(shared.profile, shared.site, facts), FIGURE, slow)}
    assert [host for host, r in found.items() if r.status is Status.FAIL] == ["gpu-2"]
    asked = shared.site.model_copy(update={"limits": {"fio.scratch_read": FLOOR}})
    own = View(shared.profile, asked, shared.facts)
    assert statuses(own, {"gpu-1": 3.5, "gpu-2": 2.9}) == [Status.PASS, Status.FAIL]


def test_what_is_published_of_a_product_speaks_of_hardware_too() -> None:
    plain = View(profile_of(), site_of("gpu-1"), of_a_class("nspawn").facts)
    (found,) = judge_hosts(plain, FIGURE, {"gpu-1": 0.9}, limit=CLASS)
    assert (found.status, found.simulated) == (Status.NOT_ASSESSED, True)


def test_a_host_that_says_nought_fails_itself_and_hides_no_slow_one() -> None:
    values = {"a": 7.0, "b": 7.1, "c": 6.9, "gpu-1": 4.0, "gpu-2": 0.0}
    found = {r.host: r for r in judge_hosts(view(), FIGURE, values)}
    assert (found["gpu-1"].status, found["gpu-2"].status) == (Status.FAIL, Status.FAIL)
    assert found["gpu-2"].cause == "seq read at /scratch is 0"
    assert found["a"].status is Status.PASS


@pytest.mark.parametrize(("inside", "is_held"), [(1, True), (2, True), (3, False)])
def test_what_several_reach_together_is_held_to_its_limit_unless_most_are_containers(
    inside: int, is_held: bool
) -> None:
    names = [f"gpu-{number}" for number in range(1, 5)]
    facts = {
        name: facts_of(name, os={"container": "nspawn"} if number < inside else {})
        for number, name in enumerate(names)
    }
    bounds = {"fio.total_read": Limit(value=9, unit="GB/s", source="the class")}
    profile = profile_of().model_copy(update={"limits": bounds})
    found = held(View(profile, site_of(*names), facts), "fio.total_read", names)
    assert (found.limit is not None) is is_held
