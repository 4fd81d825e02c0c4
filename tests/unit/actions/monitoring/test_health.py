"""Since when a failure stands: from the look that first saw it, until one that found it good."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from appliance.actions.monitoring import health, posture_baseline
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.engine.look.kept_results import Kept, KeptResults
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.result import ResultKey, Verdict, overall
from appliance.report.difference_lines import lines
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]
GPU = {"uuid": "u", "name": "n", "bus_id": "00000000:07:00.0", "memory": 1, "ecc_enabled": True}
KEY = ResultKey("gpu.ecc", "gpu-1/GPU 0")


@dataclass
class Rack:
    """The hosts of a session; gpu-1 has memory errors while ``errors`` says so."""

    session: Session
    errors: int = 0
    driver: str = "580.1"
    gpus: int = 1
    asked: bool = True
    shell: str = "/bin/sh"
    unread: str = ""

    def answer(self, host: str, argv: Sequence[str]) -> Completed:
        ecc = {"ecc_uncorrected": self.errors, "ecc_uncorrected_aggregate": 0}
        # The first of two is lost: the driver numbers the rest anew.
        seats = range(1, 3)[-self.gpus :]
        devices = [
            GPU | ecc | {"index": index, "uuid": f"u{seat}", "bus_id": f"00000000:0{seat}:00.0"}
            for index, seat in enumerate(seats)
        ]
        gpus = {"driver": self.driver, "nvml": "", "devices": devices}
        there = self.asked and host.startswith("gpu")
        posture = {"things": {"account": {"backup": f"shell {self.shell}"}}}
        facts = facts_of(host, pci_gpus=1, gpus=gpus if there else None, posture=posture)
        if self.unread:
            facts = facts.model_copy(update={"errors": {**facts.errors, "posture": self.unread}})
        return Completed(tuple(argv), 0, facts.model_dump_json(), "")

    def since(self) -> datetime | None:
        """What one look says of the memory errors."""
        return health.look(Target(), Recorder(), ("gpu.ecc",)).since.get(KEY)


@pytest.fixture
def rack(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> Rack:
    made = Rack(session)
    hosts.answer = made.answer

    class Opened:
        def __enter__(self) -> Session:
            return session

        def __exit__(self, *error: object) -> None:
            pass

    for verb in (health, posture_baseline):
        monkeypatch.setattr(verb, "open_session", lambda *_, **__: Opened())
    return made


def test_a_failure_stands_since_it_was_first_seen(rack: Rack) -> None:
    rack.errors = 2
    assert rack.since() is None
    first = next(rack.session.journal.entries("health"))
    assert rack.since() == rack.since() == first.time


def test_a_failure_that_was_good_in_between_is_new(rack: Rack) -> None:
    rack.errors = 2
    rack.since()
    rack.errors = 0
    rack.since()
    rack.errors = 2
    assert rack.since() is None


def test_a_failure_of_a_renamed_check_stands_since_it_was_found_under_its_earlier_id(
    session: Session,
) -> None:
    failure = {"check": "scheduler.gpus", "target": "gpu-1", "status": "fail", "cause": "7 of 8"}
    session.journal.append("a", "health", host="gpu-1", aspect="", **failure)
    (entry,) = session.journal.entries("health")
    today = ResultKey("kubernetes.gpus", "gpu-1", "")
    kept = KeptResults([entry])
    assert kept.of(today) == Kept("fail", entry.time)
    assert kept.complaints([]) == [today]


@pytest.mark.parametrize(
    ("check", "host", "target"), [("kubernetes", "", "cluster"), ("gpu.ecc", "head", "head")]
)
def test_a_check_that_has_nothing_to_judge_is_not_good(
    check: str, host: str, target: str, rack: Rack
) -> None:
    results = health.look(Target(), Recorder(), (check,), [host] if host else ()).results
    assert overall(results) is Verdict.INCOMPLETE
    assert results[-1].name == f"{check} {target}"
    assert "nothing to check" in results[-1].cause


@pytest.mark.usefixtures("rack")
def test_whether_hosts_answer_can_be_asked_alone() -> None:
    results = health.look(Target(), Recorder(), ("host.reachable",)).results
    assert {result.id for result in results} == {"host.reachable"}
    assert overall(results) is Verdict.PASSED


def test_a_host_that_was_never_deployed_is_not_called_good(rack: Rack) -> None:
    results = health.look(Target(), Recorder()).results
    assert any(r.id == "stage.base" and r.target == "gpu-1" for r in results)
    assert overall(results) is not Verdict.PASSED


def test_what_changed_since_a_run_is_told_with_its_hosts(rack: Rack) -> None:
    rack.gpus = 2
    health.look(Target(), Recorder(), keep=True)
    run = rack.session.run
    assert told(rack, run) == []
    rack.driver, rack.gpus = "580.2", 1
    assert told(rack, run) == [
        "- gpu-[1-2]: GPU 0 was removed: n, u1, 580.1",
        "~ gpu-[1-2]: GPU 1 driver: 580.1 then, 580.2 now",
    ]


def test_what_a_host_is_beside_its_stages_is_compared_with_the_baseline_that_was_taken(
    rack: Rack,
) -> None:
    taken = posture_baseline.accept(Target(), "as built", Recorder())
    assert taken.kinds["gpu-1"] == {"account": 1}
    assert told(rack, "baseline") == []
    rack.shell = "/bin/bash"
    assert told(rack, "baseline") == [
        "~ head, gpu-[1-2]: account backup: shell /bin/sh then, shell /bin/bash now"
    ]
    posture_baseline.accept(Target(), "people log in there", Recorder())
    assert told(rack, "baseline") == []
    assert posture_baseline.show(Target(), Recorder()).said.endswith(": people log in there")


def test_a_host_that_does_not_answer_is_not_taken(rack: Rack, hosts: FakeHosts) -> None:
    with pytest.raises(ConfigError, match="has no baseline"):
        posture_baseline.show(Target(), Recorder())
    hosts.down.add("gpu-2")
    taken = posture_baseline.accept(Target(), "as built", Recorder())
    assert taken.silent == {"gpu-2": "it does not answer"}
    hosts.down.clear()
    assert told(rack, "baseline") == [
        "? gpu-2: unmanaged accounts, packages and files were not recorded then"
    ]
    with pytest.raises(ConfigError, match="--reason is empty"):
        posture_baseline.accept(Target(), " ", Recorder())


def test_what_could_not_be_compared_keeps_a_good_site_from_being_called_good(rack: Rack) -> None:
    seen = health.look(Target(), Recorder(), ("host.reachable",))
    assert seen.verdict is Verdict.PASSED
    posture_baseline.accept(Target(), "as built", Recorder())
    known = health.look(Target(), Recorder(), ("host.reachable",), since="baseline")
    assert known.verdict is Verdict.PASSED
    rack.unread = "files of mallory not checked: /var/tmp/d (folders nested too deep)"
    cut = health.look(Target(), Recorder(), ("host.reachable",), since="baseline", deep=True)
    assert [line for line in lines(cut.differences) if line.startswith("?")] == [
        f"? head, gpu-[1-2]: {rack.unread}"
    ]
    assert cut.verdict is Verdict.INCOMPLETE
    assert cut.verdict.exit_code == 3


def test_gpus_that_cannot_be_asked_are_not_called_gone(rack: Rack) -> None:
    health.look(Target(), Recorder(), keep=True)
    rack.asked = False
    assert told(rack, rack.session.run) == [
        "? gpu-[1-2]: its GPUs are unknown: no driver answers",
    ]


def test_a_time_means_the_last_report_before_it(rack: Rack) -> None:
    health.look(Target(), Recorder(), keep=True)
    seen = health.look(Target(), Recorder(), since=datetime.now(UTC).isoformat())
    assert seen.then is not None
    assert seen.then.said == f"run {rack.session.run}"
    for number in range(9):
        ill = rack.session.runs / f"r9-ill-{number}"
        ill.mkdir()
        (ill / "report.json").write_text("{")
    seen = health.look(Target(), Recorder(), since=datetime.now(UTC).isoformat())
    assert seen.then is not None
    named = "r9-ill-8, r9-ill-7, r9-ill-6 and 6 more"
    assert seen.then.said == f"run {rack.session.run} (the report of {named} cannot be read)"
    for since, said in (
        ("2001-01-01", "this site has no report from before 2001-01-01"),
        ("handover", "was never handed over"),
        ("9999-12-31", "--since 9999-12-31 is in the future"),
        ("yesterday", "a run with a report, or a time"),
        (
            "0001-01-01T00:00:00+14:00",
            "a run with a report, or a time",
        ),
        ("baseline", "has no baseline"),
    ):
        with pytest.raises(ConfigError, match=said):
            health.look(Target(), Recorder(), since=since)


def told(rack: Rack, since: str) -> list[str]:
    return lines(health.look(Target(), Recorder(), since=since).differences)


def test_what_an_earlier_version_kept_by_check_and_target_stands_since_then(rack: Rack) -> None:
    old = {"check": "gpu.xid", "target": "gpu-1/GPU 0", "status": "fail", "cause": "Xid 48"}
    rack.session.journal.append("old", "health", host="gpu-1", **old)
    kept = KeptResults(rack.session.journal.entries("health"))
    now = ResultKey("gpu.xid", "gpu-1/GPU 0", "Xid 48")
    found = kept.of(now)
    assert found is not None
    assert found.status == "fail"
    assert kept.complaints([now]) == []
    assert kept.complaints([]) == [ResultKey("gpu.xid", "gpu-1/GPU 0")]


def test_two_results_of_one_target_stand_each_since_its_own_look(rack: Rack) -> None:
    journal = rack.session.journal
    for run, aspect, status in (("a", "Xid 48", "fail"), ("b", "Xid 79", "fail")):
        said = {"check": "gpu.xid", "target": "gpu-1/GPU 0", "aspect": aspect, "status": status}
        journal.append(run, "health", host="gpu-1", **said)
        # The journal's times are of milliseconds.
        time.sleep(0.002)
    kept = KeptResults(journal.entries("health"))
    first = kept.of(ResultKey("gpu.xid", "gpu-1/GPU 0", "Xid 48"))
    second = kept.of(ResultKey("gpu.xid", "gpu-1/GPU 0", "Xid 79"))
    assert first is not None
    assert second is not None
    assert first.time < second.time
    assert kept.of(ResultKey("gpu.xid", "gpu-1/GPU 0")) is None
