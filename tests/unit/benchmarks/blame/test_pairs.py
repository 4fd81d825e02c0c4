"""Blame from pairs and groups: planted bad ends and paths are found, and nothing else is blamed."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.benchmarks.blame.pairs import Group, Isolated, isolate, lifted, screens, search


def group(*ends: str) -> Group:
    return frozenset(ends)


class Cluster:
    """Hosts of which some are bad; a group with a bad one, or with a bad path in it, is bad."""

    def __init__(
        self, bad: set[str], paths: set[Group] | None = None, mute: set[str] | None = None
    ) -> None:
        self.bad, self.paths, self.mute = bad, paths or set(), mute or set()
        self.rounds: list[tuple[Group, ...]] = []

    def attempt(self, groups: Sequence[Group]) -> dict[Group, bool | None]:
        ends = [end for g in groups for end in g]
        assert len(ends) == len(set(ends)), "an end is measured twice at once"
        self.rounds.append(tuple(groups))
        return {g: self._good(g) for g in groups}

    def _good(self, g: Group) -> bool | None:
        if g & self.mute:
            return None
        return not g & self.bad and not any(path <= g for path in self.paths)


def hosts(count: int) -> list[str]:
    return [f"h{i:02}" for i in range(count)]


@given(st.data(), st.integers(3, 16))
def test_bad_hosts_are_found_exactly_where_two_good_ones_are_left(
    data: st.DataObject, count: int
) -> None:
    names = hosts(count)
    bad = data.draw(st.sets(st.sampled_from(names), max_size=count - 2))
    found = search(names, Cluster(bad).attempt, rounds=2 * count * count)
    assert set(found.ends) == bad
    assert (found.paths, found.open) == ((), ())


@given(st.data(), st.integers(4, 16))
def test_from_all_pairs_bad_paths_among_good_hosts_are_paths(
    data: st.DataObject, count: int
) -> None:
    names = hosts(count)
    pairs = [group(*pair) for pair in combinations(names, 2)]
    # Fewer than half of a host's paths: one whose paths are all bad cannot be told from a bad host.
    paths = data.draw(st.sets(st.sampled_from(pairs), max_size=(count - 2) // 2))
    found = isolate(names, {p: p not in paths for p in pairs})
    assert found.ends == ()
    assert {group(*path) for path in found.paths} == paths


@given(st.data(), st.integers(3, 14))
def test_one_bad_path_is_never_called_a_bad_host(data: st.DataObject, count: int) -> None:
    names = hosts(count)
    path = group(*data.draw(st.sampled_from(list(combinations(names, 2)))))
    cluster = Cluster(set(), {path})
    found = search(names, cluster.attempt)
    assert (found.ends, found.open) == ((), ())
    # Only a path that was measured can be named.
    measured = any(path <= g for batch in cluster.rounds for g in batch)
    assert found.paths == ((tuple(sorted(path)),) if measured else ())


@given(st.data(), st.integers(2, 20))
def test_what_was_not_measured_is_neither_good_nor_bad(data: st.DataObject, count: int) -> None:
    names = hosts(count)
    mute = data.draw(st.sets(st.sampled_from(names), min_size=1))
    found = search(names, Cluster(set(), mute=mute).attempt)
    assert found.ends == ()
    assert mute <= set(found.open)


@given(st.data(), st.integers(3, 16))
def test_pairs_alone_find_the_same_and_leave_no_host_out(data: st.DataObject, count: int) -> None:
    names = hosts(count)
    bad = data.draw(st.sets(st.sampled_from(names), max_size=count - 2))
    cluster = Cluster(bad)
    found = search(names, cluster.attempt, rounds=2 * count * count, size=2)
    assert (set(found.ends), found.open) == (bad, ())
    assert {len(group) for batch in cluster.rounds for group in batch} == {2}


def test_one_of_many_costs_few_rounds() -> None:
    cluster = Cluster({"h37"})
    assert search(hosts(232), cluster.attempt).ends == ("h37",)
    # One round of groups of 15, one in which each host of the bad group has a good partner, and a second for the bad one.
    assert [len(batch) for batch in cluster.rounds] == [16, 15, 1]


def test_two_hosts_cannot_be_told_apart() -> None:
    found = search(hosts(2), Cluster({"h01"}).attempt)
    assert found == Isolated(open=("h00", "h01"))


def test_all_bad_blames_nobody() -> None:
    found = search(hosts(4), Cluster(set(hosts(4))).attempt)
    assert (found.ends, found.open) == ((), tuple(hosts(4)))


def test_parts_of_a_host_that_are_all_bad_are_the_host() -> None:
    ends = ["a/p0", "a/p1", "b/p0", "b/p1", "c"]
    assert lifted(ends, ["a/p0", "a/p1", "b/p1", "c"]) == ("a", "b/p1", "c")


def test_a_group_that_could_not_be_measured_is_not_tried_again() -> None:
    cluster = Cluster(set(), mute={"h02"})
    found = search(hosts(4), cluster.attempt)
    assert (found.good, found.open) == (("h00", "h01"), ("h02", "h03"))
    assert [len(batch) for batch in cluster.rounds] == [2]


def test_a_host_with_one_part_is_not_blamed_for_it() -> None:
    assert lifted(["h1/a", "h2/a"], ["h1/a"]) == ("h1/a",)
    assert lifted(["h1/a", "h1/b", "h2/a"], ["h1/a", "h1/b"]) == ("h1",)


@pytest.mark.parametrize("count", range(2, 12))
def test_every_end_is_screened_in_a_group_of_two_at_least(count: int) -> None:
    groups = screens(hosts(count))
    assert sorted(end for one in groups for end in one) == hosts(count)
    assert min(map(len, groups)) >= 2


def test_one_end_alone_is_in_no_group() -> None:
    assert screens(hosts(1)) == ()
    assert search(hosts(1), Cluster(set()).attempt).open == ("h00",)


class Deaf(Cluster):
    """Pairs of which nobody can say anything."""

    def __init__(self, bad: set[str], deaf: Group) -> None:
        super().__init__(bad)
        self.deaf = deaf

    def _good(self, g: Group) -> bool | None:
        return None if g == self.deaf else super()._good(g)


def test_a_suspect_that_could_not_be_tried_with_one_good_end_is_tried_with_another() -> None:
    found = search(hosts(4), Deaf({"h02", "h03"}, group("h00", "h02")).attempt)
    assert (found.ends, found.open) == (("h02", "h03"), ())


def test_a_bad_path_to_the_first_good_end_blames_no_end_beside_a_bad_one() -> None:
    found = search(hosts(4), Cluster({"h02"}, {group("h01", "h03")}).attempt)
    assert (found.ends, found.paths) == (("h02",), (("h01", "h03"),))


def test_two_bad_paths_of_one_group_blame_no_end() -> None:
    paths = {group("h00", "h03"), group("h01", "h02")}
    found = search(hosts(9), Cluster(set(), paths).attempt)
    assert (found.ends, found.open) == ((), ())
    assert found.paths == (("h00", "h03"), ("h01", "h02"))
