"""DCGM's documents of both generations: read per GPU and test, and nothing skipped, cut or unknown is called good."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.process import Completed
from appliance.benchmarks.dcgm.gates import CHECK
from appliance.benchmarks.dcgm.report import Report, Word, read
from appliance.benchmarks.dcgm.run import judge, run
from appliance.benchmarks.jobs import HostOutput, Trouble
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from tests.support.batches import Batches, answer, labelled
from tests.support.dcgm_output import FOUR, THREE
from tests.support.profiles import profile_of
from tests.support.sites import site_of

GPUS = ["gpu-1/GPU 0", "gpu-1/GPU 1"]
Change = Callable[[dict[str, Any]], object]


def verdicts(output: str, gpus: int = 2, level: int = 3, code: int = 0) -> dict[str, CheckResult]:
    return {r.target: r for r in judge("gpu-1", HostOutput(output, code), gpus, level)}


def entry(document: dict[str, Any], name: str) -> dict[str, Any]:
    (root,) = (value for key, value in document.items() if key.endswith("Diagnostic"))
    tests = (t for c in root["test_categories"] for t in c["tests"] if t)
    return next(t for t in tests if t["name"] == name)


def changed(output: str, change: Change) -> str:
    document = json.loads(output[output.index("{") :])
    change(document)
    return json.dumps(document)


def result(output: str, name: str, gpu: int = 1, **changes: Any) -> str:
    return changed(output, lambda d: entry(d, name)["results"][gpu].update(changes))


@pytest.mark.parametrize(("output", "version"), [(THREE, "3.3.5"), (FOUR, "4.5.3")])
def test_both_generations_pass_per_gpu(output: str, version: str) -> None:
    found = verdicts(output)
    assert [found[gpu].status for gpu in GPUS] == [Status.PASS, Status.PASS]
    assert f"DCGM {version}" in found[GPUS[0]].evidence
    assert {r.status for r in found.values()} == {Status.PASS}


def test_what_dcgm_skips_on_sound_hosts_is_told_beside_the_pass() -> None:
    assert "not run here: nvbandwidth" in verdicts(FOUR)[GPUS[0]].evidence
    assert "not run here: EUD Test" in verdicts(THREE)[GPUS[0]].evidence


@pytest.mark.parametrize(
    ("output", "name", "warnings", "told"),
    [
        (THREE, "GPU Memory", "DBE found", "GPU Memory: DBE found"),
        (THREE, "PCIe", [{"error_id": 37, "warning": "PCIe replays"}], "PCIe: PCIe replays (error 37)"),
        (FOUR, "memory", [{"error_id": 1, "error_category": 3, "error_severity": 2, "warning": "ECC"}], "memory: ECC (error 1)"),
        (FOUR, "pcie", None, "pcie"),
    ],
)  # fmt: skip
def test_a_failure_is_the_gpus_that_has_it(
    output: str, name: str, warnings: object, told: str
) -> None:
    found = verdicts(result(output, name, status="Fail", warnings=warnings))
    assert (found[GPUS[0]].status, found[GPUS[1]].status) == (Status.PASS, Status.FAIL)
    assert found[GPUS[1]].cause == told


def test_a_failure_of_all_gpus_at_once_is_the_hosts() -> None:
    found = verdicts(result(THREE, "Inforom", 0, status="FAIL", warnings="InfoROM corrupt"))
    assert (found["gpu-1"].status, found["gpu-1"].cause) == (
        Status.FAIL,
        "Inforom: InfoROM corrupt",
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Skip", Status.NOT_ASSESSED),
        ("Warn", Status.WARN),
        ("Not Run", Status.NOT_ASSESSED),
        ("Probably", Status.NOT_ASSESSED),
        ("", Status.NOT_ASSESSED),
    ],
)
@pytest.mark.parametrize(
    ("output", "name"), [(THREE, "Memory Bandwidth"), (FOUR, "memory_bandwidth")]
)
def test_what_is_no_pass_is_none(output: str, name: str, status: str, expected: Status) -> None:
    assert verdicts(result(output, name, status=status))[GPUS[1]].status is expected


def test_a_test_that_is_missing_leaves_the_gpu_open() -> None:
    found = verdicts(changed(FOUR, lambda d: entry(d, "pcie")["results"].pop()))
    assert (found[GPUS[0]].status, found[GPUS[1]].status) == (Status.PASS, Status.NOT_ASSESSED)
    assert found[GPUS[1]].cause == "DCGM has no result for it from pcie"


def test_a_lower_level_does_not_pass_for_a_higher_one() -> None:
    found = verdicts(FOUR, level=4)
    assert {found[gpu].cause for gpu in GPUS} == {
        "DCGM has no result for it from memtest, pulse_test"
    }


def test_a_gpu_that_dcgm_did_not_speak_of_is_not_good() -> None:
    found = verdicts(FOUR, gpus=3)["gpu-1/GPU 2"]
    assert (found.status, found.cause) == (Status.NOT_ASSESSED, "DCGM did not report it")


@pytest.mark.parametrize("level", [1, 3])
def test_a_gpu_that_no_list_names_is_not_good(level: int) -> None:
    found = verdicts(THREE, gpus=3, level=level)["gpu-1/GPU 2"]
    assert (found.status, found.cause) == (Status.NOT_ASSESSED, "DCGM did not report it")


@pytest.mark.parametrize("named", [None, "", "all", "0;1", "-1", "1.0", "99999"])
def test_a_verdict_that_names_no_gpu_is_no_gpus(named: str | None) -> None:
    text = '{"DCGM GPU Diagnostic": {"test_categories": [{"tests": [{"name": "Inforom", "results": [%s]}]}]}}'
    row = json.dumps({"gpu_ids": named, "status": "PASS"})
    found = verdicts(text % row, level=1)
    assert {found[gpu].status for gpu in GPUS} == {Status.NOT_ASSESSED}


def test_a_processors_pass_is_no_gpus() -> None:
    row = '{"entity_group": "CPU", "entity_id": 0, "status": "Pass"}'
    text = '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "software", "results": [%s], "test_summary": {"status": "Pass"}}]}]}}'
    assert {verdicts(text % rows, level=1)[GPUS[0]].status for rows in (row, "")} == {
        Status.NOT_ASSESSED
    }


def test_a_bad_exit_code_without_a_failure_is_an_error() -> None:
    assert verdicts(FOUR, code=226)["gpu-1/diagnostic"].status is Status.ERROR


def test_a_host_without_dcgm_is_not_assessed() -> None:
    said = HostOutput(trouble=Trouble.NO_TOOL, cause="dcgmi is not there", fix="install it")
    (found,) = judge("gpu-1", said, 2, 3)
    assert (found.status, found.fix) == (Status.NOT_ASSESSED, "install it")


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "no output"),
        ("Error: unable to establish a connection to the specified host: localhost", "no JSON"),
        (FOUR[:500], "not JSON"),
        ('{"DCGM GPU Diagnostic": {"version": "4.2.3"}}', "no test"),
        ('{"DCGM Diagnostic": {"test_categories": []}}', "no test"),
        ('{"DCGM Diagnostic": {"runtime_error": "GPU is in use", "test_categories": []}}', "GPU is in use"),
        ('{"other": {}}', "neither DCGM Diagnostic"),
        ('{"DCGM Diagnostic": {"test_categories": [{"category": "x", "tests": "all good"}]}}', "tests"),
    ],
)  # fmt: skip
def test_what_is_no_report_is_an_error(output: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        read(output)
    (found,) = judge("gpu-1", HostOutput(output), 2, 3)
    assert found.status is Status.ERROR


@settings(max_examples=60)
@given(st.sampled_from([THREE, FOUR]), st.data())
def test_no_doctored_report_turns_into_a_pass_of_what_it_lacks(
    output: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(output)))
    cut = output[:at] + data.draw(st.text(max_size=3))
    with suppress(Unread):
        found = read(cut)
        assert isinstance(found, Report)
        assert all(isinstance(v.word, Word) for v in found.verdicts)


class OneHost(Batches):
    """A control host whose srun prints one report."""

    def step(self, argv: Sequence[str]) -> Completed:
        self.level = argv[-1]
        return Completed(tuple(argv), 0, labelled(answer("gpu-1", FOUR)), "")


@pytest.mark.parametrize(
    ("given", "asked", "run_at", "status"),
    [
        (0, None, "2", Status.PASS),
        (0, 3, "3", Status.PASS),
        (2, 3, "2", Status.NOT_ASSESSED),
        (3, 2, "3", Status.PASS),
    ],
)
def test_a_pass_below_the_level_that_is_asked_for_is_none(
    given: int, asked: int | None, run_at: str, status: Status
) -> None:
    limits = {CHECK: Limit(value=asked, unit="level", source="profile")} if asked else {}
    remote = OneHost()
    outcome = run(View(profile_of(gpu={"count": 2}), site(limits), {}), remote, level=given)
    assert remote.level == run_at
    assert {r.status for r in outcome.results} == {status}
    assert [raw.name for raw in outcome.raw] == [f"level{run_at}-gpu-1.json"]


def site(limits: dict[str, Limit]) -> Site:
    return site_of("head", "gpu-1", limits=limits)


def only(output: str, *categories: str) -> str:
    """The document with these categories alone."""

    def kept(document: dict[str, Any]) -> None:
        (root,) = (value for key, value in document.items() if key.endswith("Diagnostic"))
        root["test_categories"] = [
            c for c in root["test_categories"] if c["category"] in categories
        ]

    return changed(output, kept)


@pytest.mark.parametrize("output", [THREE, FOUR])
def test_at_level_1_what_names_a_gpu_is_enough(output: str) -> None:
    found = verdicts(only(output, "Deployment"), level=1)
    assert [found[gpu].status for gpu in GPUS] == [Status.PASS, Status.PASS]
    assert found[GPUS[0]].unit == "tests"


def test_a_host_has_no_verdict_of_its_own_where_all_are_of_gpus() -> None:
    assert set(verdicts(FOUR)) == set(GPUS)


def test_a_test_that_says_nothing_is_none() -> None:
    said = changed(FOUR, lambda d: entry(d, "software").update(results=[], test_summary=None))
    assert {verdicts(said)[gpu].status for gpu in GPUS} == {Status.PASS}


def test_a_failure_is_one_also_where_other_tests_are_missing() -> None:
    failing = result(FOUR, "memory", status="Fail")
    said = changed(failing, lambda d: entry(d, "pcie")["results"].pop())
    assert verdicts(said)[GPUS[1]].status is Status.FAIL


def test_gpus_on_which_nothing_ran_are_not_good() -> None:
    rows = [{"entity_group": "GPU", "entity_id": n, "status": "Skip"} for n in range(2)]
    tests = [{"name": "nvbandwidth", "results": rows}]
    text = json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": tests}]}})
    assert {verdicts(text, level=1)[gpu].status for gpu in GPUS} == {Status.NOT_ASSESSED}


def test_a_bad_exit_code_beside_a_failure_says_nothing_more() -> None:
    assert "gpu-1/diagnostic" not in verdicts(result(FOUR, "memory", status="Fail"), code=226)
    assert "gpu-1/diagnostic" in verdicts(FOUR, code=226)
    assert "gpu-1/diagnostic" not in verdicts(FOUR)


def test_a_failure_at_a_lower_level_stays_one() -> None:
    class Failing(OneHost):
        def step(self, argv: Sequence[str]) -> Completed:
            done = super().step(argv)
            bad = json.dumps(json.loads(result(FOUR, "memory", status="Fail")))
            return Completed(done.argv, 0, labelled(answer("gpu-1", bad)), "")

    limits = {CHECK: Limit(value=3, unit="level", source="profile")}
    outcome = run(View(profile_of(gpu={"count": 2}), site(limits), {}), Failing(), level=2)
    assert {r.target: r.status for r in outcome.results} == {
        GPUS[0]: Status.NOT_ASSESSED,
        GPUS[1]: Status.FAIL,
    }
    (table,) = outcome.tables
    assert dict(zip(table.columns, table.rows[0], strict=True))["memory"] == "fail"


def test_without_a_gpu_host_nothing_is_run() -> None:
    view = View(profile_of(gpu={"count": 2}), site_of("head"), {})
    (only_one,) = run(view, OneHost()).results
    assert (only_one.status, only_one.cause) == (Status.NOT_ASSESSED, "the site has no GPU host")


TOO_LITTLE = {"warning": "Couldn't allocate at least 75% of memory", "error_id": 36}


def test_a_pass_with_a_warning_beside_it_is_a_warning_with_its_words() -> None:
    told = verdicts(result(FOUR, "memory", warnings=[TOO_LITTLE]))
    assert (told["gpu-1/GPU 1"].status, told["gpu-1/GPU 0"].status) == (Status.WARN, Status.PASS)
    assert "error 36" in told["gpu-1/GPU 1"].cause


def test_a_pass_with_information_beside_it_is_a_pass() -> None:
    told = verdicts(result(FOUR, "memory", info=["GPU 1 allocated 80 GB"]))
    assert told["gpu-1/GPU 1"].status is Status.PASS


def test_a_warning_that_stands_in_the_summary_alone_is_told_of_the_host() -> None:
    told = verdicts(
        changed(FOUR, lambda d: entry(d, "memory")["test_summary"].update(warnings=[TOO_LITTLE]))
    )
    assert told["gpu-1"].status is Status.WARN
