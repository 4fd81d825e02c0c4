"""Firmware of adapters: new enough by the site or by the bulletins, alike on one board, or not known."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.result import Status
from appliance.stages.fabric.hca_firmware import hca_firmware
from appliance.stages.fabric.site import FabricOptions
from tests.support.fabric_facts import HOSTS, facts, judge, one, port, view

ID = "fabric.firmware"
GOOD = "20.43.8002"


def carrying(*versions: str, **options: Any) -> View:
    """All adapters carry a good firmware, but for gpu-1's, which have these."""
    known = {"board": "MT_0000000223", "firmware": GOOD}
    seen = view(
        *(facts(host, ports=[port(host, 0, **known)]) for host in HOSTS if host != "gpu-1"),
        facts(
            "gpu-1",
            ports=[
                port("gpu-1", n, **{**known, "firmware": version})
                for n, version in enumerate(versions)
            ],
        ),
    )
    fabric = FabricOptions.model_validate(options)
    return replace(seen, site=seen.site.model_copy(update={"fabric": fabric}))


def test_adapters_of_one_firmware_that_is_new_enough_are_good() -> None:
    result = one(ID, carrying(GOOD, GOOD))
    assert (result.status, result.value, result.evidence) == (Status.PASS, GOOD, "4 adapters")


def test_one_below_the_bulletins_is_a_warning_that_names_version_board_and_source() -> None:
    result = one(ID, carrying(GOOD, "20.38.1002"))
    assert (result.status, result.target) == (Status.WARN, "gpu-1/mlx5_1")
    assert "20.38.1002" in result.cause
    assert "of older branches: 20.39.8002" in result.cause
    assert "MT_0000000223" in result.fix
    assert "5699" in str(result.limit_source)


def test_one_below_the_sites_own_minimum_fails_and_one_above_it_is_good() -> None:
    result = one(ID, carrying(GOOD, "20.42.1000", firmware_minimum=["20.43.1014"]))
    assert (result.status, result.limit) == (Status.FAIL, "20.43.1014")
    assert result.limit_source == "site.fabric.firmware_minimum"
    mild = carrying("20.42.1000", firmware_minimum=["20.41.1000"])
    assert [r.cause for r in judge(ID, mild) if r.status is Status.FAIL] == []


def test_boards_of_one_kind_with_different_firmware_are_told_by_the_one_that_differs() -> None:
    result = one(ID, carrying(GOOD, "20.43.8004"))
    assert (result.status, result.target) == (Status.WARN, "gpu-1/mlx5_1")
    assert f"most of board MT_0000000223 have {GOOD}" in result.cause


def test_one_host_with_many_adapters_does_not_decide_what_most_boards_have() -> None:
    seen = carrying(*["20.43.8004"] * 99)
    head = facts("head", ports=[port("head", 0, board="MT_0000000223", firmware=GOOD)])
    found = judge(ID, replace(seen, facts={**seen.facts, "head": head}))
    assert {result.target.partition("/")[0] for result in found} == {"gpu-1"}


def test_unread_firmware_unknown_kinds_and_silent_hosts_are_not_assessed() -> None:
    unread = one(ID, carrying(GOOD, ""))
    assert (unread.status, unread.required) == (Status.NOT_ASSESSED, True)
    assert "mlx5_1" in unread.cause
    kinds = {r.target: r for r in judge(ID, carrying(GOOD, "232.0.164"))}
    assert "no minimum is known for firmware 232.0.164" in kinds["gpu-1/mlx5_1"].cause + str(kinds)
    seen = carrying(GOOD)
    silent = replace(seen, facts={n: f for n, f in seen.facts.items() if n != "gpu-2"})
    assert "gpu-2 did not answer" in one(ID, silent).cause
    bare = view(*(facts(host, ports=[]) for host in HOSTS))
    assert {r.status for r in judge(ID, bare)} == {Status.NOT_ASSESSED}


@pytest.mark.parametrize("said", ["²", "20.43.²", "9" * 5000, "20..1", "v20"])
def test_what_is_no_version_is_not_assessed_whatever_a_host_says(said: str) -> None:
    result = one(ID, carrying(GOOD, said))
    assert (result.status, result.names, result.host) == (Status.NOT_ASSESSED, (), "gpu-1")
    assert "the firmware of mlx5_1 could not be read" in result.cause


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("28.43.8002", True),
        ("28.43.8001", False),
        ("28.44.9999", False),
        ("28.46.3008", True),
        ("28.35.8002", True),
        ("28.34.9999", False),
        ("28.100.1", True),
    ],
)
def test_maintained_branches_are_as_good_as_the_newest(version: str, good: bool) -> None:
    kind = hca_firmware().of(version)
    assert kind is not None
    assert kind.name == "ConnectX-7"
    assert kind.accepts(version) is good
