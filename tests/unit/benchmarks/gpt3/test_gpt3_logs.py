"""Step times out of every family of logs, and the traps each of them sets."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.benchmarks.gpt3 import bulk, lines, logs, steps
from appliance.benchmarks.gpt3.steps import Log, Steps, UnusableLog, select

BAR = "Epoch 0:   1%|\u258f    | {n}/600 [00:10<9:59, 1.2s/it, loss=3.1, v_num=, reduced_train_loss={loss}, global_step=9e+3, train_step_timing in s={t}, val_loss=7.040]"
LINE2 = "Training epoch 0, iteration {n}/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: {b} | global_step: {n} | reduced_train_loss: 1.233 | train_step_timing in s: {t}"
MEGATRON = " [2026-08-22 10:00:00] iteration {n:8d}/     100 | consumed samples:         2048 | elapsed time per iteration (ms): {t} | learning rate: 1.6E-05 | global batch size: {b:>5} | lm loss: {loss} | grad norm: {norm} | number of skipped iterations:   0 | number of nan iterations:   {nan} |"


def bars(*values: str, first: int = 1, loss: str = "3.090") -> str:
    return (
        "".join("\r" + BAR.format(n=first + i, t=v, loss=loss) for i, v in enumerate(values)) + "\n"
    )


def lines2(*values: str, batch: str = "2048") -> str:
    return "".join(LINE2.format(n=i, t=v, b=batch) + "\n" for i, v in enumerate(values))


def megatron(
    *values: str, loss: str = "7.9E+00", norm: str = "1.0", nan: int = 0, batch: str = "2048"
) -> str:
    shared = {"loss": loss, "norm": norm, "nan": nan, "b": batch}
    return "".join(MEGATRON.format(n=i, t=v, **shared) + "\n" for i, v in enumerate(values, 1))


def seconds(log: Log) -> list[float]:
    return [step.seconds for step in log.steps]


def test_progress_bar_gives_one_value_per_step_with_its_number() -> None:
    log = logs.parse(bars("0.615", "0.570"), "x")
    assert (log.family, seconds(log)) == ("NeMo 1.21-1.23", [0.615, 0.57])
    assert [step.number for step in log.steps] == [1, 2]
    assert log.global_batch is None
    assert "running mean of 5" in log.notes[0]


def test_bar_redrawn_for_the_same_step_counts_once_with_its_last_value() -> None:
    text = bars("9.000") + bars("0.570")
    assert seconds(logs.parse(text, "x")) == [0.57]


def test_values_between_carriage_returns_stand_on_one_line_of_the_file() -> None:
    log = logs.parse("start\n" + bars("0.6", "0.7") + bars("0.8", first=3), "x")
    assert [step.line for step in log.steps] == [2, 2, 3]


def test_exponents_are_read_whole() -> None:
    """A reader that takes digits and dots alone makes 1.2 of 1.2e+01."""
    assert seconds(logs.parse(bars("1.2e+01"), "x")) == [12.0]
    assert seconds(logs.parse(lines2("1.2e+01"), "x")) == [12.0]
    assert seconds(logs.parse(megatron("1.2E+04"), "x")) == [12.0]
    assert seconds(
        logs.parse("Step Time : 1.2e+01s GPU utilization: 4MODEL_TFLOP/s/GPU\n", "x")
    ) == [12.0]


@pytest.mark.parametrize(
    "value", ["nan", "nan.0", "inf", "-inf", "inf.0", "0.0", "-1.5", "12..3", "1.2e+"]
)
def test_values_that_are_no_time_are_refused_with_their_line(value: str) -> None:
    log = logs.parse(bars(value, "0.570"), "x")
    assert seconds(log) == [0.57]
    assert [refusal.line for refusal in log.refused.first] == [1]
    assert value.split("e")[0] in log.refused.first[0].reason
    assert not log.refused.first[0].diverged


def test_old_nemo_without_step_time_is_named_and_its_s_per_it_not_trusted() -> None:
    text = "\rEpoch 0: 1%|..| 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]\n"
    with pytest.raises(UnusableLog, match=r"before 1\.21 prints no step time") as caught:
        logs.parse(text, "old.log")
    assert "events.out.tfevents" in caught.value.hint


def test_nemo_2_counts_from_zero_and_prints_its_batch() -> None:
    log = logs.parse(lines2("0.031", "0.03146"), "x")
    assert (log.family, log.global_batch) == ("NeMo 2.x", 2048)
    assert [step.number for step in log.steps] == [1, 2]


def test_batch_in_exponent_notation_is_a_whole_number() -> None:
    assert logs.parse(lines2("0.031", batch="2.048e+03"), "x").global_batch == 2048


def test_last_line_without_an_end_is_cut_off_where_the_value_stands_last() -> None:
    log = logs.parse(lines2("0.0311", "0.0314").rstrip("\n")[:-2], "x")
    assert seconds(log) == [0.0311]
    assert "cut off" in log.refused.first[0].reason


def test_a_bar_cut_inside_its_value_is_refused() -> None:
    whole = bars("0.570", "0.615")
    log = logs.parse(whole[: whole.rindex("0.615") + 3], "x")
    assert seconds(log) == [0.57]
    assert "cut off" in log.refused.first[0].reason


def test_megatron_milliseconds_become_seconds() -> None:
    log = logs.parse(megatron("85701.2"), "x")
    assert (log.family, log.global_batch) == ("Megatron-LM", 2048)
    assert seconds(log) == pytest.approx([85.7012])
    assert log.steps[0].loss == 7.9


def test_prefixes_of_srun_and_torchrun_and_colours_do_not_matter() -> None:
    text = "".join(
        f"\x1b[32m3: [default0]:{line}\x1b[0m\n" for line in megatron("100.0").splitlines()
    )
    assert seconds(logs.parse(text, "x")) == pytest.approx([0.1])


@pytest.mark.parametrize(
    "text",
    [
        megatron("100.0", loss="nan"),
        megatron("100.0", nan=3),
        megatron("100.0", norm="nan"),
        bars("0.5", loss="nan.0"),
    ],
)
def test_a_diverged_step_is_refused_as_diverged(text: str) -> None:
    log = logs.parse(
        text + megatron("100.0", "101.0") if "elapsed" in text else text + bars("0.5", first=2), "x"
    )
    assert log.refused.first[0].diverged


def test_a_run_that_began_again_counts_from_there() -> None:
    log = logs.parse(megatron("900.0", "901.0", "902.0") + megatron("100.0", "101.0"), "x")
    assert seconds(log) == pytest.approx([0.1, 0.101])
    assert "restarted at line 4" in " ".join(log.notes)


def test_a_second_epoch_is_no_new_beginning() -> None:
    text = bars("0.5", "0.6") + bars("0.7").replace("Epoch 0", "Epoch 1")
    assert len(logs.parse(text, "x").steps) == 3


def test_a_changing_batch_is_refused() -> None:
    with pytest.raises(UnusableLog, match=r"global batch changes \(1024, 2048\)"):
        logs.parse(lines2("0.03", batch="1024") + LINE2.format(n=1, t="0.03", b="2048") + "\n", "x")


def test_bridge_step_times_are_read_and_its_tflops_lines_are_not() -> None:
    text = (
        "Step Time : 12.34s GPU utilization: 456.7MODEL_TFLOP/s/GPU\n"
        "GPU utilization: 9.9MODEL_TFLOP/s/GPU\n"
        "Step Time : 12.36s GPU utilization: 456.7MODEL_TFLOP/s/GPU\n"
        "Step Time : 12.3"
    )
    log = logs.parse(text, "x")
    assert (log.family, seconds(log)) == ("Megatron-Bridge", [12.34, 12.36])
    assert "cut off" in log.refused.first[0].reason


def test_megatron_lines_go_before_bridges_own() -> None:
    text = megatron("12340.0") + "Step Time : 12.34s GPU utilization: 456.7MODEL_TFLOP/s/GPU\n"
    log = logs.parse(text, "x")
    assert log.family == "Megatron-LM"
    assert "written by Megatron-Bridge" in log.notes[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no line in a supported training log format"),
        ("hello\nworld\n", "no line in a supported training log format"),
        (megatron("100.0").replace("elapsed time", "time"), "without a usable step time"),
        (lines2("nan"), "is nan"),
    ],
)
def test_a_log_without_step_times_says_why(text: str, said: str) -> None:
    with pytest.raises(UnusableLog, match=said):
        logs.parse(text, "x.log")


@pytest.mark.parametrize("batch", ["-2048", "0", "9" * 5000, "1e999"])
def test_a_batch_that_cannot_be_is_refused_and_no_traceback(batch: str) -> None:
    with pytest.raises(UnusableLog, match="global batch"):
        logs.parse(megatron("1000", "1000", batch=batch), "x")


@pytest.mark.parametrize("value", ["1e999", "9" * 5000, "1e308"])
def test_a_step_time_no_float_holds_is_refused(value: str) -> None:
    log = logs.parse(megatron("1000", value, "1000"), "x")
    assert seconds(log) in ([1.0, 1.0], [1.0, 1e305, 1.0])


def test_a_line_of_repeated_words_is_read_in_linear_time() -> None:
    """900 KB of it took hours when the work grew with the square of the line."""
    text = "Epoch 1: " * 100_000
    with pytest.raises(UnusableLog):
        logs.parse(text + "\n", "x")


@pytest.mark.parametrize(
    ("start", "kind"), [(b"\x1f\x8b\x08", "gzip"), (b"\xff\xfeE\x00", "UTF-16")]
)
def test_what_is_no_text_is_told_by_its_kind(tmp_path: Path, start: bytes, kind: str) -> None:
    (tmp_path / "1n.log").write_bytes(start)
    with pytest.raises(UnusableLog, match=kind):
        logs.read(tmp_path / "1n.log")


def test_a_line_without_an_end_is_read_to_a_bound() -> None:
    """What follows is skipped to the line's end, and a value the bound cuts is no value."""
    filler = "x" * lines.LONGEST
    log = logs.parse(lines2("0.5") + filler + lines2("0.9") + lines2("0.6", "0.7"), "x")
    assert seconds(log) == [0.6, 0.7]
    cut = lines2("0.5").rstrip("\n")
    log = logs.parse(lines2("0.4") + filler[len(cut) :] + cut + "9\n", "x")
    assert seconds(log) == [0.4]
    assert "cut off" in log.refused.first[0].reason


@pytest.mark.parametrize("size", [1, 7, 64])
def test_where_the_reading_stops_for_breath_changes_nothing(
    size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "start\r\n" + bars("0.6", "nan", "0.8") + "\x1b[32m" + megatron("100.0", "101.0")
    whole = logs.parse(text, "x")
    monkeypatch.setattr(lines, "CHUNK", size)
    monkeypatch.setattr(logs, "HEAD", 3 * size)
    (tmp_path / "1n.log").write_bytes(text.encode())
    parts = logs.read(tmp_path / "1n.log")
    assert list(parts.steps) == list(whole.steps)
    assert (parts.refused, parts.notes) == (whole.refused, whole.notes)


def test_of_a_diverged_run_the_first_refusals_are_kept_and_all_are_counted() -> None:
    text = megatron("1000", *["nan"] * 200, "1000") + megatron(*["1000"] * 300, loss="nan")
    refused = logs.parse(text, "x").refused
    assert refused.count == 500
    assert len(refused.first) == 101
    assert [r.diverged for r in refused.first].index(True) == 100


def _peak(file: Path) -> int:
    tracemalloc.start()
    try:
        logs.read(file)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_log_is_read_without_holding_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "HEAD", 1 << 18)
    redrawn = "".join(bars("0.5").rstrip("\n") for _ in range(1000))
    file = tmp_path / "1n.log"
    file.write_text(redrawn * 10)
    short = _peak(file)
    file.write_text(redrawn * 100)
    assert file.stat().st_size > 15_000_000
    assert _peak(file) < short * 1.2


WHOLE = " [2026-08-22 10:{m:02}:{s:02}] iteration {n:8d}/    1000 | consumed samples: {c:12d} | elapsed time per iteration (ms): {t} | throughput per GPU (TFLOP/s/GPU): 98.1 | learning rate: 1.600000E-05 | global batch size: {b:5d} | lm loss: {loss} | loss scale: 1.0 | grad norm: {norm} | number of skipped iterations: {skipped:3d} | number of nan iterations: {nan:3d} |\n"
WHOLE_2 = "Training epoch {e}, iteration {n}/999 | lr: 3e-05 | consumed_samples: {c} | global_batch_size: {b} | global_step: {n} | reduced_train_loss: {loss} | train_step_timing in s: {t}\n"


WHOLE_3 = 'DLLL {{"timestamp": "17959{n:05d}.5", "datetime": "2026-11-26 18:18:04.5", "elapsedtime": "{n}.5", "type": "LOG", "step": {n}, "data": {{"reduced_train_loss": {loss}, "lr": 3e-05, "global_step": {n}.0, "consumed_samples": {c}.0, "train_step_timing in s": {t}, "epoch": 0}}}}\n'
FORMS = {"megatron": WHOLE, "nemo": WHOLE_2, "dllogger": WHOLE_3}


def many(kind: str, first: int = 1, steps: int = 40, **odd: object) -> list[str]:
    """Lines as the three programs print them, the ``odd`` values in the twentieth."""
    made = []
    for i in range(first, first + steps):
        said: dict[str, object] = {
            **{"n": i, "c": i * 256, "b": 256, "m": i // 60, "s": i % 60, "e": 0},
            **{"loss": f"{9 - i / 100:.6E}", "norm": "1.234", "skipped": 0, "nan": 0},
            "t": f"{570 + i / 10:.1f}" if kind == "megatron" else f"{0.57 + i / 1000:.4g}",
        }
        if kind != "megatron":
            said["loss"] = f"{9 - i / 100:.4g}"
        made.append(FORMS[kind].format(**said | (odd if i == first + 20 else {})))
    return made


NOISE = ["[W socket.cpp] a word of a rank\n", "\n", "saving checkpoint at iteration 20\n"]
PLANTED: dict[str, list[str]] = {
    "nothing": many("megatron"),
    "noise between": [x for line in many("megatron") for x in (line, *NOISE)],
    "labels": [f"3: {line}" for line in many("megatron")],
    "carriage returns": [line.replace("\n", "\r\n") for line in many("megatron")],
    "nan iteration": many("megatron", nan=3),
    "skipped iteration": many("megatron", skipped=1),
    "loss nan": many("megatron", loss="nan"),
    "norm inf": many("megatron", norm="inf"),
    "no time": many("megatron", t="0.0"),
    "exponent": many("megatron", t="1.2E+03"),
    "two decimals": many("megatron", t="571.23"),
    "no batch": many("megatron", b=0),
    "no minute": many("megatron", m=61),
    "a gap": many("megatron", steps=10) + many("megatron", first=12),
    "back": many("megatron") + many("megatron", first=5),
    "late ranks": [
        x for pair in zip(many("megatron"), many("megatron"), strict=True) for x in pair
    ],
    "a start": [*many("megatron"), "using world size: 8\n", *many("megatron", first=41)],
    "another program": many("megatron", steps=10) + many("nemo"),
    "cut": [*many("megatron")[:-1], many("megatron")[-1][:150]],
    "every tenth": [line for i, line in enumerate(many("megatron")) if i % 10 == 9],
    "nemo": many("nemo"),
    "nemo noise": [x for line in many("nemo") for x in (line, *NOISE)],
    "nemo nan": many("nemo", t="nan"),
    "nemo loss": many("nemo", loss="nan"),
    "nemo exponent": many("nemo", t="1.2e+01"),
    "nemo epochs": many("nemo", e=1),
    "nemo back": many("nemo") + many("nemo", first=0),
    "dllogger": many("dllogger"),
    "dllogger noise": [x for line in many("dllogger") for x in (line, *NOISE)],
    "dllogger nan": many("dllogger", t="NaN"),
    "dllogger loss": many("dllogger", loss="NaN"),
    "dllogger exponent": many("dllogger", t="1.25e+01"),
    "dllogger zero": many("dllogger", t="0.0"),
    "dllogger back": many("dllogger") + many("dllogger", first=0),
    "dllogger gap": many("dllogger", steps=10) + many("dllogger", first=12),
    "dllogger twice": many("dllogger", t='0.6, "train_step_timing in s": 0.7'),
    "dllogger text": many("dllogger", t='0.6, "note": "a, b"'),
    "dllogger and nemo": [x for i in range(20) for x in (many("dllogger")[i], many("nemo")[i])],
    "bridge": [
        x for line in many("megatron") for x in (line, "Step Time : 0.57s GPU utilization: 1\n")
    ],
}


@pytest.mark.parametrize("case", PLANTED)
@pytest.mark.parametrize("size", [1 << 18, 900])
def test_lines_read_at_once_say_what_they_say_one_by_one(
    case: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK", size)
    text = "".join(PLANTED[case])
    at_once = logs.parse(text, "x")
    monkeypatch.setattr(bulk, "LINES", {})
    one_by_one = logs.parse(text, "x")
    assert list(at_once.steps) == list(one_by_one.steps)
    none = Steps()
    assert replace(at_once, steps=none) == replace(one_by_one, steps=none)


@pytest.mark.parametrize("kind", FORMS)
def test_sound_lines_are_read_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the comparison above compares one way with itself."""
    monkeypatch.setattr(logs, "_take_block", None)
    assert len(logs.parse("".join(many(kind)), "x").steps) == 40


@pytest.mark.parametrize("alone", [(), (300,), (100, 101, 500, 999)])
def test_of_a_very_long_log_the_latest_steps_are_kept_and_all_are_counted(
    alone: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``alone``: lines that are not read with others."""
    monkeypatch.setattr(lines, "CHUNK", 2000)
    monkeypatch.setattr(steps, "SLACK", 10)
    printed = list(many("megatron", steps=1000))
    for at in alone:
        printed[at] = printed[at].replace(" | lm loss", " | beside: x | lm loss")
    text = "".join(printed)
    whole = select(logs.parse(text, "x"))
    monkeypatch.setattr(steps, "MOST_STEPS", 800)
    bounded = logs.parse(text, "x")
    assert len(bounded.steps) < 1000
    assert len(bounded.steps) + bounded.steps.dropped == 1000
    assert (select(bounded).rule, list(select(bounded).steps)) == (whole.rule, list(whole.steps))
    monkeypatch.setattr(steps, "MOST_STEPS", 80)
    assert len(select(logs.parse(text, "x")).steps) <= 90
    with pytest.raises(UnusableLog, match="35, 36") as told:
        select(logs.parse(text, "x"), "window:35-36")
    assert "choose a later window" in told.value.hint
