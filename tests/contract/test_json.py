"""What --json prints has a form, a version and a schema that another program's validator takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from appliance.cli.main import cli
from appliance.cli.validate import MEASURED
from appliance.models.result import overall
from appliance.report.documents import Health
from tests.golden.record import SITES, Site, at_work
from tests.golden.record import documents as recorded
from tools.published.forms import PRINTED, Printed

FORMS = {one.name: one for one in PRINTED}


def commands(
    group: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    if isinstance(group, click.Group):
        with click.Context(group) as context:
            for name in group.list_commands(context):
                inner = group.get_command(context, name)
                assert inner is not None
                yield from commands(inner, (*words, name))
    else:
        yield " ".join(words), group


def prints_json(command: click.Command) -> bool:
    """Whether it has --json, or a --format of that name."""
    return any(
        "--json" in option.opts
        or (isinstance(option.type, click.Choice) and "json" in option.type.choices)
        for option in command.params
    )


def test_every_command_that_prints_json_names_its_form() -> None:
    runs = {f"validate {name}" for name in MEASURED}
    printing = {name for name, command in commands(cli) if prints_json(command)} - runs
    assert {name for one in PRINTED for name in one.commands} - runs == printing | {"validate"}


@pytest.mark.parametrize("one", PRINTED, ids=lambda one: one.name)
def test_schemas_are_schemas_by_their_own_standard(one: Printed) -> None:
    Draft202012Validator.check_schema(json.loads(one.schema()))


def refused(name: str, document: Any) -> list[str]:
    found = Draft202012Validator(json.loads(FORMS[name].schema())).iter_errors(document)
    return [error.message for error in found]


def documents(site: Site) -> Iterator[tuple[str, Any]]:
    """What verbs print of a recorded site."""
    made = recorded(site)
    yield "plan", made["plan"].model_dump(mode="json")
    yield "run", made["run"].model_dump(mode="json")
    results = made["results"]
    health = Health(
        site="acme", verdict=overall(results), seconds=1.2, simulated=("gpu",), results=results
    )
    yield "health", json.loads(health.model_dump_json())


@pytest.mark.parametrize("name", SITES)
def test_what_is_printed_is_of_its_schema(name: str, tmp_path: Path) -> None:
    with at_work(name, tmp_path) as site:
        found = {form: refused(form, printed) for form, printed in documents(site)}
    assert found == {"plan": [], "run": [], "health": []}


def test_what_is_not_of_its_schema_is_refused() -> None:
    results = [{"id": "gpu.ecc", "target": "gpu-1", "status": "fine"}]
    assert refused("health", {"version": 1, "results": results})


def test_a_later_release_may_add_fields_and_not_take_any_away() -> None:
    document = {"version": 1, "host": "head", "name": "a", "later": True}
    assert refused("backup-written", document) == []
    del document["name"]
    with pytest.raises(ValidationError, match="'name' is a required property"):
        Draft202012Validator(json.loads(FORMS["backup-written"].schema())).validate(document)
