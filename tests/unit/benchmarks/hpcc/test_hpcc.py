"""HPC Challenge: a real summary is read, a cut or wrong one is not, and a slow host among equals is named."""

import re
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.process import Completed
from appliance.benchmarks.hpcc import run as hpcc
from appliance.benchmarks.hpcc.summary import Summary, read
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from tests.support.batches import Batches, answer, labelled, lacking, value
from tests.support.facts import facts_of
from tests.support.hpcc_output import REAL, as_asked
from tests.support.profiles import profile_of
from tests.support.sites import site_of


def test_a_real_summary_is_read() -> None:
    found = read(REAL)
    assert (found.version, found.ranks, found.order, found.right) == ("1.5.0", 2, 1000, True)
    assert (round(found.stream, 1), round(found.hpl, 3)) == (139.8, 4.598)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "summary is missing"),
        (REAL[: REAL.index("End of Summary")], "summary is missing"),
        (REAL.replace("StarSTREAM_Triad=", "StarSTREAM_Tried="), "StarSTREAM_Triad is missing"),
        (REAL.replace("HPL_Tflops=", "HPL_Tflops=nan"), "HPL_Tflops"),
        (REAL.replace("CommWorldProcs=2", "CommWorldProcs=0"), "measured nothing"),
        (REAL.replace("||Ax-b||_oo/(eps", "||"), "did not check"),
    ],
)
def test_what_did_not_come_to_its_end_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        read(text)


@settings(max_examples=40)
@given(st.integers(0, len(REAL)), st.text(max_size=4))
def test_no_cut_summary_is_read(at: int, noise: str) -> None:
    with suppress(Unread):
        assert isinstance(read(REAL[:at] + noise), Summary)
        assert at > REAL.index("End of Summary")


class Hosts(Batches):
    """A control host whose srun gives each host's summary, with the triad of slow ones divided."""

    def __init__(self, slow: Sequence[str] = (), wrong: str = "") -> None:
        super().__init__()
        self.slow, self.wrong = slow, wrong

    def step(self, argv: Sequence[str]) -> Completed:
        node = value(argv, "--nodelist")
        text = REAL.replace("Triad=69.8805", "Triad=20.5") if node in self.slow else REAL
        text = text.replace("...... PASSED", "...... FAILED") if node == self.wrong else text
        return Completed(tuple(argv), 0, labelled(answer(node, as_asked(argv, text))), "")


def results(count: int, remote: Hosts, cores: int = 64, **limits: Limit) -> dict[str, CheckResult]:
    names = ["head", *(f"gpu-{i}" for i in range(1, count + 1))]
    given = {"hpcc.stream": limits["floor"]} if limits else {}
    facts = {n: facts_of(n, cpu={"cores": cores if n != "gpu-9" else 8}) for n in names}
    found = hpcc.run(View(profile_of(), site_of(*names, limits=given), facts), remote).results
    return {f"{r.id} {r.target}": r for r in found}


def test_a_slow_host_among_equals_is_named() -> None:
    found = results(5, Hosts(slow=["gpu-4"]))
    assert [name for name, r in found.items() if r.status is Status.FAIL] == ["hpcc.stream gpu-4"]
    assert found["hpcc.stream gpu-4"].cause.endswith("71 % worse than the median of 5 equal hosts")
    assert found["hpcc.stream gpu-1"].status is Status.PASS


def test_a_floor_names_the_slow_one_of_two() -> None:
    floor = Limit(value=100, unit="GB/s", source="the processor's data sheet")
    found = results(2, Hosts(slow=["gpu-2"]), floor=floor)
    assert (found["hpcc.stream gpu-1"].status, found["hpcc.stream gpu-2"].status) == (
        Status.PASS,
        Status.FAIL,
    )


def test_hosts_of_other_hardware_are_no_equals() -> None:
    found = results(9, Hosts(slow=["gpu-9"]))
    assert found["hpcc.stream gpu-9"].status is Status.NOT_ASSESSED
    assert found["hpcc.stream gpu-1"].evidence == (
        "hpcc 1.5.0, 64 ranks, matrix of 14654; not bounded: the host does not list its memory modules (dmidecode)"
    )


def test_a_run_that_breaks_off_is_an_error_of_both_figures() -> None:
    class Broken(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            done = super().step(argv)
            return Completed(done.argv, 0, done.stdout.replace("code=0", "code=4"), "")

    found = results(1, Broken())
    assert {name: r.status for name, r in found.items()} == {
        "hpcc.stream gpu-1": Status.ERROR,
        "hpcc.hpl gpu-1": Status.ERROR,
    }
    assert found["hpcc.hpl gpu-1"].cause == "hpcc ended with 4: no reason given"


def test_a_wrong_solution_fails_whatever_the_speed() -> None:
    found = results(4, Hosts(wrong="gpu-2"))
    assert found["hpcc.hpl gpu-2"].cause.startswith("HPL's solution is wrong")
    assert found["hpcc.stream gpu-2"].cause.endswith("none of their figures count")
    assert found["hpcc.stream gpu-1"].value


@pytest.mark.parametrize(("ranks", "expected"), [(1, (1, 1)), (96, (8, 12)), (13, (1, 13))])
def test_ranks_form_a_grid_as_square_as_can_be(ranks: int, expected: tuple[int, int]) -> None:
    assert hpcc.grid(ranks) == expected


@pytest.mark.parametrize(
    ("facts", "arguments", "seconds"),
    [
        ({"memory": {"total": 16 << 30, "available": 1}}, ("14654", "8", "12"), 3600),
        ({"memory": {"total": 0, "available": 0}}, ("1500", "8", "12"), 3600),
        ({"os": {"container": "lxc"}}, ("1500", "1", "1"), 240),
    ],
)
def test_the_matrix_takes_a_tenth_of_the_memory_of_a_host_of_its_own(
    facts: dict[str, object], arguments: tuple[str, ...], seconds: float
) -> None:
    """8 octets a number; 16 GiB give an order of sqrt(16 GiB / 10 / 8)."""
    found = hpcc.task(
        View(profile_of(), site_of("gpu-1"), {"gpu-1": facts_of("gpu-1", **facts)}), "gpu-1"
    )
    assert (found.arguments, found.seconds) == (arguments, seconds)


@pytest.mark.parametrize("name", ["StarSTREAM_Triad", "HPL_Tflops", "CommWorldProcs"])
def test_a_figure_of_nought_is_no_measurement(name: str) -> None:
    text, count = re.subn(rf"^{name}=.*$", f"{name}=0", REAL, flags=re.M)
    assert count == 1
    with pytest.raises(Unread, match="measured nothing"):
        read(text)


def test_a_host_without_hpcc_has_neither_figure_and_the_others_have() -> None:
    class Without(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            if value(argv, "--nodelist") != "gpu-1":
                return super().step(argv)
            return Completed(tuple(argv), 0, labelled(lacking("gpu-1", "hpcc")), "")

    names = ["head", "gpu-1", "gpu-2"]
    view = View(profile_of(), site_of(*names), {n: facts_of(n) for n in names})
    raw = {one.name: one.text for one in hpcc.run(view, Without()).raw}
    assert raw["gpu-1.txt"] == "hpcc is not there"
    assert raw["gpu-2.txt"].startswith(REAL[:200].lstrip())
    found = results(2, Without())
    for check in ("hpcc.stream", "hpcc.hpl"):
        assert found[f"{check} gpu-1"].cause == "hpcc is not there"
        assert found[f"{check} gpu-1"].status is Status.NOT_ASSESSED
        assert found[f"{check} gpu-2"].value


def test_hosts_of_which_one_is_a_container_are_measured_in_turn_and_it_is_marked() -> None:
    names = ["head", "gpu-1", "gpu-2"]
    facts = {n: facts_of(n) for n in names} | {"gpu-2": facts_of("gpu-2", os={"container": "lxc"})}
    view = View(profile_of(), site_of(*names), facts)
    found = {(r.id, r.host): r for r in hpcc.run(view, Hosts()).results}
    marks = {host: found["hpcc.hpl", host].simulated for host in ("gpu-1", "gpu-2")}
    assert marks == {"gpu-1": False, "gpu-2": True}
    wrong = {(r.id, r.host): r for r in hpcc.run(view, Hosts(wrong="gpu-2")).results}
    assert [r.simulated for r in wrong.values() if r.host == "gpu-2"] == [True, True]
    assert not wrong["hpcc.hpl", "gpu-1"].simulated

    class Broken(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            asked.append(value(argv, "--nodelist"))
            done = super().step(argv)
            return Completed(done.argv, 0, done.stdout.replace("appliance-end code=0", "x"), "")

    asked: list[str] = []
    broken = [r for r in hpcc.run(view, Broken()).results if r.host == "gpu-2"]
    assert [r.simulated for r in broken] == [True, True]
    assert asked == ["gpu-2", "gpu-1"]
    (nobody,) = hpcc.run(View(profile_of(), site_of("head"), {}), Hosts()).results
    assert nobody.status is Status.NOT_ASSESSED


class Telling(Hosts):
    """Hosts that tell of their memory and processors, too; ``odd`` with a triad of its own."""

    def __init__(self, told: str, odd: str = "69.8805") -> None:
        super().__init__()
        self.told, self.odd = told, odd

    def step(self, argv: Sequence[str]) -> Completed:
        node = value(argv, "--nodelist")
        text = REAL.replace("Triad=69.8805", f"Triad={self.odd}") if node == "gpu-1" else REAL
        text += self.told
        return Completed(tuple(argv), 0, labelled(answer(node, as_asked(argv, text))), "")


MODULES = "".join(
    "appliance-memory: Memory Device\nappliance-memory: \tData Width: 64 bits\n"
    "appliance-memory: \tSize: 2 TB\nappliance-memory: \tConfigured Memory Speed: 4800 MT/s\n"
    for _ in range(4)
)
CORES = "appliance-flags: fpu sse2 avx avx2 fma\nappliance-clock: intel_pstate\nappliance-khz: {}\n"


def test_a_figure_that_no_such_memory_gives_is_an_error_and_no_equal_of_others() -> None:
    """Four modules of 38.4 GB/s are 153.6; two ranks of 69.9 fit, two of 80 do not."""
    good = results(5, Telling(MODULES))
    assert {r.status for n, r in good.items() if n.startswith("hpcc.stream")} == {Status.PASS}
    assert "at most 153.6 GB/s (4 memory modules)" in good["hpcc.stream gpu-1"].evidence
    bad = results(5, Telling(MODULES, odd="80"))
    odd = bad["hpcc.stream gpu-1"]
    assert (odd.status, odd.value) == (Status.ERROR, 160.0)
    assert "cannot be 160 GB/s: at most 153.6 GB/s" in odd.cause
    assert bad["hpcc.stream gpu-2"].status is Status.PASS
    assert bad["hpcc.stream gpu-2"].limit_source.startswith("within 10 % of 4 equal hosts")


@pytest.mark.parametrize(("khz", "status"), [(3_000_000, Status.PASS), (4_000, Status.ERROR)])
def test_no_processor_is_faster_than_its_cores_and_clock(khz: int, status: Status) -> None:
    """64 cores of 16 operations a cycle; HPL reached 4.598 GFLOPS."""
    found = results(5, Telling(CORES.format(khz)))
    assert {r.status for n, r in found.items() if n.startswith("hpcc.hpl")} == {status}


def test_hosts_that_share_a_machine_are_bounded_by_nothing() -> None:
    names = ["head", "gpu-1"]
    facts = {n: facts_of(n, os={"container": "lxc"}) for n in names}
    found = hpcc.run(
        View(profile_of(), site_of(*names), facts), Telling(CORES.format(1000))
    ).results
    assert {r.status for r in found} == {Status.NOT_ASSESSED}
    assert all("not bounded: the host shares its machine" in r.evidence for r in found)


@pytest.mark.parametrize("name", ["HPL_N", "CommWorldProcs"])
def test_figures_of_another_run_than_the_one_that_was_asked_for_are_none(name: str) -> None:
    class Other(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            node = value(argv, "--nodelist")
            text = re.sub(rf"(?m)^{name}=\d+$", f"{name}=7", as_asked(argv, REAL))
            return Completed(tuple(argv), 0, labelled(answer(node, text)), "")

    found = results(1, Other())
    assert {r.status for r in found.values()} == {Status.ERROR}
    assert "asked were 64 and" in found["hpcc.stream gpu-1"].cause
