"""Matrix products and memory of each GPU: what is cut or absurd is refused, what is wrong or slow is named by index and UUID."""

import json
import re
import subprocess  # noqa: TID251 - the program is run as a host runs it
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.process import Completed
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.ceilings import ABOVE, Most, of_gpu_memory, of_product
from appliance.benchmarks.gemm import run as gemm
from appliance.benchmarks.gemm.figures import Sweep, read
from appliance.benchmarks.gemm.gates import gates
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.stages.gpu.part import gpu_parts
from tests.support.batches import Batches, answer, labelled, lacking, value
from tests.support.facts import facts_of, gpus_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

REAL = (Path(__file__).parents[3] / "data/benchmarks/gemm/processors-1.13.json").read_text()
A100 = "NVIDIA A100-SXM4-80GB"
RATES = {"fp64": 18.0, "tf32": 130.0, "fp16": 265.0, "bf16": 260.0}


def gpu(index: int, **changes: Any) -> dict[str, Any]:
    """An A100 as the program tells of it; ``changes`` of a type's TFLOPS, of ``triad``, or of the whole row."""
    rates = {name: changes.pop(name, rate) for name, rate in RATES.items()}
    copy, triad = changes.pop("copy", 1700.0), changes.pop("triad", 1780.0)
    wrong = changes.pop("wrong", "")
    return {
        "index": index,
        "kind": "gpu",
        "uuid": f"GPU-{index}",
        "name": A100,
        "products": [
            {"dtype": name, "size": size, "tflops": rate * share, "wrong": 3 * (name == wrong)}
            for size, share in ((8192, 1.0), (4096, 0.9))
            for name, rate in rates.items()
        ],
        "streams": [
            {"what": "copy", "octets": 2 << 30, "gbps": copy, "wrong": 0},
            {"what": "triad", "octets": 2 << 30, "gbps": triad, "wrong": int(wrong == "triad")},
        ],
        **changes,
    }


def host(count: int = 8, **odd: dict[str, Any]) -> str:
    """What the program prints; ``odd``: what is other about the GPU of that name: gpu3."""
    rows = [gpu(index, **odd.get(f"gpu{index}", {})) for index in range(count)]
    return json.dumps({"torch": "2.4.1", "devices": rows})


class Hosts(Batches):
    """A control host whose srun gives what each host is to have said."""

    def __init__(self, said: Callable[[str], str], code: int = 0) -> None:
        super().__init__()
        self.said, self.code = said, code
        self.asked: list[Sequence[str]] = []

    def step(self, argv: Sequence[str]) -> Completed:
        self.asked.append(argv)
        node = value(argv, "--nodelist")
        told = answer(node, self.said(node), self.code)
        return Completed(tuple(argv), 0, labelled(told), "")


def view(count: int = 1, container: str = "", **limits: float) -> View:
    names = ["head", *(f"gpu-{n}" for n in range(1, count + 1))]
    units = {"rate": "TFLOPS", "memory": "GB/s"}
    asked = {
        f"gemm.{name}": Limit(value=value, unit=units[name], source="contract")
        for name, value in limits.items()
    }
    facts = {n: facts_of(n, gpus=gpus_of(A100, 8), os={"container": container}) for n in names}
    return View(profile_of(), site_of(*names, limits=asked), facts)


def outcome(said: str | Callable[[str], str], seen: View | None = None, code: int = 0) -> Outcome:
    of = said if callable(said) else lambda _: said
    return gemm.run(seen or view(), Hosts(of, code))


def by_name(found: Outcome) -> dict[str, CheckResult]:
    assert len({(r.id, r.target) for r in found.results}) == len(found.results)
    return {f"{r.id} {r.target}": r for r in found.results}


def of(status: Status, found: Outcome) -> list[str]:
    return [name for name, r in by_name(found).items() if r.status is status]


def test_what_was_really_measured_on_processors_is_read() -> None:
    (one,) = read(REAL).devices
    assert (one.part, one.leading, one.best["fp64"].size) == ("processors", "fp32", 512)
    assert one.way.what == "copy"
    assert not any(p.wrong for p in one.products)
    assert not any(s.wrong for s in one.streams)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no output"),
        ("Segmentation fault", "printed no JSON"),
        (REAL[:200], "breaks off|Expecting|EOF|JSON|delimiter"),
        (REAL.replace('"wrong": 0', '"wrong": -1', 1), "wrong"),
        (REAL.replace('"dtype": "fp64"', '"dtype": "fp7"', 1), "dtype"),
        (re.sub(r'"tflops": [0-9.e-]+', '"tflops": NaN', REAL, count=1), "."),
        (re.sub(r'"tflops": [0-9.e-]+', '"tflops": 1e99', REAL, count=1), "tflops"),
        (re.sub(r'"tflops": [0-9.e-]+', '"tflops": 0', REAL, count=1), "measured nothing"),
        (re.sub(r'"gbps": [0-9.e-]+', '"gbps": 0', REAL, count=1), "measured nothing"),
        (REAL.replace('"triad"', '"copy"'), "figures of processors are missing"),
        (json.dumps({"torch": "2", "devices": [gpu(0), gpu(0)]}), "one device twice"),
        (json.dumps({"torch": "2", "devices": [gpu(0, products=[])]}), "figures of GPU 0"),
        (json.dumps({"torch": "2", "devices": [gpu(0, streams=[])]}), "figures of GPU 0"),
        (json.dumps({"torch": "2", "devices": [gpu(-1)]}), "index"),
    ],
)
def test_what_is_cut_or_absurd_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        read(text)


@settings(max_examples=40)
@given(st.integers(0, len(REAL) - 3), st.text(max_size=4))
def test_no_cut_document_is_read(at: int, noise: str) -> None:
    with suppress(Unread):
        assert isinstance(read(REAL[:at] + noise), Sweep)
        raise AssertionError("it was read")


def test_eight_equal_gpus_of_a_host_pass_and_say_what_was_measured() -> None:
    found = outcome(host())
    assert len(of(Status.PASS, found)) == 16
    third = by_name(found)["gemm.rate gpu-1/GPU 3"]
    assert (third.value, third.unit, third.simulated) == (260.0, "TFLOPS", False)
    assert third.evidence == (
        "bf16, best of fp64 18 (8192), tf32 130 (8192), fp16 265 (8192), bf16 260 (8192); "
        f"{A100} GPU-3; PyTorch 2.4.1; at most 312 TFLOPS ({_part(A100).source})"
    )
    assert third.limit_source == "within 10 % of 8 equal GPUs; no limit is set"
    memory = by_name(found)["gemm.memory gpu-1/GPU 3"]
    assert (memory.value, memory.unit) == (1780.0, "GB/s")
    assert "best of copy 1700, triad 1780, buffers of 2048 MiB" in memory.evidence
    assert {raw.name for raw in found.raw} == {"gpu-1.json"}
    (table,) = found.tables
    assert table.columns[2:] == (
        *("fp64 TFLOPS", "tf32 TFLOPS", "fp16 TFLOPS", "bf16 TFLOPS", "copy GB/s", "triad GB/s"),
    )
    assert table.rows[3] == ("gpu-1/GPU 3", "GPU-3", 18.0, 130.0, 265.0, 260.0, 1700.0, 1780.0)
    assert len(found.measurements) == 16


def _part(name: str) -> Any:
    part = gpu_parts().find(name)
    assert part
    assert part.rates
    return part.rates


def test_a_slow_gpu_among_equals_is_named_and_no_other() -> None:
    found = outcome(host(gpu3={"bf16": 200.0}, gpu5={"triad": 1500.0, "copy": 1500.0}))
    assert of(Status.FAIL, found) == ["gemm.rate gpu-1/GPU 3", "gemm.memory gpu-1/GPU 5"]
    slow = by_name(found)["gemm.rate gpu-1/GPU 3"]
    assert "its rate of bf16 products is 23 % worse than the median of 8 equal GPUs" in slow.cause
    assert slow.names == ("gpu-1",)
    assert "GPU-3" in slow.evidence
    assert by_name(found)["gemm.memory gpu-1/GPU 5"].value == 1500.0


def test_equals_are_of_all_hosts_and_of_one_product() -> None:
    def said(node: str) -> str:
        other = {"name": "NVIDIA A100 80GB PCIe", "bf16": 200.0, "fp16": 200.0}
        slow = {"gpu1": {"bf16": 200.0}} if node == "gpu-2" else {}
        return host(2, **slow) if node != "gpu-4" else host(2, gpu0=other, gpu1=other)

    seen = view(4)
    seen = View(profile_of(gpu={"count": 2}), seen.site, seen.facts)
    found = outcome(said, seen)
    assert of(Status.FAIL, found) == ["gemm.rate gpu-2/GPU 1"]
    lone = by_name(found)["gemm.rate gpu-4/GPU 0"]
    assert (lone.status, lone.required) == (Status.NOT_ASSESSED, False)
    assert "2 equals; 4 are needed" in lone.cause


def test_a_host_that_lists_gpus_it_does_not_have_is_no_equal_of_others() -> None:
    fast = {f"gpu{index}": {"bf16": 300.0} for index in range(64)}
    seen = view(2)
    seen = View(profile_of(gpu={"count": 8}), seen.site, seen.facts)
    found = outcome(lambda node: host(64, **fast) if node == "gpu-2" else host(8), seen)
    assert not of(Status.FAIL, found)
    assert "it lists 64 devices, the host has 8" in by_name(found)["gemm.rate gpu-2"].cause


def test_a_gpu_that_is_slow_in_another_type_alone_is_named_with_it() -> None:
    found = outcome(host(gpu2={"fp64": 9.0}))
    assert of(Status.FAIL, found) == ["gemm.rate gpu-1/GPU 2,fp64"]
    bad = by_name(found)["gemm.rate gpu-1/GPU 2,fp64"]
    assert bad.cause == "its rate of fp64 products is 50 % worse than the median of 8 equal GPUs"
    assert by_name(found)["gemm.rate gpu-1/GPU 2"].status is Status.PASS


@pytest.mark.parametrize("dtype", list(RATES))
def test_a_wrong_product_fails_whatever_the_speed(dtype: str) -> None:
    found = outcome(host(gpu6={"wrong": dtype}), view(rate=100, memory=1000))
    bad = by_name(found)["gemm.rate gpu-1/GPU 6"]
    assert bad.status is Status.FAIL
    assert bad.cause == f"it computes wrong results: products in {dtype} are wrong"
    assert f"{A100} GPU-6" in bad.evidence
    assert by_name(found)["gemm.memory gpu-1/GPU 6"].status is Status.NOT_ASSESSED
    assert len(of(Status.PASS, found)) == 14


def test_memory_that_does_not_hold_what_is_written_fails() -> None:
    found = by_name(outcome(host(gpu6={"wrong": "triad"})))
    bad = found["gemm.memory gpu-1/GPU 6"]
    assert (bad.status, bad.cause) == (
        Status.FAIL,
        "its memory returns other values than were written: triad",
    )
    assert found["gemm.rate gpu-1/GPU 6"].status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("odd", "check", "cause"),
    [
        ({"bf16": 320.0}, "gemm.rate", "products in bf16 cannot reach 320 TFLOPS: at most 312"),
        ({"fp16": 600.0}, "gemm.rate", "products in fp16 cannot reach 600 TFLOPS: at most 312"),
        ({"tf32": 160.0}, "gemm.rate", "products in tf32 cannot reach 160 TFLOPS: at most 156"),
        ({"fp64": 20.0}, "gemm.rate", "products in fp64 cannot reach 20 TFLOPS: at most 19.5"),
        ({"triad": 2085.0}, "gemm.memory", "its memory cannot reach 2085 GB/s: at most 2039"),
    ],
)
def test_more_than_the_data_sheet_is_an_error_and_no_equal_of_others(
    odd: dict[str, float], check: str, cause: str
) -> None:
    found = outcome(host(gpu4=odd), view(rate=100, memory=1000))
    assert of(Status.ERROR, found) == [f"{check} gpu-1/GPU 4"]
    bad = by_name(found)[f"{check} gpu-1/GPU 4"]
    assert bad.cause.startswith(cause)
    assert bad.value == next(iter(odd.values()))
    assert len(of(Status.PASS, found)) == 15


def test_a_limit_names_what_is_below_it_and_where_it_comes_from() -> None:
    found = by_name(outcome(host(2, gpu1={"bf16": 255.0}), _two(rate=258, memory=1800)))
    assert found["gemm.rate gpu-1/GPU 0"].status is Status.PASS
    low = found["gemm.rate gpu-1/GPU 1"]
    assert (low.status, low.limit, low.limit_source) == (Status.FAIL, 258, "contract")
    assert low.cause == "its rate of bf16 products is 255 TFLOPS, below the limit of 258"
    assert found["gemm.memory gpu-1/GPU 0"].status is Status.FAIL


def _two(rate: float, memory: float) -> View:
    seen = view(rate=rate, memory=memory)
    return View(profile_of(gpu={"count": 2}), seen.site, seen.facts)


def test_a_gpu_that_fell_away_and_one_that_failed_are_told() -> None:
    rows = [gpu(0), {"index": 2, "kind": "gpu", "error": "RuntimeError: CUDA error: unspecified"}]
    seen = View(profile_of(gpu={"count": 3}), view().site, view().facts)
    found = by_name(outcome(json.dumps({"torch": "2.4.1", "devices": rows}), seen))
    assert found["gemm.rate gpu-1/GPU 1"].cause == "PyTorch does not see it"
    dead = found["gemm.memory gpu-1/GPU 2"]
    assert (dead.status, dead.cause) == (
        Status.ERROR,
        "it was not measured: RuntimeError: CUDA error: unspecified",
    )
    assert found["gemm.rate gpu-1/GPU 0"].value == 260.0


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"torch": "", "why": "ModuleNotFoundError: No module named 'torch'"}, "does not load"),
        ({"torch": "2.4.1+cpu", "devices": []}, "PyTorch 2.4.1+cpu sees no GPU there"),
        (json.loads(REAL), "only its CPUs were measured, no GPU"),
        ({"torch": "2", "devices": [gpu(0, kind="processors"), gpu(1)]}, "only its CPUs were"),
        ({"torch": "2", "devices": [gpu(0, name=f"{A100} MIG 1g.10gb")]}, "in MIG mode"),
        ({"torch": "2", "devices": [gpu(0), gpu(1, uuid="MIG-7a")]}, "in MIG mode"),
    ],
)
def test_a_host_that_cannot_measure_its_gpus_is_not_assessed_with_what_helps(
    said: dict[str, Any], cause: str
) -> None:
    answered = outcome(json.dumps(said))
    assert [raw.text.strip() for raw in answered.raw] == [json.dumps(said)]
    found = by_name(answered)
    assert set(found) == {"gemm.rate gpu-1", "gemm.memory gpu-1"}
    assert {r.status for r in found.values()} == {Status.NOT_ASSESSED}
    assert all(cause in r.cause and r.fix for r in found.values())


def test_a_host_without_python_or_with_a_broken_run_has_no_figure() -> None:
    class Without(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            return Completed(tuple(argv), 0, labelled(lacking("gpu-1", "python3")), "")

    found = by_name(gemm.run(view(), Without(lambda _: "")))
    assert {(r.status, r.cause) for r in found.values()} == {
        (Status.NOT_ASSESSED, "python3 is not there")
    }
    broken = by_name(outcome(host(), code=4))
    assert {(r.status, r.cause) for r in broken.values()} == {
        (Status.ERROR, "it ended with 4: no reason given")
    }
    (nobody,) = gemm.run(View(profile_of(), site_of("head"), {}), Hosts(lambda _: "")).results
    assert nobody.status is Status.NOT_ASSESSED


def test_a_container_host_shows_its_processors_marked_and_closes_no_gate() -> None:
    seen = view(2, container="lxc", rate=0.001, memory=0.001)
    slurm = Hosts(lambda _: REAL)
    found = gemm.run(seen, slurm)
    assert {r.target for r in found.results} == {"gpu-1/processors", "gpu-2/processors"}
    assert all(r.simulated and r.status is Status.PASS for r in found.results)
    assert "; processors" not in by_name(found)["gemm.rate gpu-1/processors"].cause
    assert "not bounded: processors" in by_name(found)["gemm.rate gpu-1/processors"].evidence
    assert [argv[-1] for argv in slurm.asked] == ["processors", "processors"]
    targets = {target.name for gate in gates(seen) for target in gate.targets}
    assert len(targets) == 16
    assert targets.isdisjoint(r.target for r in found.results)


def test_gates_are_of_every_gpu_and_close_with_sound_ones_alone() -> None:
    assert gates(view()) == ()
    seen = view(2, rate=250, memory=1700)
    asked = gates(seen)
    assert [(g.id, len(g.targets), g.expected_unit) for g in asked] == [
        ("gemm.rate", 16, "TFLOPS"),
        ("gemm.memory", 16, "GB/s"),
    ]

    def closes(found: Outcome) -> list[bool]:
        good = {(r.id, r.target) for r in found.results if r.status is Status.PASS}
        bad = [r for r in found.results if r.status is Status.FAIL]
        return [
            {(g.check, t.name) for t in g.targets} <= good and not any(map(g.concerns, bad))
            for g in asked
        ]

    assert closes(outcome(host(), seen)) == [True, True]
    assert closes(outcome(host(gpu7={"bf16": 240.0}), seen)) == [False, True]
    assert closes(outcome(host(7), seen)) == [False, False]
    assert closes(outcome(host(gpu2={"fp64": 9.0}), seen)) == [False, True]


def test_a_host_of_its_own_is_asked_for_gpus_alone_with_time_for_each() -> None:
    slurm = Hosts(lambda _: host())
    gemm.run(view(), slurm)
    (argv,) = slurm.asked
    assert argv[-1] == "gpus"
    assert "--gres=gpu:8" in argv
    assert "1400" in argv
    shared = gemm.task(view(container="lxc"), "gpu-1")
    assert (shared.seconds, shared.arguments) == (280.0, ("processors",))


def test_every_bound_fits_the_rate_that_training_is_measured_by() -> None:
    for part in gpu_parts().parts:
        if part.rates is None:
            continue
        if part.bf16:
            assert part.rates.half == pytest.approx(part.bf16.peak, rel=0.001)
        if part.rates.tf32:
            assert part.rates.half == pytest.approx(2 * part.rates.tf32, rel=0.02)
        assert bool(part.rates.clock) is bool(part.rates.highest)
        assert (part.rates.clock or 0) <= (part.rates.highest or 0)


@pytest.mark.parametrize(
    ("name", "dtype", "most"),
    [
        (A100, "bf16", 312),
        (A100, "fp64", 19.5),
        ("NVIDIA H100 80GB HBM3", "fp16", 989.4 * 1980 / 1830),
        ("Tesla T4", "fp16", 65),
    ],
)
def test_a_product_is_bounded_at_its_highest_clock(name: str, dtype: str, most: float) -> None:
    bound = of_product(name, dtype)
    assert isinstance(bound, Most)
    assert bound.value == pytest.approx(most)
    assert not bound.passed_by(most * ABOVE)
    assert bound.passed_by(most * ABOVE + 0.01)


def test_what_nobody_published_bounds_nothing_and_says_so() -> None:
    assert of_product("NVIDIA Z1", "bf16") == "the peak of a NVIDIA Z1 is unknown"
    assert of_product("Tesla T4", "tf32") == "its peak in tf32 is not published"
    assert of_product(A100, "fp32") == "its peak in fp32 is not published"
    assert of_product("", "bf16") == "the peak of a GPU without a name is unknown"
    assert of_gpu_memory("Tesla V100-SXM3-32GB") == (
        "the peak of a Tesla V100-SXM3-32GB is unknown"
    )
    found = outcome(json.dumps({"torch": "2", "devices": [gpu(0, name="NVIDIA Z1", bf16=9e5)]}))
    told = by_name(found)["gemm.rate gpu-1/GPU 0"]
    assert told.status is Status.NOT_ASSESSED
    assert "not bounded: the peak of a NVIDIA Z1 is unknown" in told.evidence


PROGRAM = Path(gemm.__file__).with_name("multiply.py")
FAKE = """
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
__version__ = "9.9"
def __getattr__(name):
    raise RuntimeError(f"CUDA error: no {name}")
"""


def test_the_program_says_that_torch_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12 is missing')")
    found = _host(tmp_path)
    assert (found.torch, found.why) == ("", "ImportError: libcudart.so.12 is missing")


def test_a_fault_of_one_device_is_told_of_it_and_the_next_is_tried(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE)
    found = _host(tmp_path)
    assert found.torch == "9.9"
    assert [(d.index, d.kind) for d in found.devices] == [(0, "gpu"), (1, "gpu")]
    assert all("Error" in d.error for d in found.devices)


def _host(folder: Path) -> Sweep:
    """What the program tells of a host whose torch is the one in ``folder``."""
    copy = folder / PROGRAM.name
    copy.write_text(PROGRAM.read_text())
    argv = [sys.executable, str(copy), "host", "gpus"]
    done = subprocess.run(
        argv,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(folder)},
    )
    return read(done.stdout)
