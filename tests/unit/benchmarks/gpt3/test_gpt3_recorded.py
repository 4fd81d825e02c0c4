"""Recorded logs of the twelve published cells give the published figures; other folders say what is wrong."""

import os
import re
import shutil
from pathlib import Path

import pytest

from appliance.benchmarks.gpt3 import logs
from appliance.benchmarks.gpt3.described import Hardware, Recorded
from appliance.benchmarks.gpt3.judge import SCALING
from appliance.benchmarks.gpt3.recorded import from_logs, recording, run_of, runs_of
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.steps import UnusableLog
from appliance.benchmarks.gpt3.throughput import Run, cut
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_profile
from appliance.errors import ConfigError
from appliance.models.result import CheckResult, Measurement, Status, Verdict, overall
from tests.support.gpt3_logs import (
    DATA,
    WRITERS,
    bridge,
    files,
    megatron,
    step_times,
)

REFERENCE = load()
EXACT = ("tensorboard", "megatron events", "dllogger")
"""NeMo's event files and Megatron-LM's, and the JSON lines of NeMo's DLLogger."""
A100 = load_profile("hpc").hardware.gpu


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(DATA, tmp_path / "logs")
    return tmp_path / "logs"


def test_the_logs_in_the_tree_are_those_the_generator_writes() -> None:
    for path, content in files(REFERENCE).items():
        assert (DATA / path).read_bytes() == content, path


@pytest.mark.parametrize("kind", WRITERS)
def test_all_twelve_cells_are_what_each_family_of_logs_can_show(kind: str, tmp_path: Path) -> None:
    """The published rate lies in what the digits leave open; where they decide, it is the published one."""
    for path, content in files(REFERENCE, kind).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    found = {(r.model, r.platform, r.nodes): r.rates for r in runs_of(tmp_path)}
    cells = REFERENCE.appliance.cells
    assert len(found) == len(cells) == 12
    to_the_digit = 0
    for cell in cells:
        low, high = found[cell.model, cell.platform, cell.nodes]
        assert cut(low) <= cell.tokens_per_s <= cut(high), cell
        to_the_digit += cut(low) == cut(high)
    assert to_the_digit == (12 if kind in EXACT else {"megatron": 4}.get(kind, 0))


@pytest.mark.parametrize("kind", EXACT)
def test_what_keeps_all_digits_gives_the_papers_tables_to_the_digit(
    kind: str, tmp_path: Path
) -> None:
    """Save the cells that the papers misprint."""
    for path, content in files(REFERENCE, kind).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    _, _, made = from_logs([tmp_path])
    small, large = ({row[0]: row[1:] for row in table.rows} for table in made[:2])
    assert small["Bare metal: tokens/s"] == ("919,803", "1,747,626", "3,236,345")
    assert small["Kubernetes: tokens/s"] == ("892,208", "1,724,417", "3,568,835")
    assert small["Difference"] == ("3.00 %", "1.33 %", "-10.27 %")
    assert large["Bare metal: tokens/s"] == ("48,941", "97,541", "185,090")
    assert large["Kubernetes: tokens/s"] == ("48,131", "95,545", "182,791")
    assert large["Difference"] == ("1.65 %", "2.05 %", "1.24 %")
    factors = [row[1:] for table in made[:2] for row in table.rows if "factor" in str(row[0])]
    assert factors == [
        ("1 / 1", "1.90 / 2", "3.51 / 4"),
        ("1 / 1", "1.93 / 2", "4.00 / 4"),
        ("1 / 1", "1.99 / 2", "3.78 / 4"),
        ("1 / 1", "1.98 / 2", "3.79 / 4"),
    ]


def test_every_word_of_a_result_prints_the_papers_digits() -> None:
    """Rates and factors are cut in sentences and headlines, too: 48,941.6 is no 48,942."""
    results, measured, _ = from_logs([DATA])
    scaling = next(r for r in results if r.id == SCALING and "5b bare-metal 4n" in r.target)
    assert scaling.evidence == "185,090 on 4 nodes, 48,941 on one; perfect is 4"
    kubernetes = next(r for r in results if r.id == SCALING and "5b kubernetes 4n" in r.target)
    assert kubernetes.limit_source.startswith("3.79 less 5 %")
    assert {m.value for m in measured} >= {48_941, 3_236_345, 919_803}


def test_eleven_cells_gate_and_pass_and_the_doubtful_one_does_not() -> None:
    results, _, _ = from_logs([DATA])
    throughput = [r for r in results if r.id == "gpt3.throughput"]
    assert [r.status for r in throughput].count(Status.PASS) == 11
    doubtful = [r for r in throughput if r.status is not Status.PASS]
    assert [r.target for r in doubtful] == ["cluster/126m kubernetes 4n"]
    assert not doubtful[0].required


def test_tables_have_the_papers_shape_and_figures() -> None:
    _, _, tables = from_logs([DATA])
    five = next(t for t in tables if t.title.startswith("GPT-3 5B"))
    assert five.columns == ("", "1 node / 8 GPUs", "2 nodes / 16 GPUs", "4 nodes / 32 GPUs")
    rows = {row[0]: row[1:] for row in five.rows}
    assert rows["Bare metal: tokens/s"] == ("48,941 ± 29", "97,541 ± 12", "185,090 ± 1")
    assert rows["Kubernetes: tokens/s"] == ("48,131", "95,545", "182,758 ± 40")
    assert five.plot is not None
    assert {series.kind for series in five.plot.series} == {"measured", "ideal", "reference"}


def test_headline_figures_carry_their_reference_except_the_doubtful_cell() -> None:
    _, measured, _ = from_logs([DATA])
    bare = [m for m in measured if "reference" not in m.detail]
    assert [(m.detail["model"], m.detail["nodes"]) for m in bare] == [("126m", 4)]


@pytest.mark.parametrize(
    ("said", "sizes"), [("gpus_per_node: 4", 2048), ("gpus_per_node: 8", 1024)]
)
def test_no_published_figure_stands_beside_a_run_of_other_gpus_or_batch(
    folder: Path, said: str, sizes: int
) -> None:
    text = (folder / "runs.yml").read_text()
    (folder / "runs.yml").write_text(text.replace("gpus_per_node: 8", said))
    (folder / "5b/bare-metal/4n.log").write_bytes(megatron(step_times(22.66), sizes))
    _, measured, tables = from_logs([folder])
    (run,) = [m for m in measured if m.detail["model"] == "5b" and _is_bare_4n(m)]
    assert "reference" not in run.detail
    against = next(t for t in tables if "compared with published" in t.title)
    (row,) = [r for r in against.rows if r[0] == "5B bare-metal 4n"]
    assert row[2:] == ("-", "-", "-", "-", "no")


def _is_bare_4n(measured: Measurement) -> bool:
    return (measured.detail["platform"], measured.detail["nodes"]) == ("bare-metal", 4)


def test_a_slow_cluster_fails(folder: Path) -> None:
    slow = megatron(step_times(22.66 * 1.07), 2048)
    (folder / "5b/bare-metal/4n.log").write_bytes(slow)
    failing = failures(from_logs([folder])[0])
    assert failing == {
        ("gpt3.throughput", "cluster/5b bare-metal 4n"),
        ("gpt3.scaling", "cluster/5b bare-metal 4n"),
    }


def test_a_log_without_step_times_is_a_required_result_without_a_verdict(folder: Path) -> None:
    (folder / "5b/bare-metal/4n.log").write_text("nothing\n")
    results, measured, _ = from_logs([folder])
    lost = next(r for r in results if r.target == "cluster/5b bare-metal 4n")
    assert (lost.status, lost.required) == (Status.NOT_ASSESSED, True)
    assert len(measured) == 11


@pytest.mark.parametrize("log", ["pipe", "/dev/zero", "/dev/tty", "5b", "nowhere"])
def test_what_is_no_file_is_no_log_and_is_not_waited_for(folder: Path, log: str) -> None:
    os.mkfifo(folder / "pipe")
    said = f"{{log: {log}, model: 5b, platform: bare-metal, nodes: 4}}"
    (folder / "runs.yml").write_text(f"gpu: A100-SXM4-80GB\nruns: [{said}]\n")
    results = from_logs([folder])[0]
    found = next(r for r in results if r.status is Status.NOT_ASSESSED)
    assert found.cause.startswith(f"{folder / log}: ")


@pytest.mark.parametrize("kind", ["pipe", "device", "dangling"])
def test_what_lies_in_a_cell_and_is_no_file_is_named(folder: Path, kind: str) -> None:
    log = folder / "5b/bare-metal/1n-again.log"
    if kind == "pipe":
        os.mkfifo(log)
    else:
        log.symlink_to("/dev/zero" if kind == "device" else "nowhere")
    found = [r for r in from_logs([folder])[0] if r.status is Status.NOT_ASSESSED and r.required]
    assert [r.cause.startswith(f"{log}: ") for r in found] == [True]


def test_without_a_gpu_named_nothing_is_gated(folder: Path) -> None:
    (folder / "runs.yml").unlink()
    assert not [r for r in from_logs([folder])[0] if r.status is Status.PASS]
    hardware = Hardware("site acme", A100, gpu="NVIDIA A100-SXM4-80GB")
    named = from_logs([folder], hardware=hardware)[0]
    assert [r for r in named if r.status is Status.PASS]
    assert all(
        "as in site acme" in r.evidence
        for r in named
        if r.status is Status.PASS and r.id == "gpt3.throughput"
    )


def test_repeats_of_a_cell_are_averaged_and_both_named(folder: Path) -> None:
    first = folder / "5b/bare-metal/4n.log"
    first.with_name("4n-again.log").write_bytes(megatron(step_times(22.66 * 1.02), 2048))
    results, measured, _ = from_logs([folder])
    assert len(measured) == 12
    merged = next(r for r in results if r.target == "cluster/5b bare-metal 4n")
    assert "mean of 2 runs, 2.0 % apart" in merged.evidence
    assert "4n-again.log" in merged.evidence


def test_runs_yml_may_describe_logs_that_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(megatron(step_times(10), 512))
    (tmp_path / "runs.yml").write_text(
        "version: 1\nruns:\n  - {log: a.txt, model: 5B, platform: bare-metal, nodes: 1, sequence: 1024}\n"
    )
    _, measured, _ = from_logs([tmp_path])
    assert measured[0].value == pytest.approx(512 * 1024 / 10, rel=1e-3)


def test_a_batch_that_contradicts_the_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(megatron(step_times(10), 512))
    (tmp_path / "runs.yml").write_text(
        "runs:\n  - {log: a.txt, model: 5b, platform: bare-metal, nodes: 1, global_batch: 2048}\n"
    )
    result = from_logs([tmp_path])[0][0]
    assert result.status is Status.NOT_ASSESSED
    assert "the log has global batch 512, but runs.yml has 2048" in result.cause


def test_a_wrong_runs_yml_names_file_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "runs.yml").write_text(
        "version: 1\nruns:\n  - {log: a, model: 5b, platform: cloud, nodes: 1}\n"
    )
    with pytest.raises(InvalidConfig, match=r"(?s)runs\.yml.*:3.*platform"):
        from_logs([tmp_path])


def test_an_empty_folder_says_how_to_lay_logs_out(tmp_path: Path) -> None:
    with pytest.raises(UnusableLog, match="no training logs found") as caught:
        from_logs([tmp_path])
    assert "NODESn" in caught.value.hint


def failures(results: list[CheckResult]) -> set[tuple[str, str]]:
    return {(r.id, r.target) for r in results if r.status is Status.FAIL}


@pytest.mark.parametrize(
    ("said", "instead", "names"),
    [
        ("gpu: A100-SXM4-80GB", "gpu: A100-SXM4-80", 'did you mean "A100-SXM4-80GB"'),
        ("gpu: A100-SXM4-80GB", "gpu: Voodoo2", "GPUs: A100-SXM4-80GB"),
        ("gpu: A100-SXM4-80GB", "gpu: A100-PCIe-80GB", "is no GPU of profile hpc"),
        ("gpus_per_node: 8", "gpus_per_node: 4", "profile hpc has 8"),
        ("gpus_per_node: 8", "rule: best", "window:FIRST-LAST"),
    ],
)
def test_words_no_table_knows_or_the_profile_contradicts_are_input(
    folder: Path, said: str, instead: str, names: str
) -> None:
    text = (folder / "runs.yml").read_text()
    (folder / "runs.yml").write_text(text.replace(said, instead))
    with pytest.raises(InvalidConfig) as caught:
        from_logs([folder], hardware=Hardware("profile hpc", A100))
    assert names in caught.value.message


@pytest.mark.parametrize("name", ["a100-sxm4-80gb", "nvidia a100-sxm4-80gb"])
def test_a_gpu_is_known_whatever_the_case(folder: Path, name: str) -> None:
    text = (folder / "runs.yml").read_text()
    (folder / "runs.yml").write_text(text.replace("A100-SXM4-80GB", name))
    (folder / "5b/bare-metal/4n.log").write_bytes(megatron(step_times(22.66 * 3.5), 2048))
    assert failures(from_logs([folder], hardware=Hardware("profile hpc", A100))[0])


def test_a_folder_named_like_no_model_is_input_and_one_in_capitals_is_the_model(
    folder: Path,
) -> None:
    (folder / "5b").rename(folder / "5B")
    assert {m.detail["model"] for m in from_logs([folder])[1]} == {"5b", "126m"}
    (folder / "5B").rename(folder / "6b")
    with pytest.raises(ConfigError, match="no model is called"):
        from_logs([folder])


def test_a_run_on_no_host_is_input(folder: Path) -> None:
    (folder / "5b/bare-metal/0n.log").write_bytes(megatron(step_times(22.66), 2048))
    with pytest.raises(ConfigError, match="0 hosts"):
        from_logs([folder])


def test_nothing_judged_is_incomplete(folder: Path) -> None:
    (folder / "runs.yml").write_text("gpu: H100-SXM5-80GB\n")
    results = from_logs([folder])[0]
    assert not [r for r in results if r.status is not Status.NOT_ASSESSED]
    assert overall(results) is Verdict.INCOMPLETE


ARGUMENTS = (
    "------ arguments ------\n  seq_length ...................................... {sequence}\n"
)
WORLD = "using world size: {world}, data-parallel size: 4\n"


def _with_head(folder: Path, head: str, seconds: float = 85.7) -> CheckResult:
    log = folder / "5b/bare-metal/1n.log"
    log.write_bytes(head.encode() + megatron(step_times(seconds), 2048))
    results, _, _ = from_logs([folder])
    return next(r for r in results if r.target == "cluster/5b bare-metal 1n")


def test_what_is_assumed_is_named_and_what_the_log_prints_is_not(folder: Path) -> None:
    bare = _with_head(folder, "")
    assert bare.status is Status.PASS
    assert (
        "sequence length not in the log: assumed the published value of the model, 2048"
        in bare.evidence
    )
    assert "number of GPUs not in the log: assumed 1 x 8" in bare.evidence
    said = _with_head(folder, ARGUMENTS.format(sequence=2048) + WORLD.format(world=8))
    assert said.status is Status.PASS
    assert not re.search(r"assumed(;|$)", said.evidence)


@pytest.mark.parametrize("sequence", [1024, 1536, 4096])
def test_a_sequence_of_the_log_counts_and_is_judged_against_no_other(
    folder: Path, sequence: int
) -> None:
    result = _with_head(folder, ARGUMENTS.format(sequence=sequence), seconds=170)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.value == pytest.approx(2048 * sequence / 170, rel=1e-3)
    assert f"sequence {sequence}; published with 2048 and 2048" in result.cause


def test_a_world_that_contradicts_the_hosts_is_no_pass(folder: Path) -> None:
    result = _with_head(folder, WORLD.format(world=16))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert "ran on 16 GPUs, and 1 x 8 are 8" in result.cause


def test_a_log_of_the_future_is_no_evidence(folder: Path) -> None:
    result = _with_head(folder, "[NeMo I 2999-01-01 00:00:00 trainer:1] starting\n")
    assert result.status is Status.NOT_ASSESSED
    assert "in the future" in result.cause


SOUND = megatron(step_times(85.7), 2048)


def _run(folder: Path, log: bytes, hardware: Hardware | None = None, **said: object) -> Run:
    """A log of the 5B model on one host, of which runs.yml says no more than this."""
    file = folder / "a.log"
    file.write_bytes(log)
    known = {"log": "a.log", "model": "5b", "platform": "bare-metal", "nodes": 1, **said}
    return run_of(logs.read(file), Recorded.model_validate(known), REFERENCE, hardware)


def test_a_model_that_no_log_is_of_is_input(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no log of model 7b") as caught:
        recording(folder, model="7b")
    assert caught.value.hint == "models there: 126m, 5b"
    assert {file.part for file in recording(folder, model="5b").files} == {"5b"}


def test_what_nobody_says_of_a_run_is_the_common_rule_and_eight_gpus(tmp_path: Path) -> None:
    run = _run(tmp_path, SOUND)
    assert run.rule.startswith("default:")
    assert (run.gpus_per_node, run.gpu) == (8, None)
    assert "" not in run.notes


def test_a_gpu_is_assumed_only_where_nobody_names_one(tmp_path: Path) -> None:
    def told(theirs: str | None, **said: object) -> tuple[str | None, list[str]]:
        run = _run(tmp_path, SOUND, Hardware("site acme", A100, gpu=theirs), **said)
        return run.gpu, [note for note in run.notes if note.startswith("no GPU in runs.yml")]

    assumed = "no GPU in runs.yml: assumed {}, as in site acme"
    own = "NVIDIA A100-SXM4-80GB"
    assert told(own) == ("A100-SXM4-80GB", [assumed.format(own)])
    assert told(own, gpu="A100-SXM4-80GB") == ("A100-SXM4-80GB", [])
    assert told(None) == (None, [])
    assert told("NVIDIA Voodoo2") == ("NVIDIA Voodoo2", [assumed.format("NVIDIA Voodoo2")])


def test_a_folder_names_the_gpus_that_its_runs_name_and_none_else(folder: Path) -> None:
    assert recording(folder).gpus == {"A100-SXM4-80GB"}
    (folder / "runs.yml").unlink()
    assert recording(folder).gpus == frozenset()


def test_a_batch_that_the_configuration_alone_prints_counts(tmp_path: Path) -> None:
    head = b"  global_batch_size ............................... 1024\n"
    run = _run(tmp_path, head + bridge(step_times(42.85), 0))
    assert run.global_batch == 1024
    assert not [note for note in run.notes if "batch" in note]


def test_of_several_sequences_runs_yml_says_which(tmp_path: Path) -> None:
    head = "".join(ARGUMENTS.format(sequence=length) for length in (1024, 2048)).encode()
    with pytest.raises(UnusableLog, match="several values of sequence length: 1024, 2048") as why:
        _run(tmp_path, head + SOUND)
    assert why.value.hint.endswith("as sequence: 2048")
    assert _run(tmp_path, head + SOUND, sequence=2048).sequence == 2048


def test_a_value_that_was_refused_is_told_with_its_line(tmp_path: Path) -> None:
    *_, last = SOUND.decode().splitlines()
    odd = last.replace("iteration       20/", "iteration       21/")
    odd = re.sub(r"iteration \(ms\): [\d.]+", "iteration (ms): 0.0", odd)
    run = _run(tmp_path, SOUND + odd.encode() + b"\n")
    (note,) = [note for note in run.notes if "refused" in note]
    assert note.startswith("1 value refused (first: line 21, ")
    assert not [note for note in _run(tmp_path, SOUND).notes if "refused" in note]


def test_of_repeats_the_widest_spread_and_every_divergence_are_kept(tmp_path: Path) -> None:
    wide = [85.7 * (1 + 0.05 * (i % 3 - 1)) for i in range(20)]
    count = iter(range(2, 100))
    wild = re.sub(
        r"lm loss: \S+", lambda _: f"lm loss: {next(count):.6E}", megatron(wide, 2048).decode()
    )
    alone = [_run(tmp_path, text) for text in (SOUND, wild.encode())]
    cell = tmp_path / "5b" / "bare-metal"
    cell.mkdir(parents=True)
    (cell / "1n-a.log").write_bytes(SOUND)
    (one,) = runs_of(tmp_path)
    assert not [note for note in one.notes if note.startswith("mean of")]
    (cell / "1n-b.log").write_text(wild)
    (merged,) = runs_of(tmp_path)
    assert merged.deviation == alone[1].deviation > alone[0].deviation
    assert merged.diverged == alone[1].diverged != ""
    assert merged.notes[0].startswith("mean of 2 runs")
