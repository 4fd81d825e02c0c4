"""What a host prints: two runs in one output, figures that contradict each other, and numbers that are none or cost minutes to read."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes import _wait
from appliance.benchmarks import jobs, slurm_job
from appliance.benchmarks.burnin import samples
from appliance.benchmarks.ceilings import of_memory, of_processors
from appliance.benchmarks.dcgm import report as dcgm
from appliance.benchmarks.fio import sweep
from appliance.benchmarks.hpcc import summary
from appliance.benchmarks.nccl import table as nccl
from appliance.benchmarks.nvbandwidth import report as nvbandwidth
from appliance.benchmarks.perftest import table as perftest
from appliance.benchmarks.reading import Unread, number
from appliance.bmc.checks.firmware import at_least
from appliance.stages.fabric.cabling import natural
from appliance.stages.slurm.checks import SHORT, gpus_in

DATA = Path(__file__).parents[2] / "data/benchmarks"
SECONDS = 20
"""Far more than any reader takes here; those that tried every beginning of a line took minutes."""


def real(name: str) -> str:
    return (DATA / name).read_text()


HPCC, HOST, BW, LAT = map(
    real, ("hpcc/hpcc-1.5.txt", "nccl/host.txt", "perftest/bw.txt", "perftest/lat.txt")
)
FIO = real("fio/fio-3.33.txt")


@contextmanager
def in_time() -> Iterator[None]:
    """Ends what does not come to its end."""

    def late(*_: object) -> None:
        raise AssertionError("it is still being read")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "word", ["1_000", "٣", "\uff11\uff12", "1٣.5", "²", "0x10", "1,5", "1.5 GB"]
)
def test_what_no_program_prints_is_no_number(word: str) -> None:
    with pytest.raises(Unread):
        number(word, "a figure")


@pytest.mark.parametrize(
    ("word", "value"),
    [("12", 12.0), (" 7.50 ", 7.5), ("+1e3", 1000.0), ("0e+00", 0.0), (".5", 0.5)],
)
def test_what_programs_print_is_a_number(word: str, value: float) -> None:
    assert number(word, "a figure") == value


def twice_in_nvbandwidth() -> str:
    found = json.loads(real("nvbandwidth/0.8.json"))
    cases = found["nvbandwidth"]["testcases"]
    passed = next(one for one in cases if one["status"] == "Passed")
    return json.dumps({"nvbandwidth": {**found["nvbandwidth"], "testcases": [passed, *cases]}})


def twice_in_fio() -> str:
    text, mark, logs = FIO.partition("\nappliance-log ")
    found = json.loads(text[text.index("{") :])
    return json.dumps({**found, "jobs": [*found["jobs"], found["jobs"][0]]}) + mark + logs


def both_of_dcgm() -> str:
    one, other = map(real, ("dcgm/3-level3.json", "dcgm/4-level3.json"))
    found = (json.loads(text[text.index("{") :]) for text in (one, other))
    return json.dumps({key: value for text in found for key, value in text.items()})


@pytest.mark.parametrize(
    "read",
    [
        lambda: nvbandwidth.read(twice_in_nvbandwidth()),
        lambda: sweep.read(twice_in_fio(), ()),
        lambda: sweep.read(f"{FIO}\nappliance-log seq_read\n\nappliance-log seq_read\n", ()),
        lambda: dcgm.read(both_of_dcgm()),
        lambda: summary.read(HPCC + HPCC),
        lambda: summary.read(re.sub(r"(?m)^(HPL_Tflops=)", r"\g<1>9\n\g<1>", HPCC)),
        lambda: perftest.bandwidth(BW + BW),
        lambda: perftest.latency(LAT + LAT),
        lambda: perftest.bandwidth(BW + LAT),
        lambda: nccl.read(HOST + HOST),
    ],
)
def test_two_runs_in_one_output_are_none(read: Callable[[], object]) -> None:
    with pytest.raises(Unread):
        read()


@pytest.mark.parametrize("column", [-8, -7, -6])
def test_a_line_of_nccl_that_contradicts_itself_is_refused(column: int) -> None:
    *_, last = (line for line in HOST.splitlines() if re.match(r"\s+\d", line))
    words = last.split()
    for factor in (3, 1 / 3) if column != -6 else (3,):
        changed = [*words]
        changed[column] = f"{float(words[column]) * factor:.2f}"
        with pytest.raises(Unread, match="contradicts itself"):
            nccl.read(HOST.replace(last, "  " + "  ".join(changed)))
    assert nccl.read(HOST).peak.busbw == float(words[-6])


LONG = "9" * 5000
TASK = jobs.Task("x", "true", 1, {})
MODULE = "appliance-memory: Memory Device\nappliance-memory: \tSize: {} GB\nappliance-memory: \tConfigured Memory Speed: {} MT/s\n"
READERS: dict[str, Callable[[str], Any]] = {
    "footer": lambda d: nccl.read(HOST.replace("values : 0 ", f"values : {d} ")),
    "rank": lambda d: nccl.read(re.sub(r"Rank\s+0 ", f"Rank {d} ", HOST)),
    "label": lambda d: jobs._by_host(f"{d}: appliance-begin host=a\n"),
    "end": lambda d: jobs._read(
        TASK, ["appliance-begin host=a", f"appliance-end code={d} size={d}"]
    ),
    "job": lambda d: slurm_job.parse(f"appliance-job={d} node=a host=a gpus=0"),
    "module": lambda d: of_memory(MODULE.format(d, 3200), 1 << 30),
    "speed": lambda d: of_memory(MODULE.format(64, d), 1 << 30),
    "clock": lambda d: of_processors(
        f"appliance-flags: avx2\nappliance-clock: intel_pstate\nappliance-khz: {d}\n", 4
    ),
    "sample": lambda d: samples._gpu(f"{d},GPU-x,1,1,1,1,0,0,0x0"),
    "firmware": lambda d: at_least(f"1.{d}", "1.2"),
    "device": lambda d: natural(f"mlx5_{d}"),
    "gres": lambda d: gpus_in(f"gpu:a100:{d}"),
    "reason": lambda d: [
        int(n)
        for found in [SHORT.search(f"gres/gpu count reported lower than configured ({d} < 8)")]
        for n in (found.groups() if found else ())
    ],
    "retry": lambda d: _wait(d, 1.0),
}


@pytest.mark.parametrize("digits", [LONG, "9" * 400, "²", "٣²"])
@pytest.mark.parametrize("reader", READERS)
def test_a_number_that_no_sound_host_prints_ends_no_run(reader: str, digits: str) -> None:
    with suppress(Unread, slurm_job.Unreadable):
        READERS[reader](digits)


def test_versions_of_any_length_have_an_order() -> None:
    assert at_least("1.02", "1.2") is True
    assert at_least(f"1.{LONG}", f"1.{LONG[1:]}") is True
    assert at_least(f"1.{LONG[1:]}", f"1.{LONG}") is False


SECTION = "Begin of Summary section.\nEnd of Summary section.\n"


@pytest.mark.parametrize(
    "text",
    [
        SECTION + "||Ax-b||_oo/(eps*=" * 100_000,
        SECTION + "||Ax-b||_oo/(eps*=" + "." * 1_000_000,
        "Begin of Summary section.\n" * 100_000,
    ],
)
def test_an_output_made_to_be_slow_is_read_at_once(text: str) -> None:
    with in_time(), pytest.raises(Unread):
        summary.read(text)
