"""What is judged and planned of a host does not depend on how many others there are; a fifth of them are ill."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from appliance.models.result import Status
from tests.golden.sizes import ILLS, SIZES, SUMMARY, Seen, pattern, seen, summary, words_of

WELL = "well"


@cache
def site(size: int, *ill: tuple[str, str]) -> Seen:
    with TemporaryDirectory() as folder:
        return seen(Path(folder), size, dict(ill) or pattern(size))


@cache
def of_three() -> dict[str, str]:
    """What a site of three hosts says of its last host, by how that is ill, and of the one that is well."""
    told = {kind: words_of(site(3, ("gpu-1", kind)))["gpu-1"] for kind in ILLS}
    return told | {WELL: words_of(site(3))["gpu-0"]}


@pytest.mark.parametrize("size", SIZES)
def test_a_host_is_told_as_among_three(size: int) -> None:
    told = site(size)
    words = words_of(told)
    assert len(told.ill) == (size + 2) // 5
    for name in told.hosts[1:]:
        assert words[name] == of_three()[told.ill.get(name, WELL)], name


def test_each_way_to_be_ill_is_told_otherwise() -> None:
    told = of_three()
    assert len(set(told.values())) == len(told) == len(ILLS) + 1


@pytest.mark.parametrize("size", SIZES)
def test_all_of_a_site_is_told_as_it_was_recorded(size: int) -> None:
    recorded = json.loads(SUMMARY.read_text())
    assert summary(site(size)) == recorded[str(size)], "if this is meant: make golden"


def test_one_verdict_of_one_host_is_seen() -> None:
    told, (host, *_) = site(100), [n for n in site(100).hosts[50:] if n not in site(100).ill]
    results = tuple(
        r.model_copy(update={"status": Status.FAIL}) if (r.id, r.target) == ("gpu.ecc", host) else r
        for r in told.results
    )
    other = Seen(told.hosts, told.ill, told.addresses, results, told.plan)
    assert summary(other)["findings"] != summary(told)["findings"]
    before = words_of(told)
    assert {n for n, text in words_of(other).items() if text != before[n]} == {host}
