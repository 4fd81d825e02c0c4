"""Runs ``dcgmi diag`` on each GPU host and judges each GPU. A skipped test never passes."""

from collections.abc import Iterator, Mapping, Sequence

from appliance.adapters.remote import Remote
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.dcgm.gates import CHECK
from appliance.benchmarks.dcgm.report import Report, Verdict, Word, read
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, on_each
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, failed, judged, not_assessed, passed, warned
from appliance.models.gpu_counts import gpu_count, gpu_least
from appliance.models.result import CLUSTER, CheckResult, Place, Status, place
from appliance.models.run import Table
from appliance.models.site import Role
from appliance.text import first_few

LEVELS = (1, 2, 3, 4)
DEFAULT = 2
SECONDS = {1: 300.0, 2: 900.0, 3: 3600.0, 4: 4 * 3600.0}
"""Deadlines. NVIDIA and AWS give seconds, 2 min, 15 min, and 45 min to 2.3 h."""
TOOLS = {
    "dcgmi": "install datacenter-gpu-manager (3.x) or datacenter-gpu-manager-4-core there, from NVIDIA's repository"
}
SCRIPT = """
dcgmi discovery -l >/dev/null 2>&1 || { nv-hostengine >/dev/null 2>&1; sleep 2; started=yes; }
dcgmi diag -r "$1" -j; code=$?
[ -n "$started" ] && nv-hostengine -t >/dev/null 2>&1
exit $code
"""
BY_LEVEL: Mapping[int, tuple[str, ...]] = {
    1: (),
    2: ("memory", "pcie"),
    3: ("diagnostic", "targeted_stress", "targeted_power", "memory_bandwidth"),
    4: ("memtest", "pulse_test"),
}
"""Tests that a level adds: each GPU must have a verdict on all tests up to its level. The tests of level 1 differ by release."""
OPTIONAL = frozenset({"nvbandwidth", "eud", "eud_test", "cpu_eud", "nccl_tests", "context_create"})
"""Tests that DCGM skips on good hosts: nvbandwidth is supported on few products, the others are in separate packages."""
SERVICE = "drain the host: appliance health, then run NVIDIA's field diagnostic for a replacement"
SKIPPED = "limits of that test may be missing for this product (DCGM's diag-skus.yaml), or MIG is enabled: check DCGM's log"


def run(view: View, remote: Remote, level: int = 0, book: Book | None = None) -> Outcome:
    """Returns one result for each GPU of each host, and one for other components. ``level`` 0: that of site or profile, otherwise 2."""
    wanted = int((view.number(CHECK) or (0, ""))[0])
    level = level or wanted or DEFAULT
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    if not hosts:
        return Outcome((not_assessed(CLUSTER, "the site has no GPU host").of(CHECK),))
    count = gpu_least(view.profile, view.site)
    task = Task("dcgm", SCRIPT, SECONDS[level], TOOLS, f"level {level}", (str(level),), gpus=count)
    said = on_each(view, HostAccess(remote, book or Memory()), task, hosts)
    results = [
        _short_of(result, level, wanted)
        for host, one in said.items()
        for result in judge(host, one, gpu_count(view.profile, view.site.host(host)), level)
    ]
    raw = tuple(
        Raw(f"level{level}-{host}.json", one.output or one.cause) for host, one in said.items()
    )
    return Outcome(tuple(results), tables=tuple(_tables(said)), raw=raw)


def _short_of(result: CheckResult, level: int, wanted: int) -> CheckResult:
    """A pass at a lower level than required is not a pass."""
    if result.status is not Status.PASS or level >= wanted:
        return result
    cause = f"passed level {level}; site or profile require level {wanted}"
    fix = f"appliance validate dcgm --level {wanted}"
    return result.model_copy(update={"status": Status.NOT_ASSESSED, "cause": cause, "fix": fix})


def judge(host: str, said: HostOutput, gpus: int, level: int) -> Iterator[CheckResult]:
    """Checks that every GPU that the profile expects has a verdict: a GPU that DCGM does not list does not pass."""
    if said.trouble:
        yield said.verdict(CHECK, host)
        return
    try:
        report = read(said.output)
    except Unread as error:
        ended = f"; it ended with {said.code}: {said.last}" if said.code else ""
        fix = "systemctl status nvidia-dcgm there; dcgmi diag -r 1 by hand"
        yield judged(host, Status.ERROR, cause=f"{error}{ended}", fix=fix).of(CHECK)
        return
    common = [v for v in report.verdicts if v.gpu is None]
    found = sorted({v.gpu for v in report.verdicts if v.gpu is not None} | set(range(gpus)))
    for gpu in found:
        own = [v for v in report.verdicts if v.gpu == gpu]
        yield _of_gpu(place(host, f"GPU {gpu}"), gpu, own, report, level)
    if common:
        yield _of(Place(host), common, report, level)
    if said.code and all(v.word in {Word.PASS, Word.SKIP} for v in report.verdicts):
        cause = f"dcgmi ended with {said.code}, but no test in its report failed"
        at = place(host, "diagnostic")
        yield judged(at, Status.ERROR, cause=cause, fix="read DCGM's log on the host").of(CHECK)


def _of_gpu(at: Place, gpu: int, own: Sequence[Verdict], report: Report, level: int) -> CheckResult:
    """The GPU's own verdicts; those on several GPUs at once (3.x) count for each that they name."""
    common = [v for v in report.verdicts if v.gpu is None and gpu in v.of]
    known = {_name(v.test) for v in (*own, *common)}
    lacking = [
        name for at in range(level + 1) for name in BY_LEVEL.get(at, ()) if name not in known
    ]
    if any(v.word is Word.FAIL for v in own) or not (lacking or not known):
        return _of(at, own or common, report, level)
    cause = (
        f"DCGM has no result for it from {first_few(lacking)}" if own else "DCGM did not report it"
    )
    fix = "check that it is on the PCI bus: appliance health; then run dcgmi diag by hand and check DCGM's log"
    return not_assessed(at, cause, fix=fix, evidence=_evidence(report, level)).of(CHECK)


def _name(test: str) -> str:
    """3.x writes "GPU Memory" and "Memory Bandwidth" where 4.x has memory and memory_bandwidth."""
    return "_".join(test.lower().removeprefix("gpu ").split())


def _of(at: Place, verdicts: Sequence[Verdict], report: Report, level: int) -> CheckResult:
    """Failure before warning before what did not run; a pass only where something ran and nothing was left out."""
    by_word = {word: [v for v in verdicts if v.word is word] for word in Word}
    spared = [v for v in by_word[Word.SKIP] if _name(v.test) in OPTIONAL]
    left = [v for v in by_word[Word.SKIP] if _name(v.test) not in OPTIONAL]
    skipped = f"; not run here: {_verdicts_text(spared)}" if spared else ""
    shown = {"evidence": _evidence(report, level) + skipped}
    if bad := by_word[Word.FAIL]:
        return failed(at, _verdicts_text(bad), SERVICE, **shown).of(CHECK)
    if odd := by_word[Word.UNKNOWN] + by_word[Word.NOT_RUN]:
        return not_assessed(at, f"no verdict on {_verdicts_text(odd)}", **shown).of(CHECK)
    if doubtful := by_word[Word.WARN]:
        return warned(
            at, _verdicts_text(doubtful), "fix the cause of the warning, then run it again", **shown
        ).of(CHECK)
    if left or not by_word[Word.PASS]:
        cause = f"skipped: {_verdicts_text(left or spared)}"
        return not_assessed(at, cause, fix=SKIPPED, **shown).of(CHECK)
    return passed(at, len(by_word[Word.PASS]), unit="tests", **shown).of(CHECK)


def _verdicts_text(verdicts: Sequence[Verdict]) -> str:
    return first_few([f"{v.test}: {v.said}" if v.said else v.test for v in verdicts])


def _evidence(report: Report, level: int) -> str:
    return f"dcgmi diag -r {level}, DCGM {report.version or 'of unknown release'}"


def _tables(said: dict[str, HostOutput]) -> Iterator[Table]:
    """Host against test: the worst word of its GPUs."""
    order = (Word.FAIL, Word.UNKNOWN, Word.NOT_RUN, Word.WARN, Word.SKIP, Word.PASS)
    words: dict[str, dict[str, Word]] = {}
    for host, one in said.items():
        try:
            report = read(one.output)
        except Unread:
            continue
        for verdict in report.verdicts:
            row = words.setdefault(host, {})
            row[verdict.test] = min(row.get(verdict.test, Word.PASS), verdict.word, key=order.index)
    tests = list(dict.fromkeys(test for row in words.values() for test in row))
    if tests:
        rows = tuple((host, *(row.get(test, "") for test in tests)) for host, row in words.items())
        yield Table(title="DCGM diagnostics by host", columns=("host", *tests), rows=rows)
