"""appliance validate model-load"""

from collections.abc import Mapping
from typing import Any

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
from appliance.cli.renamed import renamed
from appliance.cli.serving_trial import HERE, WORD
from appliance.cli.settings import Setting, settled

MINUTES = 60
SETTINGS = (
    Setting("concurrency", ",".join(map(str, LEVELS))),
    Setting("repeats", 3, click.INT),
    Setting("loaders", ",".join(LOADERS)),
    Setting("scratch", "/var/tmp"),
    Setting("evict", many=True),
    Setting("keep", False, click.BOOL),
    Setting("s3-endpoint", ""),
)
"""Described in docs/model-load.md."""
OPTIONS = (
    click.Option(
        ["--place", "places"],
        multiple=True,
        metavar="DIR|s3://BUCKET",
        help="Storage to load from (repeatable). Default: scratch and all mounts of the site.",
    ),
    *renamed(
        "--on",
        *("--hosts", "on_hosts"),
        multiple=True,
        metavar="HOST",
        help="Measure on this host (repeatable). Default: the first GPU host.",
    ),
    click.Option(
        ["--size"],
        default="",
        metavar="SIZE",
        help="Size of the model file, such as 2G. Default: Llama-3-8B's 16.06 GB.",
    ),
    click.Option(
        ["--python"],
        default="python3",
        show_default=True,
        metavar="FILE",
        help="The hosts' Python interpreter that has the loaders.",
    ),
    click.Option(
        ["--s3-credentials"],
        type=InputFile(),
        metavar="FILE",
        help="S3 credentials, in the format of the AWS tools; mode 0600. Default: those of the host.",
    ),
    click.Option(
        ["--minutes"],
        type=click.IntRange(1, 20160),
        help="Timeout for all loads of a host. Default: 60.",
    ),
    HERE,
)


def request(asked: Mapping[str, Any]) -> Request:
    """The request made by the options. Raises UsageError or ConfigError."""
    asked = {**asked, **settled(asked, SETTINGS)}
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
        option = {"deadline": "minutes", "places": "place"}.get(
            str(first["loc"][0]), str(first["loc"][0])
        )
        raise click.UsageError(f"--{option}: {first['msg'].removeprefix(WORD)}") from None


def settings(target: Target, given: Mapping[str, Any]) -> dict[str, dict[str, Request]]:
    """Settings of the benchmark. Raises ConfigError for a host that is not in the site."""
    asked = request(given)
    require_hosts(target, asked, common.quiet())
    return {NAME: {"request": asked}}


def here(given: Mapping[str, Any], as_json: bool) -> int:
    """Measures from this machine, without a site; the exit code."""
    return show(action(request(given)), as_json)
