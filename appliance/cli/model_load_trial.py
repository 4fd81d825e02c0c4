"""appliance validate model-load"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from appliance.actions.model_load import NAME as NAME
from appliance.actions.model_load import credentials, require_hosts
from appliance.actions.model_load import measure_here as action
from appliance.actions.opening import Target
from appliance.benchmarks.model_load.request import LEVELS, LOADERS, Request, size_of
from appliance.cli import options as common
from appliance.cli.files import InputFile
from appliance.cli.outcome import show
from appliance.cli.serving_trial import WORD

MINUTES = 60
F = TypeVar("F", bound=Callable[..., object])
OPTIONS = (
    *("places", "size", "concurrency", "repeats", "loaders", "python", "on_hosts"),
    *("s3_endpoint", "s3_credentials", "scratch", "evict", "keep"),
)


def options(command: F) -> F:
    """What can be asked of model-load."""
    for option in reversed(
        (
            click.option(
                "--place",
                "places",
                multiple=True,
                metavar="DIR|s3://BUCKET",
                help="model-load only: storage to load from (repeatable). Without it: scratch and all mounts of the site.",
            ),
            click.option(
                "--size",
                default="",
                metavar="SIZE",
                help="model-load only: of the model file, as 2G. Without it: Llama-3-8B's 16.06 GB.",
            ),
            click.option(
                "--concurrency",
                default=",".join(map(str, LEVELS)),
                show_default=True,
                help="model-load only: levels to try.",
            ),
            click.option(
                "--repeats", default=3, show_default=True, help="Cold loads of each kind."
            ),
            click.option(
                "--loaders", default=",".join(LOADERS), show_default=True, help="What to try."
            ),
            click.option(
                "--python",
                default="python3",
                show_default=True,
                metavar="FILE",
                help="model-load only: the host's Python that has the loaders (docs/model-load.md).",
            ),
            click.option(
                "--on",
                "on_hosts",
                multiple=True,
                metavar="HOST",
                help="model-load only: measure there (repeatable). Without it: the first GPU host.",
            ),
            click.option(
                "--s3-endpoint", default="", metavar="URL", help="Of an S3 server that is not AWS."
            ),
            click.option(
                "--s3-credentials",
                type=InputFile(),
                metavar="FILE",
                help="Its keys, as the AWS tools write them; mode 0600. Without it: what the host has.",
            ),
            click.option(
                "--scratch",
                default="/var/tmp",
                show_default=True,
                metavar="DIR",
                help="Where a host makes an object before it is stored.",
            ),
            click.option(
                "--evict",
                multiple=True,
                metavar="FILE",
                help="File of a server on the same host that is taken out of memory before each load, too.",
            ),
            click.option("--keep", is_flag=True, help="Leave the model files in place."),
            click.option(
                "--here",
                is_flag=True,
                help="model-load, serving: from this machine, without a site; nothing is kept.",
            ),
        )
    ):
        command = option(command)
    return command


def request(asked: Mapping[str, Any]) -> Request:
    """What the options ask for. Raises UsageError or ConfigError."""
    try:
        size = size_of(asked["size"]) if asked["size"] else 0
        levels = tuple(int(word) for word in asked["concurrency"].split(","))
    except ValueError as error:
        raise click.UsageError(f"--size or --concurrency: {error}") from None
    if asked["here"] and not asked["places"]:
        raise click.UsageError("--here needs a --place: the folder or bucket to load from")
    secrets = credentials(asked["s3_credentials"]) if asked["s3_credentials"] else {}
    if asked["s3_endpoint"]:
        secrets["AWS_ENDPOINT_URL"] = asked["s3_endpoint"]
    try:
        return Request(
            places=asked["places"],
            size=size,
            concurrency=levels,
            repeats=asked["repeats"],
            loaders=tuple(asked["loaders"].split(",")),
            python=asked["python"],
            hosts=asked["on_hosts"],
            deadline=60 * (asked["minutes"] or MINUTES),
            scratch=asked["scratch"],
            evict=asked["evict"],
            keep=asked["keep"],
            secrets=secrets,
        )
    except ValidationError as error:
        first = error.errors()[0]
        option = {"hosts": "on", "deadline": "minutes", "places": "place"}.get(
            str(first["loc"][0]), str(first["loc"][0])
        )
        raise click.UsageError(f"--{option}: {first['msg'].removeprefix(WORD)}") from None


def settings(target: Target, given: Mapping[str, Any]) -> dict[str, dict[str, Request]]:
    """What the benchmark is given. Raises ConfigError for a host that the site does not have."""
    asked = request(given)
    require_hosts(target, asked, common.quiet())
    return {NAME: {"request": asked}}


def alone(given: Mapping[str, Any], as_json: bool) -> int | None:
    """The exit code where no site is needed: --here. None where one is."""
    return show(action(request(given)), as_json) if given["here"] else None
