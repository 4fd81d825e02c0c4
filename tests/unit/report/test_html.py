"""The page a customer signs: complete, self-contained, escaped, and honest."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from appliance.checks.check import failed
from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState
from appliance.models.images import Held
from appliance.models.result import CheckResult, Status, Verdict, place
from appliance.models.run import (
    HostRecord,
    KeptFile,
    Plot,
    RunRecord,
    Series,
    StageOutcome,
    StageState,
    Table,
)
from appliance.models.waiver import Waiver
from appliance.report.html import render
from appliance.report.html.checks import bar, open_points, sections
from appliance.report.html.matrix import matrix
from appliance.report.html.page import figures, sentence, texts
from appliance.report.html.plot import drawing
from appliance.report.html.timeline import timeline

RecordBuilder = Callable[..., RunRecord]
GPU_HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
VOID = {"meta", "col", "input", "br"}


class Page(HTMLParser):
    """Reads a page, refuses tags that do not close, and keeps what tests ask for."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(source)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        named = {name: value or "" for name, value in attrs}
        assert not [name for name in named if name.startswith("on")]
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named["href"]] if "href" in named else []
        self.loads += [named["src"]] if "src" in named else []
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack[-1:] not in (["script"], ["style"]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_it_loads_nothing(sample: RunRecord) -> None:
    source = render(sample)
    page = Page(source)
    assert page.loads == []
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert not re.search(r"https?://|@import|url\(", source)
    assert "default-src 'none'" in source


def test_the_policy_admits_our_script_alone(sample: RunRecord) -> None:
    source = render(sample)
    script = re.search(r"<script>(.*?)</script>", source, re.DOTALL)
    assert script is not None
    digest = b64encode(sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in source


def test_every_link_leads_to_a_place_in_the_page(sample: RunRecord) -> None:
    page = Page(render(sample))
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_the_first_screen_holds_the_answer(sample: RunRecord) -> None:
    page = Page(render(sample))
    first = page.text.partition("Hosts and checks")[0]
    for said in (
        "FAILED", "acme", "2026-11-20 13:05 UTC", "kim on head", "32 of 32", "31 of 32",
        "183,655", "99.2 % of 185,090", "Not assessed", "Burn-in: no run longer",
        "os.smart on nas1", "GPU 5 runs at Gen4 x8", "check power and cable of nas1",
    ):  # fmt: skip
        assert said in first


def test_everything_recorded_is_on_the_page(sample: RunRecord) -> None:
    text = Page(render(sample)).text
    for host in sample.hosts:
        assert all(gpu.serial in text and gpu.uuid in text for gpu in host.gpus)
        assert all(port.guid in text for port in host.ports)
    for result in sample.results:
        assert result.cause in text
        assert result.fix in text
        assert result.limit_source in text
    assert all(evidence.sha256 in text for evidence in sample.evidence)
    assert "array reports its disks itself" in text
    assert "For the customer" in text


HOSTILE = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\"' {{ 7 * 7 }}"


def test_nothing_a_host_says_becomes_markup(build: RecordBuilder) -> None:
    outcome = StageOutcome(
        stage=HOSTILE,
        host=HOSTILE,
        state=StageState.FAILED,
        cause=HOSTILE,
        fix=HOSTILE,
        seconds=3,
        started="2026-11-20T13:05:00Z",
    )
    result = CheckResult(
        id=HOSTILE,
        target=HOSTILE,
        status=Status.FAIL,
        value=HOSTILE,
        unit=HOSTILE,
        limit=HOSTILE,
        limit_source=HOSTILE,
        cause=HOSTILE,
        fix=HOSTILE,
        evidence=HOSTILE,
    )
    plot = Plot(
        title=HOSTILE,
        x_label=HOSTILE,
        y_label=HOSTILE,
        series=(Series(label=HOSTILE, points=((1, 1),)),),
    )
    record = build(
        site=HOSTILE, user=HOSTILE, profile=HOSTILE, profile_title=HOSTILE, run=HOSTILE, simulated=(HOSTILE,),
        appliance=HOSTILE, control_host=HOSTILE, verdict=Verdict.FAILED, not_assessed=(HOSTILE,),
        hosts=(HostRecord(name=HOSTILE, unreachable=HOSTILE),), outcomes=(outcome,), results=(result,),
        versions={HOSTILE: {HOSTILE: HOSTILE}}, waivers=(Waiver(check=HOSTILE, target=HOSTILE, reason=HOSTILE),),
        tables=(Table(title=HOSTILE, columns=(HOSTILE,), rows=((HOSTILE,),), note=HOSTILE, plot=plot),),
        evidence=(KeptFile(path=HOSTILE, sha256=HOSTILE, size=1),),
    )  # fmt: skip
    source = render(record)
    page = Page(source)
    assert page.tags["script"] == 1
    assert page.tags["img"] == 0
    assert "{{ 7 * 7 }}" in page.text
    assert "<script>alert" not in source


def test_a_run_that_judged_nothing_proves_nothing(build: RecordBuilder) -> None:
    text = Page(render(build())).text
    assert "INCOMPLETE" in text
    assert "it proves nothing" in text
    assert "not measured" in text
    assert "PASSED" not in text


def test_a_run_that_only_skipped_is_incomplete_and_says_why(build: RecordBuilder) -> None:
    skipped = CheckResult(id="gpu.ecc", target="g", status=Status.SKIP, cause="not asked for")
    record = build(results=(skipped,))
    assert "a required check has no verdict" in sentence(record)
    assert "gpu.ecc on g: not asked for" in Page(render(record)).text


def test_simulated_hardware_is_never_offered_for_signature(build: RecordBuilder) -> None:
    text = Page(render(build(simulated=("gpu", "fabric")))).text
    assert "Simulated hardware: gpu, fabric." in text
    assert "Not for signature" in text
    assert "For the customer" not in text


def test_a_host_that_did_not_answer_is_named_in_matrix_and_inventory(sample: RunRecord) -> None:
    text = Page(render(sample)).text
    assert "No answer from nas1." in text
    assert "not reached: no answer on port 22" in text


def test_a_cell_shows_the_worst_part_of_a_host(sample: RunRecord) -> None:
    heat = matrix(sample)
    rows = {row.id: row for area in heat.areas for row in area.rows}
    column = heat.columns.index("gpu-3")
    assert rows["gpu.pcie"].cells[column].status == "fail"
    assert rows["gpu.pcie"].cells[column].parts == "1/8"
    assert rows["gpu.pcie"].cells[heat.columns.index("head")].status == ""
    assert rows["nccl.all_reduce"].cells[heat.columns.index("cluster")].status == "pass"


@pytest.mark.parametrize(("checks", "pages"), [(2, 0), (12, 0), (13, 1)])
def test_a_few_checks_begin_no_page_of_their_own_on_paper(
    build: RecordBuilder, checks: int, pages: int
) -> None:
    results = tuple(
        CheckResult(id=f"gpt3.{n}", target="cluster", status=Status.PASS) for n in range(checks)
    )
    page = render(build(results=results, hosts=(), tables=()))
    assert page.count('<section class="page">') == pages


def test_of_simulated_hardware_no_gate_says_how_to_close_it(build: RecordBuilder) -> None:
    gate = Gate(id="dcgm.diag", title="x", state=GateState.OPEN, close="appliance validate dcgm")
    found = {"acceptance": Acceptance(verdict=Accepted.NOT_YET, gates=(gate,))}
    assert "appliance validate dcgm" in render(build(simulated=(), **found))
    assert "appliance validate dcgm" not in render(build(simulated=("gpu",), **found))


def test_sixty_four_hosts_share_columns_and_rows(build: RecordBuilder) -> None:
    names = [f"gpu-{n}" for n in range(1, 65)]
    results = tuple(
        CheckResult(
            id="gpu.ecc",
            target=f"{name}/GPU {g}",
            status=Status.FAIL if name == "gpu-9" else Status.PASS,
            value=0,
        )
        for name in names
        for g in range(8)
    )
    record = build(hosts=tuple(HostRecord(name=n) for n in names), results=results)
    assert matrix(record).columns == ("gpu-[1-8,10-64]", "gpu-9")
    targets = [line.targets for section in sections(record) for line in section.lines]
    assert targets == ["gpu-9 GPU [0-7]", "gpu-[1-8,10-64] GPU [0-7]"]
    Page(render(record))


def _rows(record: RunRecord) -> list[tuple[str, str, str]]:
    return [(line.targets, line.cause, line.fix) for s in sections(record) for line in s.lines]


def test_hosts_whose_words_differ_in_their_own_name_share_a_row(build: RecordBuilder) -> None:
    results = [
        CheckResult(
            id="a.b",
            target=name,
            status=Status.FAIL,
            cause=f"{name} does not see gpu-1",
            fix=f"appliance deploy --hosts {name}",
        )
        for name in ("gpu-2", "gpu-3", "gpu-10")
    ]
    words = {"cause": "gpu-9 does not see gpu-1", "fix": "appliance deploy --hosts gpu-9"}
    other = results[0].model_copy(update={"target": "gpu-4", **words})
    record = build(results=(*results, other))
    assert _rows(record) == [
        ("gpu-[2-3,10]", "HOST does not see gpu-1", "appliance deploy --hosts HOST"),
        ("gpu-4", "gpu-9 does not see gpu-1", "appliance deploy --hosts gpu-9"),
    ]
    assert _rows(build(results=results[:1])) == [("gpu-2", results[0].cause, results[0].fix)]


def test_a_name_that_another_begins_with_is_not_taken_for_it(build: RecordBuilder) -> None:
    results = [
        CheckResult(id="a.b", target=name, status=Status.FAIL, cause="see gpu-10")
        for name in ("gpu-1", "gpu-2")
    ]
    assert [cause for _, cause, _ in _rows(build(results=results))] == ["see gpu-10"]


def test_words_that_all_share_stay_as_they_are_also_where_they_name_some_of_the_hosts(
    build: RecordBuilder,
) -> None:
    results = [
        CheckResult(id="a.b", target=f"gpu-{n}", status=Status.WARN, cause="gpu-2, gpu-3 are alone")
        for n in (1, 2, 3)
    ]
    assert _rows(build(results=results)) == [("gpu-[1-3]", "gpu-2, gpu-3 are alone", "")]


def test_evidence_of_what_passed_stands_with_the_values_and_of_what_did_not_apart(
    build: RecordBuilder,
) -> None:
    def results(status: Status) -> tuple[CheckResult, ...]:
        return tuple(
            CheckResult(id="a.b", target=f"gpu-{n}", status=status, value=n, evidence=f"saw {n}")
            for n in (1, 2)
        )

    good = [line for s in sections(build(results=results(Status.PASS))) for line in s.lines]
    assert [line.each for line in good] == [(("gpu-1", "1 (saw 1)"), ("gpu-2", "2 (saw 2)"))]
    bad = [line for s in sections(build(results=results(Status.FAIL))) for line in s.lines]
    assert [(line.targets, line.evidence) for line in bad] == [
        ("gpu-1", "saw 1"),
        ("gpu-2", "saw 2"),
    ]


def _many(sample: RunRecord, count: int) -> RunRecord:
    """So many GPU hosts, each with serials and values of its own, two of them bad."""
    kind = next(host for host in sample.hosts if host.gpus)
    hosts, results, outcomes = [], [], []
    for n in range(1, count + 1):
        gpus = tuple(
            g.model_copy(update={"serial": f"13{n:06}{g.index:05}", "uuid": f"{g.uuid}{n:06}"})
            for g in kind.gpus
        )
        ports = tuple(
            port.model_copy(update={"guid": f"0xb83fd2{n:06x}{i:04x}"})
            for i, port in enumerate(kind.ports)
        )
        name = f"gpu-{n}"
        hosts.append(kind.model_copy(update={"name": name, "gpus": gpus, "ports": ports}))
        bad = n in {7, 70}
        for result in sample.results:
            if result.host == ("gpu-3" if bad else "gpu-2"):
                at = result.target.replace(str(result.host), name)
                value = result.value * n if isinstance(result.value, float) else result.value
                results.append(result.model_copy(update={"target": at, "value": value}))
        outcomes += [
            o.model_copy(
                update={"host": name, "seconds": o.seconds + n / 10}
                | ({"state": StageState.FAILED} if bad else {})
            )
            for o in sample.outcomes
            if o.host == "gpu-2"
        ]
    changed = {"hosts": hosts, "results": results, "outcomes": outcomes}
    return RunRecord.model_validate(sample.model_dump() | changed)


def test_a_page_of_many_hosts_stays_small_and_names_each_of_them(sample: RunRecord) -> None:
    """1,000 of the largest hosts are to fit into 1.5 MB, which a browser opens and a mail carries."""
    some, more = _many(sample, 100), _many(sample, 200)
    small, large = (render(record) for record in (some, more))
    assert len(large.encode()) - len(small.encode()) < 100 * 1500
    text = Page(large).text
    for host in more.hosts:
        assert f" {host.name} " in text
        assert all(gpu.serial in text and gpu.uuid in text for gpu in host.gpus)
        assert all(port.guid in text for port in host.ports)
    bad = [line.targets for s in sections(more) for line in s.lines if line.status == "fail"]
    assert bad == ["gpu-[7,70] GPU 5", "gpu-[7,70] GPU 5"]


def test_neighbours_that_ended_alike_share_a_bar_and_a_failure_has_its_own(
    sample: RunRecord,
) -> None:
    drawn = timeline(_many(sample, 200))
    assert drawn is not None
    assert drawn.folded
    base = [box for box in drawn.boxes if ": base " in box.label]
    assert len(base) < 60
    assert [box.label.partition(":")[0] for box in base if box.state == "failed"] == [
        "gpu-7",
        "gpu-70",
    ]
    assert base[0].label.startswith("gpu-[1-5]: base done")
    few = timeline(sample)
    assert few is not None
    assert not few.folded


def test_values_that_differ_share_a_row_and_are_all_listed(sample: RunRecord) -> None:
    lines = [
        line for section in sections(sample) for line in section.lines if line.id == "gpu.bandwidth"
    ]
    assert [line.status for line in lines] == ["fail", "pass"]
    assert lines[1].value == "24.15 to 25 GB/s"
    assert sum(len(values.split(", ")) for _, values in lines[1].each) == 31
    assert [target.split()[0] for target, _ in lines[1].each] == list(GPU_HOSTS)


def test_very_long_causes_and_other_scripts_survive(build: RecordBuilder) -> None:
    cause = "長い理由 " + "x" * 5000 + " ünïcode ✗"
    bad = CheckResult(id="a.b", target="hôte-1", status=Status.FAIL, cause=cause)
    text = Page(render(build(site="Zürich", verdict=Verdict.FAILED, results=(bad,)))).text
    assert cause in text
    assert "hôte-1" in text


def test_outlying_versions_are_marked_in_words_too(sample: RunRecord) -> None:
    text = Page(render(sample)).text
    assert "24.11.4 differs" in text
    assert "92.00.45.00.05 differs" in text
    assert "24.11.5 differs" not in text


def test_images_of_the_cluster_stand_with_what_runs_and_what_holds_them(
    build: RecordBuilder,
) -> None:
    seen = [
        {"image": "a.b/c:1", "identity": "digest sha256:1", "hosts": ["gpu-1", "gpu-2"]},
        {"image": "a.b/c:1", "identity": "", "hosts": ["head"], "held": "cannot be compared"},
        {"image": "a.b/d:1", "identity": "id sha256:2", "hosts": ["head"], "held": Held.DIFFERS},
    ]
    words = " ".join(Page(render(build(images=seen))).words)
    for said in ("a.b/c:1", "digest sha256:1", "gpu-[1-2]", "not known", "id sha256:2"):
        assert said in words
    assert "✗ differs from images.lock" in words
    assert words.count("a.b/c:1") == 1, "a name stands once, with all that runs under it"
    assert "Images of the cluster" not in render(build())


def test_a_table_is_readable_without_eyes(sample: RunRecord) -> None:
    source = render(sample)
    assert '<th scope="col">' in source
    assert '<th scope="row">' in source
    assert 'aria-label="FAILED: 1 of 8 parts"' in source
    assert all(
        'role="img" aria-label=' in svg
        for svg in re.findall(r"<svg class=\"(?:plot|timeline)\"[^>]*>", source)
    )


@pytest.mark.parametrize(
    ("values", "limit", "drawn"),
    [
        ([10.0], 20, True), ([0], 0, False), ([-1.0], 20, False), (["x8"], "x16", False),
        ([True], True, False), ([None], 3, False), ([3], None, False), ([5.0, 1.0], 2, True),
    ],
)  # fmt: skip
def test_a_bar_is_drawn_only_for_numbers(
    values: list[float | str | None], limit: float | str | None, drawn: bool
) -> None:
    made = bar(values, limit)
    assert (made is not None) is drawn
    if made:
        assert list(made.values) == sorted(made.values)
        assert max(*made.values, made.limit) <= 100


def test_throughput_without_reference_is_not_compared(sample: RunRecord) -> None:
    bare = [
        m.model_copy(update={"detail": {"gpus": m.detail["gpus"]}}) for m in sample.measurements
    ]
    record = sample.model_copy(update={"measurements": tuple(bare)})
    assert figures(record)[2].share is None
    assert "no reference" in figures(record)[2].note


@pytest.mark.parametrize("points", [(), ((0, 0),), ((1, 0),)])
def test_a_plot_without_positive_points_is_left_out(
    points: tuple[tuple[float, float], ...],
) -> None:
    series = (Series(label="s", points=points),)
    assert drawing(Plot(title="t", x_label="x", y_label="y", series=series)) is None


def test_a_plot_begins_at_zero_and_holds_its_points() -> None:
    series = (Series(label="s", points=((1, 48_941), (4, 185_090))),)
    made = drawing(Plot(title="t", x_label="x", y_label="y", series=series))
    assert made is not None
    assert made.y_ticks[0].label == "0"
    assert made.y_ticks[0].at == made.bottom
    assert made.y_ticks[-1].label == "200,000"
    assert all(
        made.top <= m.y <= made.bottom and made.left <= m.x <= made.right
        for c in made.curves
        for m in c.marks
    )


def test_all_passed_reads_as_such(build: RecordBuilder) -> None:
    good = CheckResult(id="a.b", target="h", status=Status.PASS)
    record = build(verdict=Verdict.PASSED, results=(good,))
    text = Page(render(record)).text
    assert "PASSED" in text
    assert "Every check gave a verdict." in text
    assert "Open points" not in text


def test_a_failed_stage_is_told_once(sample: RunRecord) -> None:
    outcome = next(o for o in sample.outcomes if o.state is StageState.FAILED)
    stage = CheckResult(
        id=f"stage.{outcome.stage}", target=outcome.host, status=Status.FAIL, cause=outcome.cause
    )
    for results in (sample.results, (*sample.results, stage)):
        record = sample.model_copy(update={"results": results})
        first = Page(render(record)).text.partition("Hosts and checks")[0]
        assert first.count(outcome.cause) == 1


def test_what_a_record_says_of_its_gaps_is_not_said_again(sample: RunRecord) -> None:
    sample = sample.model_copy(update={"waivers": ()})
    told = sample.model_copy(update={"not_assessed": ("os.smart: no answer (nas1)",)})
    first, again = (Page(render(r)).text.partition("Hosts and checks")[0] for r in (sample, told))
    assert "storage.mount on head, gpu-[1-4]" in first
    assert again.count("os.smart") == 1
    assert "storage.mount on" not in again


def test_gates_of_checks_and_of_measurements_stand_on_the_page(sample: RunRecord) -> None:
    gates = (
        Gate(id="checks.gpu", title="12 checks passed now", state=GateState.PASSED),
        Gate(id="nccl.host", title="Collectives", state=GateState.OPEN, why="no measurement"),
    )
    found = Acceptance(verdict=Accepted.NOT_YET, gates=gates)
    page = render(sample.model_copy(update={"acceptance": found}))
    assert "12 checks passed now" in page
    assert "nccl.host" in page


def test_columns_of_words_are_read_from_their_left_and_numbers_from_their_right() -> None:
    rows = (("4n", "Difference", "2.78%", "3.79 in its text"), ("1n", "factor", "-", "by hand"))
    table = Table(title="t", columns=("where", "cell", "printed", "why"), rows=rows)
    assert texts(table) == (True, True, False, False)
    assert texts(table.model_copy(update={"rows": (*rows, ("2n", "x", "1", "from 2"))}))[3]
    assert texts(Table(title="t", columns=("a", "b"), rows=())) == (True, False)


def test_open_points_that_differ_in_their_evidence_alone_are_one(sample: RunRecord) -> None:
    """A page of GPUs that say the same hides what else is wrong; each serial stands with every check."""
    bad = [
        failed(place("gpu-1", f"GPU {n}"), "not divided", "apply", evidence=f"serial {n}").of(
            "gpu.mig"
        )
        for n in range(8)
    ]
    record = sample.model_copy(update={"results": tuple(bad)})
    assert [(p.targets, p.cause) for p in open_points(record)] == [
        ("gpu-1 GPU [0-7]", "not divided")
    ]
    (section,) = sections(record)
    assert len(section.lines) == 8


@pytest.mark.parametrize(("fewer", "gpus", "ports"), [(0, True, False), (2, False, None)])
def test_more_than_was_promised_hides_nothing_that_is_missing(
    sample: RunRecord, fewer: int, gpus: bool, ports: bool | None
) -> None:
    """32 GPUs and 31 ports are there: a surplus of one host may stand for what another lost."""
    promised = sample.expected
    expected = {"gpus": promised.gpus - fewer, "ports": promised.ports - fewer}
    found = figures(sample.model_copy(update={"expected": promised.model_copy(update=expected)}))
    assert (found[0].good, found[1].good) == (gpus, ports)


def test_what_stands_beside_an_axis_does_not_lie_on_its_numbers() -> None:
    """Four million over the middle of the axis lay under the word tokens/s."""
    plot = Plot(
        title="t",
        x_label="nodes",
        y_label="tokens/s",
        series=(Series(label="a", kind="measured", points=((1, 9e5), (4, 3_600_000))),),
    )
    drawn = drawing(plot)
    assert drawn
    assert all(tick.at > 12 + 8 for tick in drawn.y_ticks)


def test_a_run_that_asked_no_host_does_not_say_that_there_are_none(sample: RunRecord) -> None:
    gpus, ports, _ = figures(sample.model_copy(update={"hosts": ()}))
    assert (gpus.value, ports.value) == ("not asked", "not asked")
