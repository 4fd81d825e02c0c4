"""The table of nccl-tests: read whole or refused, with the traps users fall into."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.benchmarks.nccl.table import Collective, read
from appliance.benchmarks.reading import Unread

DATA = Path(__file__).parents[3] / "data/benchmarks/nccl"
HOST = (DATA / "host.txt").read_text()
LARGEST = next(line for line in HOST.splitlines() if line.strip().startswith("8589934592"))


def test_the_largest_message_counts_and_not_the_average() -> None:
    found = read(HOST)
    assert (found.peak.size, found.peak.busbw) == (8 << 30, 235.58)
    assert found.hosts == {"gpu-1": 8}
    assert found.gpus == {"NVIDIA A100-SXM4-80GB"}
    assert (found.wrong, found.dents) == (0, ())


def test_gpus_of_several_hosts_are_counted_by_host() -> None:
    assert read((DATA / "two-hosts.txt").read_text()).hosts == {"gpu-1": 8, "gpu-2": 8}


def test_a_dent_is_found() -> None:
    dented = HOST.replace(" 235.21 ", " 120.00 ")
    assert dented != HOST
    assert read(dented).dents == ((2 << 30, 48.9),)


def test_a_dent_below_1_mib_is_a_change_of_protocol() -> None:
    rows = [line for line in HOST.splitlines() if line.strip().startswith("65536 ")]
    assert read(HOST.replace(rows[0], rows[0].replace("3.38", "0.01"))).dents == ()


def test_a_dent_at_1_mib_is_one() -> None:
    row = next(line for line in HOST.splitlines() if line.strip().startswith("1048576 "))
    busbw = row.split()[7]
    (dent,) = read(HOST.replace(row, row.replace(busbw, "0.01"))).dents
    assert dent[0] == 1 << 20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Out of bounds values : 0 OK", "Out of bounds values : 3 FAILED"),
        (LARGEST, LARGEST[:-1] + "7"),
    ],
)
def test_wrong_values_are_told(old: str, new: str) -> None:
    assert old in HOST
    assert read(HOST.replace(old, new)).wrong > 0


def test_wrong_values_are_counted_in_whole_numbers() -> None:
    with pytest.raises(Unread, match="not an integer"):
        read(HOST.replace(LARGEST, LARGEST[:-1] + "1e-02"))


def test_columns_that_were_not_checked_or_are_of_older_releases_are_read() -> None:
    assert read(HOST.replace("      0\n", "    N/A\n")).wrong == 0


def test_values_that_nobody_checked_are_no_right_ones() -> None:
    row = next(line for line in HOST.splitlines() if line.strip()[:1].isdigit())
    words = row.split()
    words[-5] = "N/A"
    with pytest.raises(Unread, match="were not checked"):
        read(HOST.replace(row, "  " + "  ".join(words)))
    assert read(HOST.replace("      0\n", "  0e+00\n")).wrong == 0
    assert read(HOST.replace("     sum      -1 ", "    none ")).peak.busbw == 235.58


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "no table"),
        ("all_reduce_perf: error while loading shared libraries: libnccl.so.2", "no table"),
        (HOST[: HOST.index("# Out of")], "is incomplete"),
        (HOST + HOST, "each rank ran alone"),
        (HOST.replace("(GB/s)", "(MB/s)"), "units"),
        (HOST.replace("(us)", "(ms)"), "units"),
        (HOST.replace("#  Rank  3", "#  Rank  4"), "not listed"),
        (HOST.replace("# Using devices", "").replace("#  Rank", "# rank"), "not listed"),
        (HOST.replace(LARGEST, LARGEST[:60]), "is incomplete"),
        (HOST.replace("235.58", "nan"), "cannot be"),
        (HOST.replace("235.58", "-235.58"), "cannot be"),
        (HOST.replace("235.58", "fast"), "no number"),
        (HOST.replace("8589934592", "8"), "do not increase"),
    ],
)
def test_what_is_no_whole_table_is_refused(output: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        read(output)


@settings(max_examples=60)
@given(st.integers(0, len(HOST)), st.text(max_size=4))
def test_no_cut_table_is_read(at: int, noise: str) -> None:
    with suppress(Unread):
        assert isinstance(read(HOST[:at] + noise), Collective)
        assert at > HOST.index("# Out of")


HEAD = next(line for line in HOST.splitlines() if "count" in line and "type" in line)
FOOT = next(line for line in HOST.splitlines() if "Out of bounds" in line)
UNITS = next(line for line in HOST.splitlines() if "(elements)" in line)
ROWS = [line for line in HOST.splitlines() if line.strip()[:1].isdigit()]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (HEAD, f"{HEAD}\n{HEAD}", "2 tables"),
        (FOOT, f"{FOOT}\n{FOOT}", "2 tables"),
        (UNITS, "#", "not us and GB/s"),
        ("\n".join(ROWS), "", "sizes do not increase"),
        (LARGEST, LARGEST.replace("8589934592", "8589934592.5", 1), "not an integer"),
    ],
)
def test_a_table_that_is_not_whole_or_twice_there_is_refused(old: str, new: str, why: str) -> None:
    assert old in HOST
    with pytest.raises(Unread, match=why):
        read(HOST.replace(old, new))


def test_lines_that_only_look_like_rows_are_none() -> None:
    noise = f"123 of 456 done\n  a remark\n{ROWS[0]}"
    assert len(read(HOST.replace(ROWS[0], noise)).rows) == len(ROWS)


def test_a_curve_of_nought_has_no_dent() -> None:
    flat = HOST
    for row in ROWS:
        words = row.split()
        words[-6] = words[-2] = "0.00"
        flat = flat.replace(row, "  " + "  ".join(words))
    found = read(flat)
    assert (found.peak.busbw, found.dents) == (0.0, ())


def test_headings_of_2_19_are_read() -> None:
    """It tells its version and test, begins and ends so, and writes rates in fewer digits the larger they are."""
    first, rest = HOST.split("\n", 1)
    newer = (
        "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n"
        "# Collective test starting: all_reduce_perf\n"
        f"{first} unalign: 0\n"
        f"{rest.replace('[0x07]', '[0000:07:00]').replace('134.62', '1.3462e+02')}"
        "\n# Collective test concluded: all_reduce_perf\n#\n\n"
    )
    assert read(newer) == read(HOST)


@pytest.mark.parametrize("nought", ["0e9999", "0.00e300", "0e9"])
@pytest.mark.parametrize("column", [-7, -6, -8])
def test_a_nought_with_any_exponent_widens_no_bound(nought: str, column: int) -> None:
    words = LARGEST.split()
    words[-6], words[column] = "999999.0", nought
    with suppress(Unread):
        assert read(HOST.replace(LARGEST, "  " + "  ".join(words))).peak.busbw == 0


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "alltoall", "all_reduce-error"])
def test_each_collective_and_older_releases_are_read(name: str) -> None:
    found = read((DATA / f"{name}.txt").read_text())
    assert found.peak.size == 8 << 30
    assert found.peak.busbw == pytest.approx(190.0, abs=0.5)
    assert (found.wrong, found.dents) == (0, ())
    assert all(row.size for row in found.rows)


def test_a_wrong_value_in_a_row_without_size_counts() -> None:
    text = (DATA / "all_gather.txt").read_text()
    row = next(line for line in text.splitlines() if line.split()[:2] == ["0", "0"])
    assert read(text.replace(row, row[:-1] + "3", 1)).wrong == 3


def test_a_size_of_nothing_between_others_is_no_table() -> None:
    text = (DATA / "all_gather.txt").read_text()
    rows = text.splitlines()
    empty = next(line for line in rows if line.split()[:2] == ["0", "0"])
    at = next(i for i, line in enumerate(rows) if line.split()[:1] == ["1048576"])
    with pytest.raises(Unread, match="do not increase"):
        read("\n".join([*rows[:at], empty, *rows[at:]]))


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [("0 OK", "4 FAILED", 4), ("0 OK", "0 FAILED", 1)],
)
def test_older_releases_count_wrong_values_in_the_footer(old: str, new: str, wrong: int) -> None:
    text = (DATA / "all_reduce-error.txt").read_text()
    assert read(text.replace(old, new)).wrong == wrong


def test_a_large_difference_beside_a_footer_without_wrong_values_is_refused() -> None:
    text = (DATA / "all_reduce-error.txt").read_text()
    with pytest.raises(Unread, match="contradicts itself"):
        read(text.replace("5e-07", "3e+04", 1))
