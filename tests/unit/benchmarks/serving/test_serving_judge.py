"""Levels, percentiles, saturation, vLLM's document, the published tables, and what the command line refuses."""

import json
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from appliance.actions.benchmarks.serving import key, read_results
from appliance.benchmarks.serving import vllm
from appliance.benchmarks.serving.figures import Figure, percentile, saturation
from appliance.benchmarks.serving.figures import figure as of_level
from appliance.benchmarks.serving.gates import ANSWERS, THROUGHPUT, TPOT, TTFT
from appliance.benchmarks.serving.http import server
from appliance.benchmarks.serving.judge import judge
from appliance.benchmarks.serving.load import CompletedRequest, Level
from appliance.benchmarks.serving.reference import load as reference
from appliance.benchmarks.serving.reference import tables
from appliance.benchmarks.serving.request import Request
from appliance.cli.main import cli
from appliance.errors import ConfigError
from appliance.models.profile import Limit
from appliance.models.result import Status

LIMITS = {
    THROUGHPUT: Limit(value=100, unit="tokens/s", source="contract"),
    TTFT: Limit(value=500, unit="ms", source="contract"),
    TPOT: Limit(value=50, unit="ms", source="contract"),
}


def figure(rate: float | None = 1.0, **rest: Any) -> Figure:
    times = {50: 100.0, 90: 110.0, 99: 120.0}
    common: dict[str, Any] = {"asked": 100, "good": 100, "seconds": 100.0, "tokens": 20_000}
    common |= {"ttft": times, "tpot": {50: 10.0, 99: 20.0}, "itl": {}, "e2e": times}
    return Figure(rate=rate, **{**common, **rest})


def statuses(*found: Figure) -> dict[str, Status]:
    return {result.id: result.status for result in judge(found, LIMITS)}


def test_times_of_a_level_are_those_between_its_tokens() -> None:
    """Three answers: 4 gaps of 0.1 s, 2 gaps of 0.3 s, and one that came in one piece and has no time between."""
    done = (
        CompletedRequest(0.2, (0.1,) * 4, 0.6, 5, 10),
        CompletedRequest(0.4, (0.3, 0.3), 1.0, 3, 20),
        CompletedRequest(0.5, (), 0.5, 8, None),
    )
    level = Level(1.0, 2.0, 3.0, 0.1, done, Counter(x=1))
    found = of_level(level)
    assert found.tpot == pytest.approx({50: 100.0, 90: 300.0, 99: 300.0})
    assert found.ttft == pytest.approx({50: 400.0, 90: 500.0, 99: 500.0})
    assert found.e2e == pytest.approx({50: 600.0, 90: 1000.0, 99: 1000.0})
    assert found.itl[50] == pytest.approx(100.0)
    assert (found.least, found.tokens, found.prompt) == (500.0, 16, 15)
    assert (found.asked, found.good, found.span, found.refused) == (4, 3, 2.0, {"x": 1})
    one = of_level(replace(level, done=(CompletedRequest(0.5, (0.1,), 0.6, 1, None),)))
    assert one.tpot == {}
    assert of_level(replace(level, done=())).least == 0.0


def test_a_level_of_which_nothing_was_asked_kept_up_with_nothing() -> None:
    assert not figure(asked=0, good=0).kept
    assert figure(asked=100, good=99, seconds=111.0, least=1000.0).kept
    assert not figure(asked=100, good=99, seconds=113.0, least=1000.0).kept


def test_a_server_within_its_limits_passes() -> None:
    assert set(statuses(figure()).values()) == {Status.PASS}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"ttft": {50: 1.0, 99: 501.0}}, TTFT),
        ({"tpot": {50: 1.0, 99: 51.0}}, TPOT),
        ({"tokens": 9_000}, THROUGHPUT),
        ({"good": 99, "refused": {"closed": 1}}, ANSWERS),
    ],
)
def test_each_limit_trips(change: dict[str, Any], check: str) -> None:
    found = statuses(figure(**change))
    assert found[check] is Status.FAIL
    assert [status for name, status in found.items() if name != check] == [Status.PASS] * 3


def test_without_limits_only_the_answers_are_judged() -> None:
    assert [result.id for result in judge([figure()], {})] == [ANSWERS]


@pytest.mark.parametrize(
    "change",
    [
        {"late": 2.0},
        {"asked": 10, "good": 10, "seconds": 10.0},
        {"seconds": 500.0, "e2e": {50: 1.0}, "tokens": 100_000, "asked": 100, "good": 90},
    ],
)
def test_what_was_not_measured_rightly_is_never_a_pass(change: dict[str, Any]) -> None:
    found = statuses(figure(**change))
    assert found[TTFT] is Status.NOT_ASSESSED
    assert found[TPOT] is Status.NOT_ASSESSED


def test_answers_of_one_token_have_no_time_per_token() -> None:
    assert statuses(figure(tpot={}))[TPOT] is Status.NOT_ASSESSED


def test_saturation_is_the_last_rate_before_the_first_that_was_not_kept() -> None:
    found = [
        figure(1.0),
        figure(2.0, seconds=50.0),
        figure(4.0, good=90),
        figure(8.0, seconds=12.5),
    ]
    top = saturation(found)
    assert top is not None
    assert top.rate == 2.0
    assert saturation([figure(good=0)]) is None


def test_a_queue_that_grows_is_no_rate_that_is_kept() -> None:
    """As seen of a real server: 160 requests in 10 s, answered in 20; every one of them well."""
    grown = {"asked": 160, "good": 160, "span": 10.0, "seconds": 20.3, "least": 200.0}
    assert not figure(16.0, **grown).kept
    assert figure(16.0, **{**grown, "seconds": 10.3}).kept


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(
    values: list[float], share: int
) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share / 100 * len(values)


WRITTEN: dict[str, Any] = {
    "model_id": "meta-llama/Llama-2-7b",
    "request_rate": 4.0,
    "num_prompts": 100,
    "completed": 100,
    "failed": 0,
    "duration": 50.0,
    "total_input_tokens": 12_800,
    "total_output_tokens": 12_800,
    "output_throughput": 256.0,
    "mean_ttft_ms": 40.0,
    "median_ttft_ms": 38.0,
    "p99_ttft_ms": 90.0,
    "median_tpot_ms": 11.0,
    "p99_tpot_ms": 14.0,
    "median_itl_ms": 11.0,
    "p99_itl_ms": 20.0,
    "input_lens": [128] * 3,
}


def test_vllms_document_is_read() -> None:
    model, found = vllm.read(json.dumps(WRITTEN))
    assert model == "meta-llama/Llama-2-7b"
    assert (found.rate, found.throughput, found.ttft[99], found.prompt) == (4.0, 256.0, 90.0, 128)


def test_vllms_infinity_is_all_at_once() -> None:
    text = json.dumps({**WRITTEN, "request_rate": float("inf")})
    assert vllm.read(text)[1].rate is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"output_throughput": 2560.0}, "output_throughput"),
        ({"completed": 90}, "90 of 100"),
        ({"completed": 101, "failed": None}, "101 of 100"),
        ({"duration": 0}, "duration"),
        ({"median_ttft_ms": float("nan")}, "not a number"),
        ({"median_ttft_ms": -1}, "median_ttft_ms"),
        ({"completed": None}, "completed"),
        ({"p99_ttft_ms": 37.9}, "p99_ttft_ms is 37.9, and median_ttft_ms 38"),
        ({"p99_tpot_ms": 10.0}, "p99_tpot_ms is 10"),
        ({"p99_itl_ms": 10.0}, "p99_itl_ms is 10"),
        ({"median_e2el_ms": 50.0, "p99_e2el_ms": 49.0}, "p99_e2el_ms is 49"),
        ({"median_e2el_ms": 30.0}, "median_e2el_ms is 30, and median_ttft_ms 38"),
        ({"median_ttft_ms": 0.0}, "all took no time"),
        ({"request_rate": 0.0}, "request_rate cannot be 0"),
        ({"request_rate": -1.0}, "request_rate cannot be -1"),
        ({"total_output_tokens": 25_600}, "output_throughput is 256"),
        ({"failed": 1}, "1 failed"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        vllm.read(json.dumps({**WRITTEN, **change}))


def test_a_file_that_is_none_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with pytest.raises(ConfigError, match="No such file"):
        read_results(file)
    file.write_text("[]")
    with pytest.raises(ConfigError, match=r"result\.json"):
        read_results(file)


@pytest.mark.parametrize(
    ("text", "why", "fix"),
    [
        (f"{json.dumps(WRITTEN)}\n{json.dumps(WRITTEN)}\n", "--append-result", "one run"),
        (
            json.dumps({k: v for k, v in WRITTEN.items() if "tpot" not in k}),
            "it has no median_tpot_ms",
            "--percentile-metrics",
        ),
        (json.dumps({"completed": 3}), "duration: Field required", "--save-result"),
    ],
)
def test_an_option_that_makes_a_file_unusable_is_named(
    text: str, why: str, fix: str, tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=why) as error:
        read_results(file)
    assert fix in error.value.hint


def test_results_are_shown_without_a_site(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(WRITTEN))
    argv = ["validate", "serving", "--results", str(file), "--json"]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert done.exception is None
    assert done.return_value == 0
    assert json.loads(done.stdout)["measurements"][0]["value"] == 256.0


def test_all_published_tables_are_there_with_their_doubts() -> None:
    shown = {t.title.split(":")[0]: t for t in tables()}
    assert list(shown) == [f"Table {n}" for n in (4, 5, 8, 11, 12, 13, 14)]
    rows = {row[0]: row for row in shown["Table 8"].rows}
    assert rows["1"][-2:] == ("2596 ?", "2596 ?")
    assert rows["16"][-1] == "170 ?"
    assert rows["128"] == ("128", "1557", "1490", "1526", "1206", "1090")
    cells = sum(len(row.cells) for table in reference().tables for row in table.rows)
    assert cells == 28 + 28 + 40 + 5 + 5 + 30 + 33


def test_published_tables_are_printed() -> None:
    done = CliRunner().invoke(
        cli, ["validate", "serving", "--table", "--json"], standalone_mode=False
    )
    assert done.exception is None
    assert len(json.loads(done.stdout)["tables"]) == 7


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "--endpoint"),
        *(
            (["--endpoint", address], "--endpoint: write it as")
            for address in ("ftp://host/v1", "https://host:80443/v1", "https://[::1/v1")
        ),
        (["--endpoint", "https://me:secret@host/v1"], "--api-key-file"),
        (["--endpoint", "http://host/v1", "--rates", "fast"], "--rates"),
        (["--endpoint", "http://host/v1", "--rates", "0"], "rates"),
        (["--endpoint", "http://host/v1", "--tokens", "0"], "tokens"),
    ],
)
def test_unusable_options_are_refused(argv: list[str], why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        cli.main(["validate", "serving", "--here", *argv], standalone_mode=False)


def test_a_key_goes_over_tls_or_to_this_machine_alone() -> None:
    with pytest.raises(ValueError, match="only be sent over https"):
        Request(endpoint="http://10.0.0.1/v1", key="sk-hush")
    assert Request(endpoint="http://127.0.0.1:8000/v1", key="sk-hush").key == "sk-hush"
    assert b"Bearer sk-hush" in server("https://h/v1", key="sk-hush").head("GET", "/models", 0)


@pytest.mark.parametrize(("text", "mode"), [("sk-hush\n", 0o644), ("sk-hush\nmore: x\n", 0o600)])
def test_a_file_of_a_key_that_is_none_is_refused(tmp_path: Path, text: str, mode: int) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigError) as refused:
        key(file)
    assert "hush" not in refused.value.message + refused.value.hint


def test_a_key_is_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("sk-hush\n")
    file.chmod(stat.S_IRUSR)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    assert (key(file), key(None)) == ("sk-hush", "sk-other")


def test_a_value_at_its_limit_passes() -> None:
    edge = figure(ttft={50: 1.0, 99: 500.0}, tpot={50: 1.0, 99: 50.0}, tokens=10_000)
    assert set(statuses(edge).values()) == {Status.PASS}


def test_results_show_what_was_measured_and_what_it_was_judged_by() -> None:
    found = {result.id: result for result in judge([figure(tokens=20_004)], LIMITS)}
    shown = {check: (r.value, r.unit, r.limit, r.limit_source) for check, r in found.items()}
    good = "every request at the lowest rate succeeds"
    assert shown == {
        ANSWERS: (100, "answers", 100, good),
        THROUGHPUT: (200.0, "tokens/s", 100, "contract"),
        TTFT: (120.0, "ms", 500, "contract"),
        TPOT: (20.0, "ms", 50, "contract"),
    }
    assert found[ANSWERS].evidence == "100 requests at 1/s"
    assert found[TTFT].evidence == "at 1 requests/s, the highest rate it keeps up with"


def test_what_was_asked_all_at_once_is_judged_and_said_so() -> None:
    found = {result.id: result for result in judge([figure(None)], LIMITS)}
    assert {result.status for result in found.values()} == {Status.PASS}
    assert (found[TTFT].evidence, found[ANSWERS].evidence) == ("all at once", "100 requests")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"late": 0.5}, Status.PASS),
        ({"late": 0.6}, Status.NOT_ASSESSED),
        ({"asked": 20, "good": 20, "seconds": 20.0}, Status.PASS),
        ({"asked": 19, "good": 19, "seconds": 19.0}, Status.NOT_ASSESSED),
    ],
)
def test_a_late_client_and_a_few_answers_say_nothing(
    change: dict[str, Any], status: Status
) -> None:
    found = {result.id: result for result in judge([figure(**change)], LIMITS)}
    assert found[TTFT].status is status
    if status is Status.NOT_ASSESSED:
        assert ("sent requests 0.6 s late at 1/s" if "late" in change else "19 good") in (
            found[TTFT].cause
        )


def test_the_most_tokens_are_those_of_a_rate_at_which_99_percent_were_answered() -> None:
    found = [figure(1.0, tokens=9_000), figure(2.0, seconds=50.0, tokens=10_000, good=99)]
    assert statuses(*found)[THROUGHPUT] is Status.PASS
    spoilt = [found[0], figure(2.0, seconds=50.0, tokens=10_000, good=98)]
    assert statuses(*spoilt)[THROUGHPUT] is Status.FAIL


def test_a_failure_says_how_many_why_and_at_which_rate() -> None:
    bad = figure(good=97, refused={"closed": 2, "empty": 1})
    (answers,) = judge([bad], {})
    assert answers.cause == "3 of 100 requests at 1/s failed: 2 x closed, 1 x empty"
    assert answers.value == 97
    slow = {r.id: r for r in judge([figure(ttft={99: 500.5})], LIMITS)}[TTFT]
    assert slow.cause == "500.5 ms, at 1 requests/s, the highest rate it keeps up with"


def test_nothing_asked_and_nothing_sent_are_no_verdict() -> None:
    assert [r.status for r in judge([], LIMITS)] == [Status.NOT_ASSESSED]
    none = figure(asked=0, good=0)
    assert statuses(none)[ANSWERS] is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"seconds": 55.5}, True),
        ({"seconds": 55.6}, False),
        ({"seconds": 58.8, "least": 3000.0}, True),
        ({"seconds": 59.0, "least": 3000.0}, False),
        ({"span": 40.0, "seconds": 44.4}, True),
        ({"span": 40.0, "seconds": 44.5}, False),
        ({"good": 99}, True),
        ({"good": 98}, False),
        ({"asked": 0, "good": 0}, False),
    ],
)
def test_a_rate_is_kept_where_sending_takes_nine_tenths_of_the_time(
    change: dict[str, Any], kept: bool
) -> None:
    """Two a second, a hundred of them: fifty seconds."""
    assert figure(2.0, **{"seconds": 50.0, **change}).kept is kept


def test_levels_without_a_rate_are_no_saturation() -> None:
    assert saturation([figure(None)]) is None
    assert not figure(None).kept
    top = saturation([figure(None), figure(2.0, seconds=50.0), figure(1.0)])
    assert top is not None
    assert top.rate == 2.0
    assert top.answers == 2.0


def test_of_vllms_document_failures_are_counted() -> None:
    bad = {**WRITTEN, "num_prompts": None, "completed": 90, "failed": 10}
    found = vllm.read(json.dumps(bad))[1]
    assert (found.asked, found.good) == (100, 90)
    assert found.refused == {"told by vllm bench serve": 10}
    assert vllm.read(json.dumps(WRITTEN))[1].refused == {}
    silent = vllm.read(json.dumps({**WRITTEN, "num_prompts": None, "failed": None}))[1]
    assert (silent.asked, silent.good) == (100, 100)
    told = vllm.read(json.dumps({**WRITTEN, "failed": None, "median_e2el_ms": 900.0}))[1]
    assert (told.least, told.ttft) == (900.0, {50: 38.0, 99: 90.0})
    assert vllm.read(json.dumps({**WRITTEN, "p99_ttft_ms": 38.0}))[1].ttft[99] == 38.0
    none = {"completed": 0, "failed": 100, "total_output_tokens": 0, "output_throughput": 0.0}
    zero = dict.fromkeys(("median_ttft_ms", "p99_ttft_ms"), 0.0)
    assert vllm.read(json.dumps({**WRITTEN, **none, **zero}))[1].good == 0


@pytest.mark.parametrize(
    ("rate", "sound"), [(251.0, True), (250.5, False), (261.2, True), (261.5, False)]
)
def test_a_rate_may_be_rounded_by_two_percent(rate: float, sound: bool) -> None:
    text = json.dumps({**WRITTEN, "output_throughput": rate})
    if sound:
        assert vllm.read(text)[1].throughput == 256.0
    else:
        with pytest.raises(ValueError, match="output_throughput"):
            vllm.read(text)
