"""appliance.api: the example of its page, on a site whose hosts do not answer; errors never end the process."""

import errno
import inspect
import re
import sys
import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from appliance import api
from appliance.actions.deployment import plan as plan_action
from appliance.models.events import HostDone, Message
from appliance.models.plan import Plan
from appliance.models.run import StageState
from appliance.report.progress import JsonObserver
from tests.support.command_line import run
from tests.support.site_files import ready_site

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/api.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two GPU hosts and a head that no one reaches: unit tests have no network."""
    return ready_site(tmp_path / "mysite", hosts=2)


def test_example_of_the_page_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    names: dict[str, object] = {}
    exec(compile(EXAMPLE, "docs/api.md", "exec"), names)
    assert len(EXAMPLE.splitlines()) <= 15
    plan, health = names["plan"], names["health"]
    assert isinstance(plan, api.Plan)
    assert isinstance(health, api.Health)
    assert plan.unreachable == ("gpu-1",)
    assert health.verdict is api.Verdict.FAILED
    lines = capsys.readouterr().out.splitlines()
    failed = [r for r in health.results if r.status is api.Status.FAIL]
    assert [line.split()[:2] for line in lines] == [[r.host, r.id] for r in failed]
    assert failed


def test_page_names_everything_of_the_interface() -> None:
    public = [name for name, _ in inspect.getmembers(api.Site) if not name.startswith("_")]
    for name in (*public, "read_events", "VERSION"):
        assert re.search(rf"`\.?{name}\b", PAGE), name
    assert all(hasattr(api, name) for name in api.__all__)
    assert (ROOT / "appliance/py.typed").is_file()


def test_site_is_read_without_contact(folder: Path) -> None:
    site = api.Site(folder)
    assert (site.name, site.folder) == ("mysite", folder)
    assert [host.name for host in site.hosts] == ["head", "gpu-1", "gpu-2"]
    assert site.class_of("gpu-1") == "hpc"
    assert set(site.ansible_inventory()) >= {"_meta", "all", "gpu"}
    assert len(site.prometheus_targets()) == 5


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda site: api.Site(site.folder / "nowhere"), "nowhere does not exist"),
        (lambda site: api.Site(site.folder, "nothing"), "nothing"),
        (lambda site: site.plan(limit=["gpu-9"]), "--hosts gpu-9: no such host"),
        (lambda site: site.plan(stages=["nope"]), "no stage is called nope"),
        (lambda site: site.plan(until="nope"), "no stage is called nope"),
        (lambda site: site.health(hosts=["gpu-9"]), "--hosts gpu-9: no such host"),
        (lambda site: site.health(checks=["nope"]), "unknown check: nope"),
    ],
)
def test_bad_input_is_a_config_error(
    call: Callable[[api.Site], object], said: str, folder: Path
) -> None:
    with pytest.raises(api.ConfigError) as raised:
        call(api.Site(folder))
    assert said in raised.value.message
    assert raised.value.exit_code == 2


def test_error_of_the_machine_is_an_error_of_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Plan:
        raise OSError(errno.ENOSPC, "No space left on device", "/srv/site")

    monkeypatch.setattr(plan_action, "make", full)
    with pytest.raises(api.ApplianceError) as raised:
        api.Site(folder).plan()
    assert raised.value.message == "/srv/site: no space left"
    assert raised.value.hint.startswith("free space there")


def test_defect_keeps_its_traceback_and_hooks_are_those_of_the_caller(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sys.excepthook, threading.excepthook
    api.Site(folder).health(checks=["base.clock"])
    assert (sys.excepthook, threading.excepthook) == before

    def broken(*_: object) -> Plan:
        raise RuntimeError("a defect")

    monkeypatch.setattr(plan_action, "make", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        api.Site(folder).plan()


def test_events_are_passed_on(folder: Path) -> None:
    seen: list[api.Event] = []
    api.Site(folder).plan(on_event=seen.append)
    (facts,) = [event for event in seen if event.event == "facts_taken"]
    assert facts.hosts == ("head", "gpu-1", "gpu-2")


def test_printed_events_are_read_again() -> None:
    events: list[api.Event] = [
        Message(text="hello"),
        HostDone(stage="base", host="gpu-1", state=StageState.DONE),
    ]
    stream = StringIO()
    with JsonObserver(stream) as observer:
        for event in events:
            observer.handle(event)
    assert list(api.read_events(stream.getvalue().splitlines())) == events


@pytest.mark.parametrize("line", ["", "no json", "{}", '{"event": "of_tomorrow"}'])
def test_other_line_is_refused_with_its_number(line: str) -> None:
    good = Message(text="hello").model_dump_json()
    with pytest.raises(api.ApplianceError, match="line 2 is not an event of this version"):
        list(api.read_events([good, line]))


def test_health_is_the_document_of_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    health = api.Site(folder).health(checks=["base.clock"])
    code = run(monkeypatch, "health", "--json", "--check", "base.clock", "--site", str(folder))
    printed = api.Health.model_validate_json(capsys.readouterr().out)
    assert code == health.verdict.exit_code
    assert printed.model_copy(update={"seconds": health.seconds}) == health
