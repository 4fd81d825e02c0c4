"""What the pages say of single states: what is unknown is never shown as good."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from appliance.actions.monitoring.health import Health
from appliance.actions.sites.last_deployment import SiteRecord
from appliance.console.loaded import Failure, Loaded
from appliance.console.pages.deployment import deployment_page
from appliance.console.pages.findings import findings_page
from appliance.console.pages.hosts import MISSING, gpu_cells, hosts_page, rail_cells
from appliance.console.pages.queues import queues_page
from appliance.console.pages.site import site_page
from appliance.console.sources import Looked, Waiting
from appliance.console.state import State
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Status
from appliance.models.run import Expected, GpuRecord, HostRecord, PortRecord
from appliance.report.symbols import STATUS
from tests.support.console_site import NOW

EIGHT = Expected(gpus=8, ports=2, rate_gbps=200)


def result(check: str, status: Status, *parts: str, **more: Any) -> CheckResult:
    target = f"gpu-1/{','.join(parts)}" if parts else "gpu-1"
    return CheckResult(id=check, target=target, host="gpu-1", parts=parts, status=status, **more)


def host(gpus: int = 8, *ports: str, **more: Any) -> HostRecord:
    return HostRecord(
        name="gpu-1",
        roles=("gpu",),
        gpus=tuple(GpuRecord(index=n, name="H100") for n in range(gpus)),
        ports=tuple(PortRecord(device=f"mlx5_{n}", port=1, state=s) for n, s in enumerate(ports)),
        expected=EIGHT,
        **more,
    )


def looked(*results: CheckResult, records: tuple[HostRecord, ...] = (), **more: Any) -> State:
    health = Health("acme", 1, 1.0, (), results, {}, records=records, **more)
    return State("acme", look=Loaded(Looked(health), NOW), time=NOW)


def signs(state: State) -> dict[str, str]:
    return {row.key: row.line.plain[0] for row in site_page(state).rows}


def marks(record: HostRecord, *results: CheckResult) -> str:
    return "".join(cell.sign.mark for cell in gpu_cells(record, results))


def rails(record: HostRecord, *results: CheckResult) -> str:
    return "".join(cell.sign.mark for cell in rail_cells(record, results))


GOOD = result("gpu.ecc", Status.PASS)


@pytest.mark.parametrize(
    ("record", "results", "cells"),
    [
        (host(), [GOOD], "✓✓✓✓✓✓✓✓"),
        (host(), [], "????????"),
        (host(7), [GOOD], "✓✓✓✓✓✓✓M"),
        (host(0, unreachable="no answer"), [], "????????"),
        (host(0), [GOOD], "????????"),
        (host(), [GOOD, result("gpu.pcie", Status.FAIL, "GPU 2", "GPU 5")], "✓✓✗✓✓✗✓✓"),
        (host(), [GOOD, result("gpu.xid", Status.FAIL, "GPU 0")], "✗✓✓✓✓✓✓✓"),
        (host(), [GOOD, result("gpu.temperature", Status.WARN, "GPU 7")], "✓✓✓✓✓✓✓!"),
        (host(), [GOOD, result("gpu.driver", Status.FAIL)], "✗✗✗✗✗✗✗✗"),
        (host(), [GOOD, result("gpu.remap", Status.NOT_ASSESSED, "GPU 1")], "✓?✓✓✓✓✓✓"),
        (host(), [GOOD, result("gpu.remap", Status.NOT_ASSESSED)], "????????"),
        (host(), [GOOD, result("gpu.remap", Status.NOT_ASSESSED, required=False)], "✓✓✓✓✓✓✓✓"),
        (host(), [result("gpu.ecc", Status.SKIP)], "????????"),
        (host(), [result("gpu.services", Status.PASS, "daemon")], "????????"),
        (host(), [result("base.clock", Status.PASS)], "????????"),
    ],
)
def test_a_cell_shows_the_worst_that_is_known_of_its_gpu(
    record: HostRecord, results: list[CheckResult], cells: str
) -> None:
    assert marks(record, *results) == cells


@pytest.mark.parametrize(
    ("record", "results", "cells"),
    [
        (host(8, "ACTIVE", "ACTIVE"), [result("fabric.state", Status.PASS)], "✓✓"),
        (host(8, "ACTIVE", "DOWN"), [result("fabric.state", Status.PASS)], "✓✗"),
        (host(8, "ACTIVE"), [result("fabric.state", Status.PASS)], "✓M"),
        (host(8), [result("fabric.state", Status.PASS)], "??"),
        (host(8, "ACTIVE", "ACTIVE"), [], "??"),
        (
            host(8, "ACTIVE", "ACTIVE"),
            [result("fabric.state", Status.PASS), result("fabric.cabling", Status.FAIL, "mlx5_1")],
            "✓✗",
        ),
    ],
)
def test_a_rail_is_good_only_if_it_is_active(
    record: HostRecord, results: list[CheckResult], cells: str
) -> None:
    assert rails(record, *results) == cells


def test_signs_of_cells_differ_without_colour() -> None:
    shown = [*(sign for status, sign in STATUS.items() if status is not Status.SKIP), MISSING]
    for glyphs in ([s.mark for s in shown], [s.plain for s in shown]):
        assert len(set(glyphs)) == len(shown)


def test_a_silent_host_is_named_with_its_reason() -> None:
    page = hosts_page(looked(records=(host(0, unreachable="connection refused"),)))
    assert "no answer: connection refused" in page.rows[0].line.plain
    assert page.first == "gpu-1"


def test_nothing_is_good_before_anything_was_read() -> None:
    assert set(signs(State("acme", time=NOW)).values()) == {"?"}


@pytest.mark.parametrize(
    ("change", "row", "sign"),
    [
        ({"results": (result("gpu.ecc", Status.PASS),)}, "Health", "✓"),
        ({"results": (result("gpu.ecc", Status.FAIL),)}, "Health", "✗"),
        ({"results": (result("gpu.ecc", Status.NOT_ASSESSED),)}, "Health", "?"),
        ({"records": (host(8, "ACTIVE", "ACTIVE"),)}, "Hosts", "✓"),
        ({"records": (host(7, "ACTIVE", "ACTIVE"),)}, "Hosts", "✗"),
        ({"records": (host(8, "ACTIVE", "DOWN"),)}, "Hosts", "✗"),
        ({"records": (host(0, unreachable="x"),)}, "Hosts", "✗"),
        ({}, "Changed", "?"),
        ({}, "Accepted", "?"),
        ({"leases": "gpu-1 is being changed by ada"}, "Lease", "!"),
        ({}, "Lease", "✓"),
        ({"records": (host(0, unreachable="x"),)}, "Lease", "?"),
    ],
)
def test_the_first_page_shows_each_state(change: dict[str, Any], row: str, sign: str) -> None:
    state = looked()
    assert state.look.value
    health = replace(state.look.value.health, **change)
    state.look = Loaded(Looked(health), NOW)
    state.record = Loaded(SiteRecord((), None, {}), NOW)
    assert signs(state)[row] == sign


@pytest.mark.parametrize(
    ("found", "sign", "said"),
    [
        (Waiting(absent=("no queues of Kubernetes", "no partitions")), "?", "no queues of"),
        (Waiting(missing=(Failure("queues: no answer", "start it"),)), "?", "queues: no answer"),
    ],
)
def test_queues_that_were_not_read_are_not_idle(found: Waiting, sign: str, said: str) -> None:
    state = replace(looked(), waiting=Loaded(found, NOW))
    assert signs(state)["Waiting"] == sign
    (line,) = (row.line.plain for row in site_page(state).rows if row.key == "Waiting")
    assert said in line
    head = "\n".join(text.plain for text in queues_page(state).head)
    assert said in head
    assert all(failure.fix in head for failure in found.missing)


def test_a_plan_without_answers_does_not_say_that_there_is_nothing_to_do() -> None:
    def shown(action: Action) -> str:
        cells = (HostStage(stage="base", host="head", action=action, why="w"),)
        plan = Plan(site="acme", profile="hpc", hosts=("head",), stages=("base",), cells=cells)
        state = replace(looked(), plan=Loaded(plan, NOW), shows_plan=True)
        return deployment_page(state).head[0].plain

    assert shown(Action.UNKNOWN).startswith("1 of 1 hosts did not answer")
    assert shown(Action.SKIP).startswith("nothing to do")
    assert shown(Action.RUN).startswith("1 of 1 hosts to change")


def test_consequences_of_consequences_are_indented_and_a_circle_ends() -> None:
    chain = [
        result("gpu.error", Status.FAIL, cause="a"),
        result("gpu.count", Status.FAIL, cause="b", explained_by="gpu.error gpu-1"),
        result("slurm.gres", Status.FAIL, cause="c", explained_by="gpu.count gpu-1"),
    ]
    lines = [row.line.plain for row in findings_page(looked(*chain)).rows]
    assert [line.index("✗") for line in lines] == [0, 3, 6]
    ring = [
        result("gpu.error", Status.FAIL, cause="a", explained_by="gpu.count gpu-1"),
        result("gpu.count", Status.FAIL, cause="b", explained_by="gpu.error gpu-1"),
    ]
    assert findings_page(looked(*ring)).rows


def test_no_text_of_a_host_is_markup_or_moves_the_cursor() -> None:
    evil = "[red]x[/red] \x1b[2J"
    page = findings_page(looked(result("gpu.ecc", Status.FAIL, cause=evil, fix=evil)))
    for text in (page.rows[0].line, *page.rows[0].detail):
        assert "\x1b" not in text.plain
    assert "[red]x[/red]" in page.rows[0].line.plain


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        (Loaded[int](), "not read yet"),
        (Loaded[int]().begun(), "not read yet, reading"),
        (Loaded(1, NOW), "read 0 seconds ago"),
        (Loaded(1, NOW).begun(), "read 0 seconds ago, reading"),
        (Loaded(1, NOW).ended(Failure("x"), NOW), "read 0 seconds ago"),
    ],
)
def test_the_age_of_a_figure(loaded: Loaded[int], said: str) -> None:
    assert loaded.age(NOW) == said


def test_a_short_age_has_the_largest_unit() -> None:
    times = (0, 119, 120, 7200, 200_000)
    found = [Loaded(1, NOW).short_age(NOW + timedelta(seconds=n)) for n in times]
    assert found == ["0s", "119s", "2m", "2h", "2d"]
    assert Loaded[int]().short_age(NOW) == "-"
