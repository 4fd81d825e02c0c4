"""Xid messages: each class has its verdict and action, what repeats is told, a site may judge otherwise."""

from typing import Any

import pytest
from pydantic import ValidationError

from appliance.lab.parts import parts
from appliance.models.facts import HostFacts
from appliance.models.result import Status
from appliance.stages.gpu.part import gpu_parts
from appliance.stages.gpu.xid_map import XidMap, xid_map
from tests.support.gpu_facts import bus, facts, judge, one, site, view

AZURE = {48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 119, 120}
HOUR = 3600.0


def xid(code: int, gpu: int = 1, age: float | None = 600.0, text: str = "") -> dict[str, Any]:
    """A message of a GPU; the kernel leaves the PCI function out."""
    at = bus(gpu).partition(".")[0]
    return {"code": code, "bus_id": at, "age": age, "text": text or f"NVRM: Xid (PCI:{at}): {code}"}


def host(*events: dict[str, Any], **changes: Any) -> HostFacts:
    """A sound host whose kernel log holds these."""
    return facts("gpu-1", xid_events=list(events), **changes)


@pytest.mark.parametrize(
    ("code", "status", "fix"),
    [
        (79, Status.FAIL, "reboot it"),
        (95, Status.FAIL, "--gpu-reset -i 1"),
        (48, Status.FAIL, "with Xid 63 or 64"),
        (74, Status.FAIL, "gpu.nvlink"),
        (54, Status.FAIL, "power cables"),
        (57, Status.FAIL, "open a case"),
        (13, Status.WARN, "check the job first"),
        (94, Status.WARN, "check the job first"),
        (45, Status.WARN, "the messages before it"),
        (167, Status.WARN, "run the vendor's diagnostics"),
        (9999, Status.WARN, "xid-errors"),
    ],
)
def test_a_code_is_judged_by_its_class(code: int, status: Status, fix: str) -> None:
    result = one("gpu.xid", host(xid(code)))
    assert (result.status, result.target, result.value) == (status, "gpu-1/GPU 1", code)
    assert fix in result.fix
    assert result.limit_source
    assert "10 min ago" in result.cause


@pytest.mark.parametrize(
    ("severity", "status", "fix"),
    [
        ("Nonfatal", Status.WARN, "gpu.nvlink"),
        ("Fatal", Status.FAIL, "both ends"),
        ("", Status.FAIL, "both ends"),
    ],
)
def test_an_nvlink_5_message_is_judged_by_what_it_calls_itself(
    severity: str, status: Status, fix: str
) -> None:
    said = {"unit": "RLW_RXPIPE", "severity": severity, "link": "13"} if severity else {}
    result = one("gpu.xid", host(xid(145) | said))
    assert result.status is status
    assert fix in result.fix
    assert ("link 13" in result.cause) == bool(severity)


def test_a_nonfatal_message_hides_no_fatal_one_of_its_code() -> None:
    fatal = xid(149) | {"unit": "NETIR_LINK_EVT", "severity": "Fatal", "link": "0"}
    later = xid(149, age=60.0) | {"unit": "NETIR_LINK_EVT", "severity": "Nonfatal", "link": "0"}
    results = judge("gpu.xid", view(host(fatal, later)))
    assert {(r.status, r.aspect) for r in results} == {
        (Status.FAIL, "Xid 149 Fatal"),
        (Status.WARN, "Xid 149 Nonfatal"),
    }


def test_the_site_judges_all_messages_of_a_code_alike() -> None:
    nonfatal = xid(145) | {"severity": "Nonfatal"}
    result = one("gpu.xid", view(host(nonfatal), site_=site(gpu_xid_145="fail")))
    assert result.status is Status.FAIL


def sxid(code: int, severity: str, age: float = 600.0) -> dict[str, Any]:
    """A message of an NVSwitch."""
    at = "0000:c3:00.0"
    text = f"SXid (PCI:{at}): {code}, {severity}, Link 28 LTSSM Fault Up"
    return {"code": code, "bus_id": at, "age": age, "text": text}


@pytest.mark.parametrize(
    ("events", "status", "fix"),
    [
        ([sxid(20034, "Fatal")], Status.FAIL, "nvidia-smi --gpu-reset"),
        ([sxid(20009, "Non-fatal")], Status.WARN, "gpu.nvlink"),
        ([sxid(20034, "Fatal", 30 * HOUR)], Status.WARN, "nvidia-smi --gpu-reset"),
        ([sxid(20034, "Fatal"), sxid(20034, "Non-fatal", 60.0)], Status.FAIL, "reset"),
        ([sxid(20009, "Non-fatal", 30 * HOUR)], Status.PASS, ""),
    ],
)
def test_an_nvswitch_is_judged_by_the_severity_the_driver_gives(
    events: list[dict[str, Any]], status: Status, fix: str
) -> None:
    result = one("gpu.xid", host(switch_events=events))
    assert result.status is status
    assert fix in result.fix
    if status is not Status.PASS:
        assert result.target == "gpu-1/NVSwitch 0000:c3:00.0"
        assert f"SXid {events[0]['code']} of an NVSwitch" in result.cause
        assert "Link 28 LTSSM Fault Up" in result.cause
        assert "\n" not in result.cause + result.fix


def test_notes_pass_and_are_mentioned() -> None:
    result = one("gpu.xid", host(xid(63), xid(43)))
    assert result.status is Status.PASS
    assert result.evidence == "kernel log since boot; of no consequence: Xid 43, 63"


def test_a_log_that_lost_its_beginning_says_so() -> None:
    assert "of the last 30.0 h" in one("gpu.xid", host(kernel_log_span=30 * HOUR)).evidence


def test_a_log_shorter_than_what_is_judged_is_no_pass() -> None:
    result = one("gpu.xid", host(kernel_log_span=2 * HOUR))
    assert (result.status, result.target, result.required) == (Status.NOT_ASSESSED, "gpu-1", True)
    assert "reaches back 2.0 h of the 24 h" in result.cause
    assert "log_buf_len" in result.fix
    noted = judge("gpu.xid", view(host(xid(13), kernel_log_span=0.0)))
    assert {r.status for r in noted} == {Status.WARN, Status.NOT_ASSESSED}
    assert one("gpu.xid", host(xid(95), kernel_log_span=0.0)).status is Status.FAIL


def test_a_site_that_judges_fewer_hours_needs_no_longer_log() -> None:
    short = view(host(kernel_log_span=2 * HOUR), site_=site(gpu_xid=1))
    assert one("gpu.xid", short).status is Status.PASS


def test_a_gpu_the_driver_lost_is_named_by_its_address() -> None:
    result = one("gpu.xid", host(xid(79, gpu=6)))
    assert result.target == f"gpu-1/{bus(6)}"


def test_old_messages_warn_for_the_log_tells_of_no_reset() -> None:
    result = one("gpu.xid", host(xid(95, age=30 * HOUR)))
    assert result.status is Status.WARN
    assert result.cause.endswith("30 h ago, none within 24 h")
    short = view(host(xid(95, age=3 * HOUR)), site_=site(gpu_xid=2))
    assert one("gpu.xid", short).status is Status.WARN


def test_a_message_without_a_time_counts_as_new() -> None:
    assert one("gpu.xid", host(xid(95, age=None))).status is Status.FAIL


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("0x0 (None)", Status.PASS),
        ("0x1 (GPU Reset Required)", Status.FAIL),
        ("0x2 (Node Reboot Required)", Status.FAIL),
        ("0x4 (Drain and Reset)", Status.FAIL),
        ("0x9 (Something New)", Status.WARN),
        ("something new", Status.WARN),
    ],
)
def test_154_carries_the_drivers_own_recommendation(said: str, status: Status) -> None:
    text = f"NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from 0x0 (None) to {said}"
    assert one("gpu.xid", host(xid(154, text=text))).status is status


@pytest.mark.parametrize(
    ("last", "status"), [("0x0 (None)", Status.PASS), ("0x2 (Node Reboot Required)", Status.FAIL)]
)
def test_a_later_recommendation_replaces_the_one_before(last: str, status: Status) -> None:
    said = "NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from 0x0 (None) to "
    events = (xid(154, text=said + "0x1 (GPU Reset Required)"), xid(154, text=said + last))
    assert one("gpu.xid", host(*events)).status is status


def test_a_site_may_judge_a_code_otherwise() -> None:
    strict = one("gpu.xid", view(host(xid(63)), site_=site(gpu_xid_63="fail")))
    assert (strict.status, strict.limit_source) == (Status.FAIL, "our own")
    assert strict.fix.endswith("the site sets its verdict by limit gpu.xid.63")
    assert one("gpu.xid", view(host(xid(79)), site_=site(gpu_xid_79="pass"))).status is Status.PASS


def test_a_limit_that_is_no_verdict_is_told() -> None:
    results = judge("gpu.xid", view(host(), site_=site(gpu_xid_63="ignore")))
    assert [(r.status, r.required) for r in results] == [(Status.NOT_ASSESSED, True)]
    assert "gpu.xid.63 is ignore" in results[0].cause


def causes(*events: dict[str, Any]) -> list[str]:
    """Causes of the rules over several messages."""
    found = judge("gpu.xid", view(host(*events)))
    return [r.cause for r in found if r.unit == "messages" and r.cause]


def test_five_fatal_ones_of_one_gpu_in_a_day_are_a_case_for_service() -> None:
    four = [xid(95, age=HOUR * n) for n in range(4)]
    assert causes(*four) == []
    assert causes(*four, xid(119))[0].startswith(
        "keeps failing: 5 messages within 24 h (Xid 95, 119)"
    )
    assert causes(*four, xid(95, age=25 * HOUR)) == []
    assert causes(*four, xid(95, gpu=2)) == []


def test_an_application_fault_twice_on_one_gpu_calls_for_diagnostics() -> None:
    assert causes(xid(94)) == []
    assert causes(xid(94), xid(94))[0].startswith("same application fault again")
    assert causes(xid(94), xid(94, gpu=2)) == []


def test_the_same_fault_on_several_gpus_is_software() -> None:
    (cause,) = causes(xid(31), xid(31, gpu=2))
    assert cause.endswith("on GPU 1, GPU 2")
    assert causes(xid(31), xid(13, gpu=2)) == []


def test_a_kernel_log_nobody_could_read_is_not_assessed() -> None:
    mute = facts("gpu-1", xid_events=None, errors={"xids": "needs root to read /dev/kmsg"})
    result = one("gpu.xid", mute)
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.cause == "needs root to read /dev/kmsg"


def test_where_another_source_fails_a_host_on_a_code_the_map_says_so() -> None:
    table = xid_map()
    softer = set()
    for code in AZURE:
        row = table.row(code)
        assert row is not None
        if table.classes[row.kind].verdict != "fail":
            softer.add(code)
            assert row.differs == "azure"
    assert softer == {63, 68, 69, 80, 92}


def test_every_meaning_is_told_and_every_source_dated() -> None:
    table = xid_map()
    assert all(row.means for row in table.codes)
    assert all(source.date for source in table.sources.values())


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"codes": [{"codes": [1, 1], "class": "note", "means": "m", "source": "s"}]}, "twice"),
        ({"codes": [{"codes": [1], "class": "what", "means": "m", "source": "s"}]}, "classes"),
        ({"codes": [{"codes": [1], "class": "note", "means": "m", "source": "x"}]}, "sources"),
    ],
)
def test_a_damaged_map_is_refused(damage: dict[str, Any], said: str) -> None:
    sound: dict[str, Any] = {
        "version": 1,
        "sources": {"s": {"name": "S", "date": "2026"}},
        "hours": 24,
        "classes": {"note": {"verdict": "pass", "action": "a"}},
        "recovery": {},
        "repeats": [],
        "codes": [],
    }
    XidMap.model_validate(sound)
    with pytest.raises(ValidationError, match=said):
        XidMap.model_validate({**sound, **damage})


def test_every_part_the_rack_can_pretend_to_have_has_a_data_sheet() -> None:
    for model in parts():
        part = gpu_parts().find(model.name)
        assert part is not None
        assert part.tdp == model.power
        assert part.nvlinks == (None if model.is_card else model.nvlinks)
