"""Verdicts on loads: each with the fault it is there for, and never a pass of what was not measured."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.benchmarks.model_load.answer import Answer, read
from appliance.benchmarks.model_load.gates import SHARE, SPEEDUP, TENSORS
from appliance.benchmarks.model_load.host.cold import COLD
from appliance.benchmarks.model_load.judge import judge
from appliance.benchmarks.model_load.reference import load as reference
from appliance.benchmarks.model_load.tables import measurements, tables
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status

SIZE = 1_000_000_000
DIGEST = "0" * 64


def loads(loader: str, concurrency: int, *seconds: float, **rest: Any) -> list[dict[str, Any]]:
    common = {"loader": loader, "concurrency": concurrency, "stayed": 0.0, "fetched": SIZE}
    return [
        {**common, "turn": turn, "checked": turn == 0, "seconds": s, "device": "cpu", **rest}
        for turn, s in enumerate(seconds)
    ]


GOOD = [
    *loads("safetensors", 1, 4.0, 4.1, 3.9),
    *loads("streamer", 1, 4.0, 4.0, 4.2),
    *loads("streamer", 16, 1.0, 1.1, 1.2),
]
RAW = [{"readers": 16, "turn": n, "stayed": 0.0, "seconds": 1.0, "direct": True} for n in range(3)]


def place(found: list[dict[str, Any]] | None = None, **rest: Any) -> dict[str, Any]:
    return {
        "place": "/data",
        "kind": "ext4",
        "source": "/dev/sda",
        "bytes": SIZE,
        "tensors": 291,
        "sha256": DIGEST,
        "raw": RAW,
        "loads": GOOD if found is None else found,
        "missing": [],
        **rest,
    }


def document(*places: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "host": "gpu-1",
        "kernel": "6.1",
        "python": "3.11.7",
        "processors": 2,
        "packages": {"safetensors": {"version": "0.8.0", "record": DIGEST}},
        "began": "2026-11-24T11:00:00Z",
        "places": list(places),
        **rest,
    }


def answer(*places: dict[str, Any]) -> Answer:
    return Answer.model_validate(document(*places))


def verdicts(found: dict[str, Any], **limits: float) -> dict[str, CheckResult]:
    bounds = {
        f"model_load.{name}": Limit(value=value, source="the contract")
        for name, value in limits.items()
    }
    return {result.id: result for result in judge(answer(found), bounds)}


def test_good_loads_pass_with_the_ratio_of_medians() -> None:
    found = verdicts(place(), share=80.0)
    assert {r.status for r in found.values()} == {Status.PASS}
    assert found[SPEEDUP].value == 3.64
    assert found[SHARE].value == 90.9
    assert found[SPEEDUP].target == "gpu-1/data"


def test_a_share_of_the_storage_is_judged_only_by_a_limit() -> None:
    assert SHARE not in verdicts(place())
    assert verdicts(place(), share=95.0)[SHARE].status is Status.FAIL


def test_a_slow_streamer_warns_and_fails_by_a_limit_of_the_site() -> None:
    slow = [*loads("safetensors", 1, 1.0, 1.0, 1.0), *loads("streamer", 16, 2.0, 2.0, 2.0)]
    assert verdicts(place(slow))[SPEEDUP].status is Status.WARN
    assert verdicts(place(slow), speedup=1.0)[SPEEDUP].status is Status.FAIL


def test_one_tensor_with_other_bytes_fails() -> None:
    harmed = [*loads("streamer", 16, 1.0, 1.0, 1.0, wrong=1), *GOOD]
    assert verdicts(place(harmed))[TENSORS].status is Status.FAIL


def test_a_model_file_that_is_another_one_fails() -> None:
    size = next(iter(reference().files))
    assert verdicts(place(bytes=size))[TENSORS].status is Status.FAIL


def test_loads_nobody_compared_are_not_assessed() -> None:
    unseen = [{**load, "checked": False} for load in GOOD]
    assert verdicts(place(unseen))[TENSORS].status is Status.NOT_ASSESSED


def test_a_load_that_broke_off_is_an_error_with_its_words() -> None:
    broken = [*GOOD, {**GOOD[0], "seconds": None, "trouble": "ValueError: truncated"}]
    result = verdicts(place(broken))[TENSORS]
    assert result.status is Status.ERROR
    assert "truncated" in result.cause


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"stayed": 0.5}, "50% of the file stayed"),
        ({"stayed": None}, "does not report"),
        ({"fetched": 1000}, "only 0% of the file was read from storage"),
    ],
)
def test_warm_loads_are_not_assessed(change: dict[str, Any], why: str) -> None:
    result = verdicts(place([{**load, **change} for load in GOOD]))[SPEEDUP]
    assert result.status is Status.NOT_ASSESSED
    assert why in result.cause


def test_a_file_system_with_a_cache_of_its_own_is_not_assessed() -> None:
    result = verdicts(place(kind="zfs"))[SPEEDUP]
    assert result.status is Status.NOT_ASSESSED
    assert "ARC" in result.cause


def test_two_loads_are_too_few() -> None:
    few = [load for load in GOOD if load["turn"] < 2]
    assert verdicts(place(few))[SPEEDUP].status is Status.NOT_ASSESSED


def test_a_missing_loader_is_not_assessed_with_what_to_install() -> None:
    only = [load for load in GOOD if load["loader"] == "safetensors"]
    lacking = [{"loader": "streamer", "packages": ["runai-model-streamer"]}]
    result = verdicts(place(only, missing=lacking))[SPEEDUP]
    assert result.status is Status.NOT_ASSESSED
    assert "pip install runai-model-streamer" in result.fix


def test_safetensors_reads_no_objects_so_nothing_is_compared_there() -> None:
    objects = [
        {**load, "stayed": None, "fetched": 0} for load in GOOD if load["loader"] != "safetensors"
    ]
    found = verdicts(
        place(
            objects,
            kind="s3",
            place="s3://models",
            raw=[{**r, "direct": False, "stayed": None} for r in RAW],
        ),
        share=50.0,
    )
    assert SPEEDUP not in found
    assert found[SHARE].status is Status.PASS


@pytest.mark.parametrize("loaded", [[], GOOD])
def test_trouble_of_a_place_is_told_with_its_remedy(loaded: list[dict[str, Any]]) -> None:
    found = verdicts(place(loaded, trouble="/data has no room", remedy="use a smaller --size"))
    assert list(found) == [TENSORS]
    assert found[TENSORS].status is Status.NOT_ASSESSED
    assert found[TENSORS].fix == "use a smaller --size"


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["safetensors", "streamer", "tensorizer"]),
            st.sampled_from([1, 16]),
            st.one_of(st.none(), st.floats(1e-3, 1e4)),
            st.one_of(st.none(), st.floats(0.02, 1.0)),
        ),
        max_size=12,
    )
)
def test_without_a_cold_load_nothing_passes_but_the_bytes(
    found: list[tuple[str, int, float | None, float | None]],
) -> None:
    warm = [
        {"loader": n, "concurrency": c, "turn": 0, "seconds": s, "stayed": stayed, "checked": True}
        for n, c, s, stayed in found
    ]
    results = verdicts(place(warm), speedup=0.01, share=0.01)
    assert all(r.status is not Status.PASS for name, r in results.items() if name != TENSORS)
    assert list(tables(answer(place(warm)))) == []


def test_the_table_shows_published_times_beside_and_marks_doubtful_ones() -> None:
    (table,) = tables(answer(place()))
    rows = {row[0]: row for row in table.rows}
    assert rows["streamer 1"][-2:] == ("47.56 ?", 43.71)
    assert rows["streamer 16"][-2:] == (14.34, 7.61)
    assert table.plot is not None


def test_measurements_name_package_and_digest() -> None:
    found = {m.name: m for m in measurements(answer(place()), "gpu-1", simulated=False)}
    assert found["model_load.safetensors"].detail["version"] == "0.8.0"
    assert found["model_load.safetensors"].detail["record"] == DIGEST
    assert (found["model_load.raw"].value, found["model_load.raw"].unit) == (1.0, "s")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("[" * 5000, "nested too deeply"),
        (json.dumps(document(place(), host=1)), "host"),
        (json.dumps(document(place()) | {"extra": 1}), "extra"),
        (json.dumps(document(place())).replace("4.0", "NaN"), "not a number"),
        (json.dumps(document(place(loads("streamer", 1, -1.0)))), "seconds"),
        (json.dumps(document()), "requested was"),
        (json.dumps(document(place(), place())), "requested was"),
        (json.dumps(document(place(sha256="../etc"))), "sha256"),
        (json.dumps(document(place(kind="s3"))), "/data cannot be of kind 's3'"),
        (json.dumps(document(place(bytes=0))), "file is empty"),
        (json.dumps(document(place(tensors=0))), "file is empty"),
    ],
)
def test_an_answer_that_lies_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        read(text, ["/data"])
    assert "\n" not in str(refused.value)


def test_an_answer_about_what_was_asked_is_read() -> None:
    assert read(json.dumps(document(place())), ["/data"]).places[0].kind == "ext4"
    objects = place([GOOD[-1] | {"stayed": None}], kind="s3", place="s3://models")
    assert read(json.dumps(document(objects)), ["s3://models"]).places[0].kind == "s3"
    empty = place([], kind="", bytes=0, tensors=0, place="s3://models", trouble="no such bucket")
    assert read(json.dumps(document(empty)), ["s3://models"]).places[0].trouble
    with pytest.raises(ValueError, match="s3://models cannot be of kind 'ext4'"):
        read(json.dumps(document(place(place="s3://models"))), ["s3://models"])


def test_the_published_cells_are_all_there() -> None:
    cells = {e.name: len(e.cells) for e in reference().experiments}
    assert cells == {"gp3": 12, "io2": 11, "s3": 9}
    doubtful = [c for e in reference().experiments for c in e.cells if c.doubt]
    assert len(doubtful) == 3


def test_results_are_of_the_host_that_was_asked_and_not_of_who_answers() -> None:
    found = list(judge(answer(place()), {}, "gpu-7"))
    assert {r.host for r in found} == {"gpu-7"}
    assert {r.host for r in judge(answer(place()), {})} == {"gpu-1"}


def test_without_loads_or_the_other_loader_nothing_is_compared() -> None:
    assert {c: r.status for c, r in verdicts(place([]), share=1.0, speedup=0.1).items()} == {
        TENSORS: Status.NOT_ASSESSED
    }
    for loader in ("streamer", "safetensors"):
        only = [load for load in GOOD if load["loader"] == loader]
        found = verdicts(place(only), speedup=0.1)
        assert found[SPEEDUP].status is Status.NOT_ASSESSED
        assert found[SPEEDUP].cause.startswith("fewer than 3 loads of the streamer or")
    no_raw = verdicts(place(raw=[]), share=0.1)
    assert no_raw[SHARE].status is Status.NOT_ASSESSED


def test_a_known_size_needs_the_digest_of_that_file() -> None:
    size, digest = next(iter(reference().files.items()))
    right = [{**load, "fetched": size} for load in GOOD]
    assert verdicts(place(right, bytes=size, sha256=digest))[TENSORS].status is Status.PASS
    assert verdicts(place(right, bytes=size, sha256=""))[TENSORS].status is Status.NOT_ASSESSED


@pytest.mark.parametrize(("limit", "status"), [(2.0, Status.PASS), (2.01, Status.FAIL)])
def test_a_limit_of_the_site_takes_the_place_of_our_own(limit: float, status: Status) -> None:
    twice = [*loads("safetensors", 1, 4.0, 4.0, 4.0), *loads("streamer", 16, 2.0, 2.0, 2.0)]
    found = verdicts(place(twice), speedup=limit, share=50.0)
    assert (found[SPEEDUP].status, found[SPEEDUP].limit) == (status, limit)
    assert (found[SHARE].status, found[SHARE].value) == (Status.PASS, 50.0)
    assert found[SPEEDUP].limit_source == "the contract"


@pytest.mark.parametrize(
    ("change", "cold"),
    [
        ({}, True),
        ({"fetched": -1}, True),
        ({"fetched": 0}, False),
        ({"fetched": SIZE * 9 // 10}, True),
        ({"fetched": SIZE * 9 // 10 - 1}, False),
        ({"stayed": COLD}, True),
        ({"stayed": COLD + 0.001}, False),
    ],
)
def test_a_load_is_cold_by_what_storage_was_asked_for_and_what_stayed(
    change: dict[str, Any], cold: bool
) -> None:
    found = verdicts(place([{**load, **change} for load in GOOD]))[SPEEDUP]
    assert (found.status is Status.PASS) is cold


def test_an_object_of_which_something_stayed_is_warm() -> None:
    some = [{**load, "stayed": 0.5, "fetched": 0} for load in GOOD]
    objects = place(some, kind="s3", place="s3://models")
    assert verdicts(objects, share=0.1)[SHARE].status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    "change",
    [{"direct": False, "stayed": 0.5}, {"direct": None, "stayed": 0.5}, {"seconds": None}],
)
def test_what_storage_gives_by_itself_is_read_cold_and_to_the_end(change: dict[str, Any]) -> None:
    """None: the host does not say."""
    own = [
        {k: v for k, v in ({**r, **change}).items() if k != "direct" or v is not None} for r in RAW
    ]
    assert verdicts(place(raw=own), share=0.1)[SHARE].status is Status.NOT_ASSESSED


def test_what_went_past_the_page_cache_counts_whatever_lies_in_it() -> None:
    own = [{**r, "stayed": 0.5} for r in RAW]
    assert verdicts(place(raw=own), share=0.1)[SHARE].status is Status.PASS


def test_a_load_that_does_not_say_whether_it_was_compared_was_not() -> None:
    silent = [{k: v for k, v in load.items() if k != "checked"} for load in GOOD]
    assert verdicts(place(silent))[TENSORS].status is Status.NOT_ASSESSED


def test_what_broke_off_is_named_with_its_loader() -> None:
    broken = [*GOOD, {**GOOD[0], "seconds": None, "checked": True}]
    assert verdicts(place(broken))[TENSORS].cause == (
        "safetensors 1 did not load: no time was reported"
    )
    for trouble, way in (
        ("ModuleNotFoundError: No module named 'dateutil'", "pip check"),
        ("its process ended without an answer (wait status 9)", "dmesg"),
        ("it did not end within 600 s", "--size"),
    ):
        told = verdicts(place([*GOOD, {**broken[-1], "trouble": trouble}]))[TENSORS]
        assert (trouble in told.cause, way in told.fix) == (True, True)
    assert verdicts(place())[TENSORS].evidence.endswith("9 loads; safetensors 0.8.0")
    assert verdicts(place())[SPEEDUP].evidence.startswith("streamer 16: 1.1 s, safetensors: 4 s")
