"""A burn-in's samples and verdicts: every fault it looks for is planted, and what is cut or missing is no pass."""

import subprocess  # noqa: TID251 - the program is run as a host runs it
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.benchmarks.burnin import gates
from appliance.benchmarks.burnin import judge as judging
from appliance.benchmarks.burnin.keepers import SCRIPT
from appliance.benchmarks.burnin.samples import Burn, read
from appliance.benchmarks.reading import Unread
from appliance.models.result import CheckResult, Status
from tests.support.burnin_output import HOURS, XID, gpu, lines, written


def verdicts(found: list[dict[str, Any]], gpus: int = 2) -> dict[tuple[str, str], CheckResult]:
    burn = read(written(found))
    return {(r.id, r.target): r for r in judging.judge("gpu-1", burn, HOURS, gpus, False)}


def bad(found: list[dict[str, Any]], gpus: int = 2) -> dict[tuple[str, str], Status]:
    return {k: r.status for k, r in verdicts(found, gpus).items() if r.status is not Status.PASS}


def changed(at: int, index: int, **changes: Any) -> list[dict[str, Any]]:
    found = lines()
    rows = [gpu(i, **changes) if i == index else gpu(i) for i in range(2)]
    found[at] = found[at] | {"gpus": rows}
    return found


def test_a_sound_burn_in_passes_all_checks() -> None:
    results = verdicts(lines())
    assert {r.status for r in results.values()} == {Status.PASS}
    assert {check for check, _ in results} == set(gates.CHECKS)


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ({"reasons": "0x0000000000000040"}, "burnin.clocks", Status.FAIL),
        ({"reasons": "0x0000000000000080"}, "burnin.clocks", Status.FAIL),
        ({"reasons": "0x0000000000000008"}, "burnin.clocks", Status.FAIL),
        ({"reasons": "0x0000000000000020"}, "burnin.clocks", Status.WARN),
        ({"temperature": 96}, "burnin.heat", Status.FAIL),
        ({"temperature": 89}, "burnin.heat", Status.WARN),
        ({"lost": 1}, "burnin.errors", Status.FAIL),
        ({"lost": "[N/A]"}, "burnin.errors", Status.NOT_ASSESSED),
        ({"uuid": "GPU-other"}, "burnin.errors", Status.FAIL),
    ],
)
def test_one_bad_moment_of_one_gpu_is_found_and_named(
    changes: dict[str, Any], check: str, status: Status
) -> None:
    assert bad(changed(50, 1, **changes)) == {(check, "gpu-1/GPU 1"): status}


@pytest.mark.parametrize(
    ("field", "check"), [("reasons", "burnin.clocks"), ("temperature", "burnin.heat")]
)
def test_what_the_driver_never_told_is_not_good(field: str, check: str) -> None:
    found = lines()
    for row in found:
        if row["kind"] == "sample":
            row["gpus"] = [gpu(0), gpu(1, **{field: "[N/A]"})]
    assert bad(found) == {(check, "gpu-1/GPU 1"): Status.NOT_ASSESSED}


def test_gpus_of_a_host_that_differ_in_heat_are_told() -> None:
    found = lines()
    for row in found:
        if row["kind"] == "sample":
            row["gpus"] = [gpu(0), gpu(1, temperature=77)]
    assert bad(found) == {("burnin.heat", "gpu-1"): Status.WARN}


@pytest.mark.parametrize(
    ("code", "status"), [(79, Status.FAIL), (48, Status.FAIL), (31, Status.WARN), (63, None)]
)
def test_xids_that_came_up_count_and_older_ones_do_not(code: int, status: Status | None) -> None:
    found = lines()
    line = XID.format(code).replace("12.3", "99.9")
    found[60] = found[60] | {"xids": [XID.format(31), line]}
    target = ("burnin.errors", f"gpu-1/Xid {code} of 0000:10:00")
    assert bad(found) == ({target: status} if status else {})


def test_a_log_that_could_not_be_read_is_not_clean() -> None:
    found = lines()
    found[3] = found[3] | {"log": False}
    assert bad(found) == {("burnin.errors", "gpu-1/kernel log"): Status.NOT_ASSESSED}


def test_a_gpu_that_fell_away_is_a_failure() -> None:
    found = lines()
    found[70] = found[70] | {"gpus": [gpu(0)]}
    assert bad(found)["burnin.errors", "gpu-1"] is Status.FAIL
    assert bad(lines(), gpus=3)["burnin.errors", "gpu-1"] is Status.FAIL


def test_without_nvidia_smi_nothing_is_known_of_the_gpus() -> None:
    found = [row | {"gpus": []} if row["kind"] == "sample" else row for row in lines()]
    assert set(bad(found).values()) == {Status.NOT_ASSESSED}


@pytest.mark.parametrize(
    ("at", "changes", "status"),
    [
        (-1, {"why": "stopped"}, Status.FAIL),
        (-1, {"failed": 1}, Status.FAIL),
        (40, {"failed": 1}, Status.FAIL),
        (40, {"hung": True}, Status.FAIL),
        (1, {"load": "processor"}, Status.NOT_ASSESSED),
    ],
)
def test_what_did_not_run_whole_and_under_load_is_no_burn_in(
    at: int, changes: dict[str, Any], status: Status
) -> None:
    found = lines()
    found[at] = found[at] | changes
    assert bad(found)["burnin.done", "gpu-1"] is status


def test_a_burn_in_without_its_end_failed_where_it_broke_off() -> None:
    result = verdicts(lines()[:50])["burnin.done", "gpu-1"]
    assert (result.status, result.cause) == (Status.FAIL, "it ended after 3.84 h")


def test_idle_gpus_and_a_hole_in_the_samples_are_not_assessed() -> None:
    idle = [
        row | {"gpus": [gpu(0), gpu(1, use=40)]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert bad(idle) == {("burnin.done", "gpu-1"): Status.NOT_ASSESSED}
    holed = lines()
    del holed[20:40]
    assert bad(holed) == {("burnin.done", "gpu-1"): Status.NOT_ASSESSED}


def test_a_rate_that_varies_is_told() -> None:
    found = lines()
    for at in range(2, 100, 3):
        found[at] = found[at] | {"rates": {"0": 200.0, "1": 250.0}}
    assert bad(found) == {("burnin.rate", "gpu-1"): Status.WARN}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "beginning"),
        (written(lines()[2:]), "beginning"),
        (written(lines()[:2]), "no sample"),
        (written(lines()).replace('"time": 1001}', '"time": "noon"}'), "line 2: time"),
        (written(changed(5, 0, temperature="hot")), "value is none: 'hot'"),
        (written(changed(5, 0, temperature="nan")), "cannot be 'nan'"),
        (written(lines()).replace("GPU-1, ", "", 1), "row is none"),
        ("{" + written(lines()), "line 1"),
    ],
)
def test_what_is_no_record_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        read(text)


def test_half_a_line_at_the_end_is_that_of_a_host_that_lost_its_power() -> None:
    text = written(lines())
    assert not read(text[:-20]).done


SHORT = written(lines(6))


@settings(max_examples=60)
@given(st.integers(0, len(SHORT)), st.text(max_size=4))
def test_no_cut_record_is_called_done(at: int, noise: str) -> None:
    with suppress(Unread):
        burn = read(SHORT[:at] + noise)
        assert isinstance(burn, Burn)
        assert not burn.done or at == len(SHORT)


def test_the_program_itself_writes_what_is_read(tmp_path: Path) -> None:
    argv = [sys.executable, str(SCRIPT), str(tmp_path / "burnin"), "1.2", "0.3"]
    subprocess.run(argv, check=True, timeout=60)
    burn = read((tmp_path / "burnin/samples.jsonl").read_text())
    assert (burn.done, burn.failed, burn.asked) == (True, 0, 1.2)
    assert burn.lasted >= 1.0
    assert len(burn.moments) >= 2


def test_what_a_sound_burn_in_shows_is_what_was_asked_and_measured() -> None:
    found = verdicts(lines())
    done = found[gates.DONE, "gpu-1"]
    assert (done.limit, done.unit) == (8.0, "h")
    assert done.value == pytest.approx(8.0, abs=0.001)
    rate = found[gates.RATE, "gpu-1"]
    assert (rate.limit, rate.value, rate.unit) == (4.0, 0.2, "%")


def test_the_published_bounds_are_those_that_judge() -> None:
    assert (judging.WARM, judging.HOT, judging.SPREAD, judging.JITTER) == (88.0, 95.0, 5.0, 4.0)
    assert judging.BUSY == 90.0


def test_no_gpu_that_answered_is_no_clean_bill_of_errors() -> None:
    found = [line | {"gpus": []} if line["kind"] == "sample" else line for line in lines()]
    told = [r for r in verdicts(found).values() if r.id == gates.ERRORS]
    assert [r.status for r in told] == [Status.NOT_ASSESSED]


@pytest.mark.parametrize(
    ("warmth", "status"),
    [(88, None), (88.5, Status.WARN), (94.5, Status.WARN), (95, Status.FAIL)],
)
def test_heat_counts_from_its_bounds_on(warmth: float, status: Status | None) -> None:
    target = ("burnin.heat", "gpu-1/GPU 1")
    assert bad(changed(50, 1, temperature=warmth)) == ({target: status} if status else {})


@pytest.mark.parametrize(("warmth", "status"), [(75, None), (75.5, Status.WARN)])
def test_gpus_of_a_host_may_differ_by_five_degrees(warmth: float, status: Status | None) -> None:
    found = [
        row | {"gpus": [gpu(0), gpu(1, temperature=warmth)]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert bad(found) == ({("burnin.heat", "gpu-1"): status} if status else {})


@pytest.mark.parametrize(("use", "status"), [(90, None), (89, Status.NOT_ASSESSED)])
def test_a_gpu_is_at_work_from_ninety_percent_of_the_time_on(
    use: int, status: Status | None
) -> None:
    found = [
        row | {"gpus": [gpu(0), gpu(1, use=use)]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert bad(found) == ({("burnin.done", "gpu-1"): status} if status else {})


@pytest.mark.parametrize(("lost", "status"), [(4, None), (5, Status.NOT_ASSESSED)])
def test_five_samples_in_turn_may_not_be_missing(lost: int, status: Status | None) -> None:
    found = lines()
    del found[20 : 20 + lost]
    assert bad(found) == ({("burnin.done", "gpu-1"): status} if status else {})


def test_what_was_before_it_began_and_before_it_was_warm_does_not_count() -> None:
    found = lines()
    early = found[2] | {
        "gpus": [gpu(0, use=0), gpu(1, use=0, temperature=40)],
        "rates": {"0": 10.0, "1": 10.0},
    }
    cold = [early | {"time": 1002 + 4 * at} for at in range(70)]
    before = gpu(1, temperature=99, reasons="0x0000000000000040")
    found[0] = found[0] | {"gpus": [gpu(0), before]}
    assert bad([*found[:2], *cold, *found[2:]]) == {}
    assert bad([*found[:2], *(row | {"time": row["time"] + 400} for row in cold), *found[4:]]) != {}


def test_of_a_short_burn_in_the_second_half_counts() -> None:
    minutes = [
        row | {"time": 1001 + (row["time"] - 1001) / 144} if "time" in row else row
        for row in lines()
    ]
    for row in minutes[2:45]:
        row["gpus"] = [gpu(0), gpu(1, use=0)]
    minutes[1] |= {"seconds": 200.0, "interval": 2.0}
    minutes[-1] |= {"time": 1201}
    burn = read(written(minutes))
    assert judging.settled(burn) == 100.0
    found = judging.judge("gpu-1", burn, 200.0, 2, False)
    assert {r.status for r in found} == {Status.PASS}


def test_errors_that_were_there_before_are_no_new_ones() -> None:
    found = [
        row | {"gpus": [gpu(0), gpu(1, lost=3)]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert bad(found) == {}


def test_an_xid_that_nobody_has_judged_warns() -> None:
    found = lines()
    found[60] = found[60] | {"xids": [XID.format(31), XID.format(999).replace("12.3", "99.9")]}
    assert bad(found) == {("burnin.errors", "gpu-1/Xid 999 of 0000:10:00"): Status.WARN}


@pytest.mark.parametrize(("short", "status"), [(2, None), (3, Status.FAIL)])
def test_it_may_be_two_seconds_short(short: int, status: Status | None) -> None:
    found = lines()
    found[-1] = found[-1] | {"time": 1001 + HOURS - short}
    del found[-2]
    assert bad(found) == ({("burnin.done", "gpu-1"): status} if status else {})


@pytest.mark.parametrize(("low", "status"), [(231.0, None), (230.0, Status.WARN)])
def test_a_rate_may_vary_by_four_percent(low: float, status: Status | None) -> None:
    """Half of the time 250, half of it ``low``: the deviation is half of the difference."""
    found = lines()
    for at, row in enumerate(found):
        if row["kind"] == "sample" and row["rates"]:
            found[at] = row | {"rates": {"0": low if at % 2 else 250.0, "1": 250.0}}
    assert bad(found) == ({("burnin.rate", "gpu-1"): status} if status else {})


def test_where_no_gpu_answered_nothing_failed() -> None:
    """Every result counts here: a later one of the same check does not hide it."""
    found = [row | {"gpus": []} if row["kind"] == "sample" else row for row in lines()]
    results = list(judging.judge("gpu-1", read(written(found)), HOURS, 2, False))
    assert Status.FAIL not in {r.status for r in results}


def test_the_share_that_a_rate_varies_by_is_shown_to_a_tenth() -> None:
    found = lines()
    for at, row in enumerate(found):
        if row["kind"] == "sample" and row["rates"]:
            found[at] = row | {"rates": {"0": 240.0 if at % 2 else 250.0, "1": 250.0}}
    assert verdicts(found)[gates.RATE, "gpu-1"].value == 2.0
    odd = [
        row | {"rates": {"0": 241.0 if n % 2 else 250.0}}
        if row["kind"] == "sample" and row["rates"]
        else row
        for n, row in enumerate(lines())
    ]
    assert verdicts(odd)[gates.RATE, "gpu-1"].value == 1.8


def test_sampling_that_stopped_hours_before_the_end_is_a_hole() -> None:
    found = lines()
    del found[40:-1]
    assert bad(found) == {("burnin.done", "gpu-1"): Status.NOT_ASSESSED}


def test_workers_may_take_their_time_to_end() -> None:
    found = lines()
    found[-1] = found[-1] | {"time": 1001 + HOURS + 2000}
    assert bad(found) == {}


def test_no_interval_excuses_a_hole() -> None:
    found = lines()
    found[1] = found[1] | {"interval": 1e9}
    del found[20:40]
    assert bad(found) == {("burnin.done", "gpu-1"): Status.NOT_ASSESSED}


def test_a_burn_in_that_was_to_be_shorter_is_another_one() -> None:
    found = lines()
    found[1] = found[1] | {"seconds": 60.0}
    done = verdicts(found)["burnin.done", "gpu-1"]
    assert (done.status, done.cause) == (
        Status.FAIL,
        "it was to last 0.0167 h: this is a different burn-in run",
    )


def test_errors_that_came_up_after_a_reset_count() -> None:
    found = [
        row | {"gpus": [gpu(0), gpu(1, lost=5 if at < 30 else 0 if at < 60 else 3)]}
        if row["kind"] == "sample"
        else row
        for at, row in enumerate(lines())
    ]
    assert verdicts(found)["burnin.errors", "gpu-1/GPU 1"].cause == (
        "3 uncorrectable memory errors came up"
    )


def test_a_gpu_at_work_for_more_than_all_of_the_time_is_refused() -> None:
    read(written(changed(5, 0, use=100)))
    with pytest.raises(Unread, match="101 % is impossible"):
        read(written(changed(5, 0, use=101)))


def test_a_gpu_of_no_degrees_has_no_sensor() -> None:
    found = [
        row | {"gpus": [gpu(0), gpu(1, temperature=0)]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert bad(found) == {("burnin.heat", "gpu-1/GPU 1"): Status.NOT_ASSESSED}


def test_a_clock_that_was_set_back_before_the_end_is_seen() -> None:
    found = lines()
    found[-1] = found[-1] | {"time": found[40]["time"]}
    with pytest.raises(Unread, match="not in order"):
        read(written(found))


def test_samples_of_a_clock_that_was_set_back_are_none() -> None:
    found = lines()
    found[50] = found[50] | {"time": found[40]["time"]}
    with pytest.raises(Unread, match="not in order"):
        read(written(found))


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_burn_in_of_no_time_is_none(seconds: int) -> None:
    found = lines()
    found[1] = found[1] | {"seconds": seconds}
    with pytest.raises(Unread):
        read(written(found))


def of_check(found: list[dict[str, Any]], check: str) -> list[tuple[str, Status]]:
    """Every result of one check: a pass beside a failure would be one too many."""
    burn = read(written(found))
    results = judging.judge("gpu-1", burn, HOURS, 2, False)
    return [(r.target, r.status) for r in results if r.id == check]


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ({"reasons": "0x0000000000000040"}, gates.CLOCKS, Status.FAIL),
        ({"reasons": "0x0000000000000020"}, gates.CLOCKS, Status.WARN),
        ({"temperature": 96}, gates.HEAT, Status.FAIL),
        ({"lost": 1}, gates.ERRORS, Status.FAIL),
        ({"lost": "[N/A]"}, gates.ERRORS, Status.NOT_ASSESSED),
        ({"uuid": "GPU-other"}, gates.ERRORS, Status.FAIL),
    ],
)
def test_no_pass_of_the_host_stands_beside_a_gpu_that_is_not_good(
    changes: dict[str, Any], check: str, status: Status
) -> None:
    assert of_check(changed(50, 1, **changes), check) == [("gpu-1/GPU 1", status)]


def test_no_pass_stands_beside_what_was_told_of_the_host_or_not_told_at_all() -> None:
    apart, silent, untold, logged = lines(), lines(), lines(), lines()
    for at, row in enumerate(lines()):
        if row["kind"] == "sample":
            apart[at]["gpus"] = [gpu(0), gpu(1, temperature=77)]
            silent[at]["gpus"] = [gpu(0, temperature="[N/A]"), gpu(1, temperature="[N/A]")]
            untold[at]["gpus"] = [gpu(0), gpu(1, reasons="[N/A]")]
    logged[60]["xids"] = [XID.format(31), XID.format(79).replace("12.3", "99.9")]
    assert of_check(apart, gates.HEAT) == [("gpu-1", Status.WARN)]
    (warm,) = [r for r in verdicts(apart).values() if r.status is Status.WARN]
    assert warm.cause.endswith("GPU 1 is the warmest")
    assert of_check(silent, gates.HEAT) == [
        (f"gpu-1/GPU {n}", Status.NOT_ASSESSED) for n in range(2)
    ]
    assert of_check(untold, gates.CLOCKS) == [("gpu-1/GPU 1", Status.NOT_ASSESSED)]
    assert of_check(logged, gates.ERRORS) == [("gpu-1/Xid 79 of 0000:10:00", Status.FAIL)]
    logged[60]["log"] = False
    assert of_check(logged, gates.ERRORS) == [("gpu-1/kernel log", Status.NOT_ASSESSED)]


def test_the_gpu_that_was_idle_is_named_and_a_sample_without_its_use_is_passed_over() -> None:
    idle = [
        row | {"gpus": [gpu(0), gpu(1, use=40)]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert verdicts(idle)[gates.DONE, "gpu-1"].cause == "GPU 1 was busy 40 % of the time"
    assert bad(changed(50, 1, use="[N/A]")) == {}
    never = [
        row | {"gpus": [gpu(0), gpu(1, use="[N/A]")]} if row["kind"] == "sample" else row
        for row in lines()
    ]
    assert bad(never) == {(gates.DONE, "gpu-1"): Status.NOT_ASSESSED}


def test_a_sample_without_a_rate_is_passed_over() -> None:
    found = lines()
    found[60] = found[60] | {"rates": {"0": 250.0}}
    assert bad(found) == {}


@pytest.mark.parametrize(("short", "status"), [(2, None), (3, Status.FAIL)])
def test_the_time_a_job_was_given_may_be_two_seconds_short(
    short: int, status: Status | None
) -> None:
    found = lines()
    found[1] = found[1] | {"seconds": HOURS - short}
    assert bad(found) == ({(gates.DONE, "gpu-1"): status} if status else {})


def test_a_sample_that_does_not_say_whether_it_read_the_log_did_not() -> None:
    found = lines()
    found[3] = {key: value for key, value in found[3].items() if key not in {"log", "hung"}}
    assert bad(found) == {(gates.ERRORS, "gpu-1/kernel log"): Status.NOT_ASSESSED}


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "", "[Unknown Error]"])
def test_words_for_nothing_are_no_values(word: str) -> None:
    found = changed(50, 1, lost=word)
    assert bad(found) == {(gates.ERRORS, "gpu-1/GPU 1"): Status.NOT_ASSESSED}


@pytest.mark.parametrize("index", ["1000", "-1", "x", ""])
def test_a_gpus_number_is_one(index: str) -> None:
    found = lines()
    found[5] = found[5] | {"gpus": [gpu(0), gpu(1).replace("1", index, 1)]}
    with pytest.raises(Unread, match="row is none"):
        read(written(found))
    found[5] = found[5] | {"gpus": [gpu(0), gpu(999)]}
    assert len(read(written(found)).moments) == 101


def test_empty_lines_are_none() -> None:
    assert read(written(lines()).replace("\n", "\n\n")).done


@pytest.mark.parametrize("rates", [{}, {"0": 0.0, "1": 0.0}])
def test_where_no_gpu_told_a_rate_none_is_judged_and_none_is_owed(rates: dict[str, float]) -> None:
    found = [row | {"rates": rates} if row["kind"] == "sample" else row for row in lines()]
    rate = verdicts(found)[gates.RATE, "gpu-1"]
    assert (rate.status, rate.required) == (Status.NOT_ASSESSED, False)


def test_one_rate_alone_varies_by_nothing_that_could_be_told() -> None:
    found = [row | {"rates": {}} if row["kind"] == "sample" else row for row in lines()]
    found[60]["rates"] = {"0": 250.0}
    assert verdicts(found)[gates.RATE, "gpu-1"].status is Status.NOT_ASSESSED
