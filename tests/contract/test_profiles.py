"""What ships must be sound: profiles, the example site, the published schemas, the compatibility table."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.config import data
from appliance.config.compatibility import COMPONENTS, table
from appliance.config.document import read
from appliance.config.json_schema import MODELS, schema
from appliance.config.load import load_profile, load_site
from appliance.models.profile import Interconnect
from tools.published.keys import rows

ROOT = data.root()
PROFILES = sorted((ROOT / "profiles").glob("*.yml"))


@pytest.mark.parametrize("file", PROFILES, ids=lambda f: f.stem)
def test_profile_is_sound_and_bears_its_file_name(file: Path) -> None:
    profile = load_profile(file, check_ids())
    assert profile.name == file.stem
    assert all(limit.source and limit.date for limit in profile.limits.values())


def test_the_hardware_classes_and_the_server_of_the_documents_are_there() -> None:
    assert {file.stem for file in PROFILES} == {"balanced", "cost-efficient", "dgx-a100", "hpc"}


def test_hpc_is_eight_switched_gpus_on_eight_hdr_ports() -> None:
    hardware = load_profile("hpc").hardware
    assert hardware.gpu.count == 8
    assert hardware.gpu.interconnect is Interconnect.NVSWITCH
    assert (hardware.fabric.link_layer, hardware.fabric.ports) == ("InfiniBand", 8)
    assert hardware.fabric.rate_gbps == 200


@pytest.mark.parametrize("file", PROFILES, ids=lambda f: f.stem)
def test_every_setting_of_a_profile_is_written_out(file: Path) -> None:
    written = read(file).data
    assert isinstance(written, dict)
    assert set(written) == set(MODELS["profile"].model_fields)
    assert set(written["software"]) == set(load_profile(file).software.model_dump())


@pytest.mark.parametrize("name", ["example", "kubernetes"])
def test_example_site_waits_only_for_its_owner(name: str) -> None:
    loaded = load_site(ROOT / "inventories" / name, check_ids=check_ids())
    assert {todo.level for todo in loaded.todo} <= {"todo"}


@pytest.mark.parametrize("kind", MODELS)
def test_every_key_says_what_it_means(kind: str) -> None:
    assert [key for key, _, _, meaning in rows(kind) if not meaning] == []


MEASURES = re.compile(r"(^|_)(mtu|memory|minutes|seconds|days|hours|size|rate)(_|$)")
"""Words of keys whose numbers are of something that is measured."""
UNITS = ("Bytes", "GB", "GiB", "MiB", "Gb/s", "Minutes", "minutes", "days", "Hours")


def without_unit(kind: str) -> list[str]:
    """Keys of measured numbers that say their unit neither by their name nor in what they mean."""
    return [
        key
        for key, takes, _, meaning in rows(kind)
        if takes.startswith(("whole number", "number"))
        and MEASURES.search(last := key.rpartition(".")[2])
        and not re.search(r"_(minutes|days|hours|mib|gib|gb|gbps)$|^every_hours$", last)
        and not any(unit in meaning for unit in UNITS)
    ]


@pytest.mark.parametrize("kind", MODELS)
def test_a_measured_number_says_its_unit(kind: str) -> None:
    assert without_unit(kind) == []


@pytest.mark.parametrize("kind", MODELS)
def test_schema_is_a_valid_schema(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema(kind)))


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        *((f, "profile") for f in PROFILES),
        *((ROOT / f"inventories/{name}/site.yml", "site") for name in ("example", "kubernetes")),
    ],
    ids=lambda v: getattr(v, "stem", v),
)
def test_what_ships_satisfies_the_schema_its_first_line_names(file: Path, kind: str) -> None:
    hint = re.match(r"# yaml-language-server: \$schema=(\S+)\n", file.read_text())
    assert hint
    named = (file.parent / hint[1]).resolve()
    assert named == ROOT / f"docs/schema/{kind}.json"
    jsonschema.validate(read(file).data, json.loads(named.read_text()))


def test_schema_refuses_what_the_program_refuses() -> None:
    site = read(ROOT / "inventories/example/site.yml").data
    assert isinstance(site, dict)
    broken = {**site, "secrets": {"munge_key": {"file": "a", "env": "B"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, json.loads(schema("site")))


def test_compatibility_rows_speak_of_components_and_name_their_source() -> None:
    for row in table().rows:
        assert row.component in COMPONENTS
        assert set(row.needs) <= set(COMPONENTS) - {row.component}
        assert row.source
        assert re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", row.date)
