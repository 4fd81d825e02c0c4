"""Silences that hold back more than the alert somebody works on are named; one that names its alert is not."""

from collections.abc import Mapping
from typing import Any

import pytest

from appliance.models.result import Status
from tests.support.observe_facts import ONCALL, UP, facts, judged

CHECK = "observe.silences"
Matchers = tuple[tuple[str, str, str], ...]
"""Label, sign and value of each."""


def silence(*matchers: tuple[str, str, str], days: float = 1.0, number: int = 1) -> dict[str, Any]:
    made = [
        {"name": n, "value": v, "regex": s[1:] == "~", "equal": s[0] == "="} for n, s, v in matchers
    ]
    return {
        "id": f"00000000-0000-4000-8000-{number:012}",
        "by": "ada",
        "until": "2036-01-01 00:00 UTC",
        "days": days,
        "matchers": made,
    }


def told(*known: Mapping[str, Any]) -> dict[str, tuple[Status, str, str]]:
    head = facts("head", targets=UP, told=("oncall",), silences=list(known))
    found = judged(CHECK, head, ONCALL)
    return {name: (r.status, r.cause, r.fix) for name, r in found.items()}


NARROW: tuple[Matchers, ...] = (
    (("alertname", "=", "GpuLost"),),
    (("alertname", "=~", "GpuLost|HostDown"), ("instance", "=", "gpu-1")),
    (("alertname", "=", "GpuLost"), ("instance", "=~", ".+")),
    (("alertname", "=~", ".+"), ("alertname", "=", "GpuLost")),
)
BROAD: tuple[Matchers, ...] = (
    (("alertname", "=~", ".+"),),
    (("alertname", "=~", "GpuLost|.*"),),
    (("alertname", "=~", "......|......."),),
    (("alertname", "=~", "(GpuLost)?.{0,99}"),),
    (("alertname", "!=", "Nothing"),),
    (("alertname", "!~", "a|b"),),
    (("alertname", "=", ""),),
    (("severity", "=", "critical"),),
    (("site", "=", "lab"), ("severity", "=~", "critical|warning")),
    (("instance", "=~", "gpu.*"),),
    (("instance", "!=", "nowhere"),),
    (("instance", "=~", "head|gpu-1|gpu-2"),),
    (("alertname", "=~", "a" * 2000 + "|.*"),),
)


@pytest.mark.parametrize("matchers", NARROW)
def test_a_silence_of_named_alerts_passes(matchers: Matchers) -> None:
    assert {at: status for at, (status, *_) in told(silence(*matchers)).items()} == {
        "cluster": Status.PASS
    }
    assert told() == {"cluster": (Status.PASS, "", "")}


@pytest.mark.parametrize("matchers", BROAD)
def test_a_silence_of_everything_fails_with_who_until_when_and_how_it_ends(
    matchers: Matchers,
) -> None:
    ((at, (status, cause, fix)),) = told(silence(*matchers)).items()
    number = "00000000-0000-4000-8000-000000000001"
    assert (at, status) == (f"cluster/silence {number}", Status.FAIL)
    assert "until 2036-01-01 00:00 UTC, made by ada" in cause
    command = f"amtool silence expire {number} --alertmanager.url=http://127.0.0.1:9093"
    assert fix == f"on head: {command}"


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        (silence(("instance", "=", "gpu-1")), "all alerts of gpu-1"),
        (silence(("alertname", "=", "GpuLost"), days=31.0), "lasts 31 days"),
        (silence(("alertname", "=~", "A|B|C|D|E|F")), "6 kinds of alerts of all hosts"),
        (
            silence(("alertname", "=~", "A|B|C|D|E|F"), ("instance", "=", "gpu-1")),
            "6 kinds of alerts of one host",
        ),
    ],
)
def test_a_silence_of_a_host_of_many_alerts_or_for_months_warns(
    known: Mapping[str, Any], cause: str
) -> None:
    ((status, said, _),) = told(known).values()
    assert (status, cause in said) == (Status.WARN, True), said


def test_silences_that_hold_back_much_together_are_named_each() -> None:
    each = [silence(("alertname", "=", f"A{n}"), number=n) for n in range(6)]
    assert {status for status, *_ in told(*each).values()} == {Status.WARN}
    assert len(told(*each)) == 6
    assert {status for status, *_ in told(*each[:5]).values()} == {Status.PASS}


def test_of_very_many_the_rest_is_counted() -> None:
    found = told(*(silence(("severity", "=", "x"), number=n) for n in range(30)))
    assert len(found) == 21
    assert found["cluster/more"][:2] == (Status.FAIL, "10 more silences hold back too much")


def test_silences_that_alertmanager_does_not_list_are_not_assessed() -> None:
    for head in (
        None,
        facts("head"),
        facts("head", targets=UP),
        facts("head", targets=UP, told=("oncall",), error="silences of Alertmanager: timed out"),
    ):
        (found,) = judged(CHECK, head, ONCALL).values()
        assert found.status is Status.NOT_ASSESSED
    assert "timed out" in found.cause


def test_a_site_that_names_nobody_has_no_silences_to_judge() -> None:
    assert judged(CHECK, facts("head", targets=UP)) == {}
