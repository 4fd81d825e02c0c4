"""appliance validate serving"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from appliance.actions import serving as action
from appliance.actions.opening import Target
from appliance.actions.serving import NAME as NAME
from appliance.benchmarks.serving.request import RATES, Request
from appliance.cli import options as common
from appliance.cli.files import InputFile
from appliance.cli.outcome import show
from appliance.cli.tables import print_tables
from appliance.report.documents import PublishedTables

F = TypeVar("F", bound=Callable[..., object])
OPTIONS = (
    *("endpoint", "served_model", "rates", "seconds", "least", "words", "tokens", "patience"),
    *("chat", "ca", "api_key_file", "results"),
)
WORD = "Value error, "
"""Pydantic's, before a reason of ours."""
ALL_RATES = ",".join(f"{rate:g}" for rate in RATES)


def options(command: F) -> F:
    """What can be asked of serving."""
    file = InputFile()
    for option in reversed(
        (
            click.option(
                "--endpoint",
                default="",
                metavar="URL",
                help="serving only: as https://HOST:PORT/v1.",
            ),
            click.option(
                "--served-model", default="", metavar="NAME", help="Without it: the first it lists."
            ),
            click.option(
                "--rates",
                default=ALL_RATES,
                show_default=True,
                help="serving only: requests/s to try.",
            ),
            click.option("--seconds", default=20.0, show_default=True, help="Of each rate."),
            click.option(
                "--least", default=20, show_default=True, help="Requests of each rate at least."
            ),
            click.option("--words", default=128, show_default=True, help="Of each prompt."),
            click.option(
                "--tokens", default=128, show_default=True, help="Of each answer at most."
            ),
            click.option(
                "--patience", default=60.0, show_default=True, help="Seconds for one whole answer."
            ),
            click.option("--chat", is_flag=True, help="Ask /chat/completions, not /completions."),
            click.option("--ca", type=file, metavar="FILE", help="Certificates to trust, PEM."),
            click.option(
                "--api-key-file",
                type=file,
                metavar="FILE",
                help="Key of the API, mode 0600. Without it: the variable OPENAI_API_KEY.",
            ),
            click.option(
                "--results",
                type=file,
                metavar="FILE",
                help="serving only: read what vllm bench serve --save-result wrote; nothing is asked.",
            ),
        )
    ):
        command = option(command)
    return command


def request(given: Mapping[str, Any]) -> Request:
    """What the options ask for. Raises UsageError or ConfigError."""
    if not given["endpoint"]:
        raise click.UsageError("serving needs --endpoint URL, or --results FILE")
    try:
        return Request(
            endpoint=given["endpoint"],
            model=given["served_model"],
            rates=tuple(float(word) for word in given["rates"].split(",")),
            seconds=given["seconds"],
            least=given["least"],
            words=given["words"],
            tokens=given["tokens"],
            patience=given["patience"],
            chat=given["chat"],
            ca=str(given["ca"] or ""),
            key=action.key(given["api_key_file"]),
        )
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        option = str(first["loc"][0]) if first["loc"] else "endpoint"
        raise click.UsageError(f"--{option}: {first['msg'].removeprefix(WORD)}") from None
    except ValueError:
        raise click.UsageError("--rates: write them as 0.5,1,2") from None


def alone(given: Mapping[str, Any], as_json: bool) -> int | None:
    """The exit code where no site is needed: --results, or --here. None where a site is."""
    if given["results"]:
        return show(action.read_results(given["results"]), as_json)
    return show(action.measure_here(request(given)), as_json) if given["here"] else None


def papers(as_json: bool) -> int:
    """Shows the published tables."""
    tables = action.published_tables()
    if as_json:
        common.echo_json(PublishedTables(tables=tables))
    else:
        print_tables(common.console(), tables)
    return 0


def settings(_: Target, given: Mapping[str, Any]) -> dict[str, dict[str, Request]]:
    """What the benchmark is given."""
    return {NAME: {"request": request(given)}}
