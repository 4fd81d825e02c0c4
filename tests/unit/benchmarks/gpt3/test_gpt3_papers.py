"""The papers' tables as data: what follows from its own table, and every misprint with what it follows from."""

from appliance.benchmarks.gpt3.papers import deviations, number, papers, reckoned, tables
from appliance.benchmarks.gpt3.reference import load


def test_the_cells_that_do_not_follow_are_the_named_misprints_and_no_others() -> None:
    assert {found.cell for found in deviations()} == {m.cell for m in papers().misprints}
    assert len(deviations()) == 7


def test_each_misprint_follows_from_the_rates_it_names() -> None:
    printed = {found.cell: found.printed for found in deviations()}
    explained = [m for m in papers().misprints if m.origin]
    assert [m.what for m in explained] == ["perfect", "difference", "factor", "difference"]
    for misprint in explained:
        origin = misprint.origin
        assert origin is not None
        text = printed[misprint.cell]
        one, many, bare = (float(n or 0) for n in (origin.one, origin.many, origin.bare))
        decimals = len(text.rstrip("%").partition(".")[2])
        assert reckoned(misprint.what, misprint.nodes, one, many, bare, decimals) == text


def test_the_two_digits_that_stand_in_two_ways_are_one_place_each() -> None:
    def differing(one: str, other: str) -> list[int]:
        return [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]

    assert len(differing("892208", "894208")) == 1
    assert differing("3568835", "3268835") == differing("3568832", "3268832") == [1]


def test_rates_of_both_papers_are_the_reference() -> None:
    for paper in papers().papers:
        for table in paper.tables:
            for row in table.rows:
                if row.what == "tokens/s" and row.platform:
                    for nodes, text in zip((1, 2, 4), row.printed, strict=True):
                        cell = load().appliance.cell(table.model, row.platform, nodes)
                        assert cell is not None
                        assert number(text) == cell.tokens_per_s


def test_four_tables_have_four_figures_with_perfect_lines() -> None:
    plots = [table.plot for table in tables() if table.plot]
    assert [len(plot.series) for plot in plots] == [4, 4, 2, 2]
    assert all(any(s.kind == "ideal" for s in plot.series) for plot in plots)
    assert "4 x 892,208.75" in tables()[-1].note
