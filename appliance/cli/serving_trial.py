"""appliance validate serving"""

from collections.abc import Mapping
from typing import Any

import click
from pydantic import ValidationError

from appliance.actions.benchmarks import serving as action
from appliance.actions.benchmarks.serving import NAME as NAME
from appliance.benchmarks.serving.request import RATES, Request
from appliance.cli.files import InputFile
from appliance.cli.outcome import show
from appliance.cli.settings import Setting, settled

WORD = "Value error, "
"""Pydantic's prefix of our own messages."""
ALL_RATES = ",".join(f"{rate:g}" for rate in RATES)


HERE = click.Option(
    ["--here"], is_flag=True, help="Measure from this machine, without a site; nothing is recorded."
)
SETTINGS = (
    Setting("seconds", 20.0, click.FLOAT),
    Setting("least", 20, click.INT),
    Setting("words", 128, click.INT),
    Setting("tokens", 128, click.INT),
    Setting("patience", 60.0, click.FLOAT),
)
"""Described in docs/serving.md."""
OPTIONS = (
    click.Option(
        ["--endpoint"],
        default="",
        metavar="URL",
        help="Address of the server, such as https://HOST:PORT/v1.",
    ),
    click.Option(
        ["--served-model"],
        default="",
        metavar="NAME",
        help="Model to request. Default: the first that the server lists.",
    ),
    click.Option(
        ["--rates"], default=ALL_RATES, show_default=True, help="Request rates, in requests/s."
    ),
    click.Option(["--chat"], is_flag=True, help="Use /chat/completions instead of /completions."),
    click.Option(["--ca"], type=InputFile(), metavar="FILE", help="Trusted CA certificates, PEM."),
    click.Option(
        ["--api-key-file"],
        type=InputFile(),
        metavar="FILE",
        help="File with the API key, mode 0600. Default: the environment variable OPENAI_API_KEY.",
    ),
    HERE,
)


def request(given: Mapping[str, Any]) -> Request:
    """The request made by the options. Raises UsageError or ConfigError."""
    given = {**given, **settled(given, SETTINGS)}
    if not given["endpoint"]:
        raise click.UsageError(
            "serving needs --endpoint URL; to read a result: appliance validate serving-results FILE"
        )
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


def here(given: Mapping[str, Any], as_json: bool) -> int:
    """Measures from this machine, without a site; the exit code."""
    return show(action.measure_here(request(given)), as_json)


def settings(given: Mapping[str, Any]) -> dict[str, dict[str, Request]]:
    """Settings of the benchmark."""
    return {NAME: {"request": request(given)}}
