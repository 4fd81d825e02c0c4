"""appliance validate model-load"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from appliance.actions.benchmarks.model_load import NAME as NAME
from appliance.actions.benchmarks.model_load import credentials, require_hosts
from appliance.actions.benchmarks.model_load import measure_here as action
from appliance.actions.sites.opening import Target
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
    """Options of model-load."""
    for option in reversed(
        (
            click.option(
                "--place",
                "places",
                multiple=True,
                metavar="DIR|s3://BUCKET",
                help="model-load only: storage to load from (repeatable). Default: scratch and all mounts of the site.",
            ),
            click.option(
                "--size",
                default="",
                metavar="SIZE",
                help="model-load only: size of the model file, such as 2G. Default: Llama-3-8B's 16.06 GB.",
            ),
            click.option(
                "--concurrency",
                default=",".join(map(str, LEVELS)),
                show_default=True,
                help="model-load only: numbers of concurrent loads.",
            ),
            click.option(
                "--repeats", default=3, show_default=True, help="Cold loads of each kind."
            ),
            click.option(
                "--loaders",
                default=",".join(LOADERS),
                show_default=True,
                help="Loaders to measure.",
            ),
            click.option(
                "--python",
                default="python3",
                show_default=True,
                metavar="FILE",
                help="model-load only: the hosts' Python interpreter that has the loaders (docs/model-load.md).",
            ),
            click.option(
                "--on",
                "on_hosts",
                multiple=True,
                metavar="HOST",
                help="model-load only: measure on this host (repeatable). Default: the first GPU host.",
            ),
            click.option(
                "--s3-endpoint",
                default="",
                metavar="URL",
                help="Address of an S3 server other than AWS.",
            ),
            click.option(
                "--s3-credentials",
                type=InputFile(),
                metavar="FILE",
                help="S3 credentials, in the format of the AWS tools; mode 0600. Default: those of the host.",
            ),
            click.option(
                "--scratch",
                default="/var/tmp",
                show_default=True,
                metavar="DIR",
                help="Folder of the host for an object before it is uploaded.",
            ),
            click.option(
                "--evict",
                multiple=True,
                metavar="FILE",
                help="Also drop this file from the page cache before each load: a file of a storage server on the same host.",
            ),
            click.option("--keep", is_flag=True, help="Keep the model files."),
            click.option(
                "--here",
                is_flag=True,
                help="model-load, serving: measure from this machine, without a site; nothing is recorded.",
            ),
        )
    ):
        command = option(command)
    return command


def request(asked: Mapping[str, Any]) -> Request:
    """The request made by the options. Raises UsageError or ConfigError."""
    try:
        size = size_of(asked["size"]) if asked["size"] else 0
        levels = tuple(int(word) for word in asked["concurrency"].split(","))
    except ValueError as error:
        raise click.UsageError(f"--size or --concurrency: {error}") from None
    if asked["here"] and not asked["places"]:
        raise click.UsageError("--here needs --place: the folder or bucket to load from")
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
    """Settings of the benchmark. Raises ConfigError for a host that is not in the site."""
    asked = request(given)
    require_hosts(target, asked, common.quiet())
    return {NAME: {"request": asked}}


def alone(given: Mapping[str, Any], as_json: bool) -> int | None:
    """The exit code if no site is needed (--here), else None."""
    return show(action(request(given)), as_json) if given["here"] else None
