"""appliance validate serving"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from appliance.actions.benchmarks import serving as action
from appliance.actions.benchmarks.serving import NAME as NAME
from appliance.actions.sites.opening import Target
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
"""Pydantic's prefix of our own messages."""
ALL_RATES = ",".join(f"{rate:g}" for rate in RATES)


def options(command: F) -> F:
    """Options of serving."""
    file = InputFile()
    for option in reversed(
        (
            click.option(
                "--endpoint",
                default="",
                metavar="URL",
                help="serving only: address of the server, such as https://HOST:PORT/v1.",
            ),
            click.option(
                "--served-model",
                default="",
                metavar="NAME",
                help="Model to request; default: the first that the server lists.",
            ),
            click.option(
                "--rates",
                default=ALL_RATES,
                show_default=True,
                help="serving only: request rates to measure, in requests/s.",
            ),
            click.option(
                "--seconds", default=20.0, show_default=True, help="Duration of each rate."
            ),
            click.option(
                "--least",
                default=20,
                show_default=True,
                help="Minimum number of requests at each rate.",
            ),
            click.option("--words", default=128, show_default=True, help="Words of each prompt."),
            click.option(
                "--tokens",
                default=128,
                show_default=True,
                help="Maximum number of tokens of each answer.",
            ),
            click.option(
                "--patience",
                default=60.0,
                show_default=True,
                help="Timeout for one complete answer, in seconds.",
            ),
            click.option(
                "--chat", is_flag=True, help="Use /chat/completions instead of /completions."
            ),
            click.option("--ca", type=file, metavar="FILE", help="Trusted CA certificates, PEM."),
            click.option(
                "--api-key-file",
                type=file,
                metavar="FILE",
                help="File with the API key, mode 0600. Default: the environment variable OPENAI_API_KEY.",
            ),
            click.option(
                "--results",
                type=file,
                metavar="FILE",
                help="serving only: read a result of vllm bench serve --save-result instead of measuring.",
            ),
        )
    ):
        command = option(command)
    return command


def request(given: Mapping[str, Any]) -> Request:
    """The request made by the options. Raises UsageError or ConfigError."""
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
        raise click.UsageError("--rates: write numbers such as 0.5,1,2") from None


def alone(given: Mapping[str, Any], as_json: bool) -> int | None:
    """The exit code if no site is needed (--results or --here), else None."""
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
    """Settings of the benchmark."""
    return {NAME: {"request": request(given)}}
