"""What people see of profiles, sites and their schemas."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.init import init
from appliance.cli.profile import profile
from appliance.config import data
from appliance.config.finding import InvalidConfig

EXAMPLE = str(data.root() / "inventories/example")


def say(*words: str) -> str:
    result = CliRunner().invoke(profile, words, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_list_shows_each_class_on_a_line() -> None:
    assert [line.split("\t")[0] for line in say("list").splitlines()] == [
        "balanced",
        "cost-efficient",
        "dgx-a100",
        "hpc",
    ]


def test_show_says_what_it_expects_runs_and_must_reach() -> None:
    shown = say("show", "hpc")
    assert "8 x 80 GB, nvswitch, 8 x InfiniBand 200 Gb/s" in shown
    assert "kubernetes" in shown
    assert "base.clock" in shown
    assert json.loads(say("show", "hpc", "--json"))["name"] == "hpc"


def test_validate_takes_profiles_and_sites_together() -> None:
    said = say("validate", "hpc", EXAMPLE)
    assert "valid, profile hpc" in said
    assert "valid, site acme" in said
    assert "to do  access.known_hosts" in said


def test_validate_gives_the_findings_of_all_paths(tmp_path: Path) -> None:
    for name in ("a.yml", "b.yml"):
        (tmp_path / name).write_text("version: 1\n")
    with pytest.raises(InvalidConfig) as refused:
        say("validate", str(tmp_path / "a.yml"), str(tmp_path / "b.yml"))
    assert {f.file.name for f in refused.value.findings} == {"a.yml", "b.yml"}


@pytest.mark.parametrize(("flags", "key"), [((), "hardware"), (("--site",), "hosts")])
def test_schema_is_printed_as_json(flags: tuple[str, ...], key: str) -> None:
    assert key in json.loads(say("schema", *flags))["properties"]


def test_init_refuses_a_network_that_is_none() -> None:
    result = CliRunner().invoke(
        init, ["x", "--count", "2", "-p", "hpc", "--network", "10.0.0.1/24"]
    )
    assert result.exit_code == 2
    assert "10.0.0.0/24" in result.output
