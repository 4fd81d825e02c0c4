"""appliance validate NAME...: the commands of the benchmarks, and a run of several."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from pydantic import ValidationError

from appliance.actions.benchmarks import validate as action
from appliance.actions.sites.opening import Target
from appliance.benchmarks import BENCHMARKS
from appliance.cli import (
    foreign_trial,
    gate_trial,
    gpt3_training,
    model_load_trial,
    options,
    outcome,
    pods_trial,
    serving_trial,
    spoken,
)
from appliance.cli.named import Named
from appliance.cli.settings import set_options
from appliance.cli.tables import print_tables
from appliance.models.run import RunRecord
from appliance.report.console import run_summary
from appliance.stages.slurm.site import JobContainer

VERBOSE = click.Option(["-v", "--verbose"], is_flag=True, help="Print every step as a line.")
COMMON = (*options.TARGET, VERBOSE, *options.formats("junit"))
OWN: Mapping[str, tuple[click.Option, ...]] = {
    "gpt3": gpt3_training.TRAINING,
    "dcgm": (
        click.Option(
            ["--level"],
            type=click.IntRange(1, 4),
            help="1 takes seconds, 2 minutes, 3 a quarter of an hour, 4 hours. Default: the profile's level, or 2.",
        ),
    ),
    "model-load": model_load_trial.OPTIONS,
    "serving": serving_trial.OPTIONS,
    "burnin": (
        click.Option(
            ["--minutes"], type=click.IntRange(1, 20160), help="Duration. Default: eight hours."
        ),
    ),
}
"""Options of one benchmark; those of several have the same name and kind."""
SETTINGS = {"model-load": model_load_trial.SETTINGS, "serving": serving_trial.SETTINGS}
EXAMPLES = {
    "gpt3": (
        "On GPUs of Slurm:      appliance validate gpt3 --model 5b --nodes 1,2",
        "Without a container:   appliance validate gpt3 --model 126m --framework pytorch",
    ),
    "model-load": (
        "On the site:   appliance validate model-load --python /opt/model-load/bin/python3",
        "From here:     appliance validate model-load --here --place /data",
    ),
    "serving": ("appliance validate serving --endpoint https://HOST:8000/v1",),
}
JSON_OR_TABLE = ("table", "json")


def command(names: tuple[str, ...]) -> click.Command:
    """The command that runs these benchmarks, with the options of all of them."""
    known = {b.name: b for b in BENCHMARKS}
    asked = [known[name] for name in dict.fromkeys(names) if name in known]

    def measure(**given: Any) -> int:
        return run(given.pop("benchmarks") or names, given)

    more = click.Argument(
        ["benchmarks"], nargs=-1, type=click.Choice(list(known)), metavar="[NAME]..."
    )
    return Named(
        names[0],
        params=[more, *_options(names)],
        callback=measure,
        help="\n\n".join(f"{b.title}.\n\n{b.explain}" for b in asked) + _examples(asked[0].name),
        short_help=asked[0].title,
    )


def _examples(name: str) -> str:
    lines = EXAMPLES.get(name, ())
    return "\n\n\b\n" + "\n".join(lines) if lines else ""


def _options(names: Iterable[str]) -> list[click.Option]:
    """Those of these benchmarks, each once."""
    names = tuple(names)
    found = [*COMMON, *(option for name in names for option in OWN.get(name, ()))]
    found += set_options([one for name in names for one in SETTINGS.get(name, ())])
    for name in names:
        if name in pods_trial.BENCHMARKS:
            found += pods_trial.OF_GPT3 if name == "gpt3" else pods_trial.OPTIONS
    return list({option.name: option for option in reversed(found)}.values())[::-1]


def every_option() -> list[click.Option]:
    """The options of all benchmarks."""
    return _options([benchmark.name for benchmark in BENCHMARKS])


def run(names: tuple[str, ...], given: Mapping[str, Any]) -> int:
    """Runs the benchmarks of these names, none for those of a deployment. Returns the exit code; raises UsageError."""
    shape = options.chosen_format(given["shape"], given.get("as_json", False))
    left_out = pods_trial.left_out(names)
    names = pods_trial.named_benchmarks(names)
    inventory, profile = given["inventory"], given["profile"]
    gpt3_training.refuse_framework(given.get("model"))
    pods = pods_trial.asked(names, Target(inventory, profile), given)
    container = _container(given.get("container_image"), given.get("container_mounts"))
    if len(names) > 1 and given.get("here"):
        raise click.UsageError("--here needs exactly one benchmark")
    if given.get("here"):
        loads = names[0] == model_load_trial.NAME
        here = model_load_trial.here if loads else serving_trial.here
        return here(given, _table_or_json(shape))
    target = options.target(inventory, profile)
    settings = {
        "dcgm": {"level": given.get("level") or 0},
        "burnin": {"minutes": given.get("minutes") or 0},
        **gpt3_training.settings(target, names, given, container),
    }
    if model_load_trial.NAME in names:
        settings |= model_load_trial.settings(target, given)
    if serving_trial.NAME in names:
        settings |= serving_trial.settings(given)
    watcher = _watcher(shape, verbose=given["verbose"])
    record, report = action.validate(
        target, names, watcher, None if pods else container, settings, pods, left_out
    )
    return print_record(record, report, shape)


def _watcher(shape: str, *, verbose: bool) -> Any:
    return options.observer(False, verbose) if shape == "table" else options.quiet()


def _table_or_json(shape: str) -> bool:
    """Whether JSON is printed. Raises UsageError for another format than these."""
    if shape not in JSON_OR_TABLE:
        raise click.UsageError(f"--format {shape} needs a run on the site: no record is made here")
    return shape == "json"


def continued(
    target: Target, run_id: str | None, foreign: Path | None, shape: str, *, verbose: bool
) -> int:
    """A resumed run, or an audit by another program."""
    if foreign:
        return foreign_trial.enter(target, foreign, _table_or_json(shape))
    watcher = _watcher(shape, verbose=verbose)
    return print_record(*action.resume(target, str(run_id), watcher), shape)


def self_test(inventory: Path | None, profile: str | None, shape: str) -> int:
    """Tries the gates; the exit code."""
    return gate_trial.try_gates(Target(inventory, profile), _table_or_json(shape))


def refuse_more(context: click.Context, option: str) -> None:
    """An option that excludes all others. Raises UsageError."""
    common = {option, "inventory", "profile", "verbose", "shape", "as_json"}
    given = (n for n in context.params if n not in common)
    if any(context.get_parameter_source(n) is ParameterSource.COMMANDLINE for n in given):
        raise click.UsageError(f"--{option} excludes all options but --site and --profile")


def print_record(record: RunRecord, report: str, shape: str) -> int:
    """Prints the record of a run in a format; its exit code."""
    if shape != "table":
        return outcome.print_record(record, shape)
    console = options.console()
    print_tables(console, record.tables)
    run_summary(console, spoken.advice(record), report)
    return record.verdict.exit_code


def _container(image: str | None, mounts: str | None) -> JobContainer | None:
    if not image:
        if mounts:
            raise click.UsageError("--container-mounts needs --container-image")
        return None
    try:
        return JobContainer(image=image, mounts=tuple(mounts.split(",")) if mounts else ())
    except ValidationError as error:
        option = (
            "--container-image" if error.errors()[0]["loc"][0] == "image" else "--container-mounts"
        )
        example = "nvcr.io#nvidia/pytorch:26.01-py3" if option.endswith("image") else "/data:/data"
        raise click.BadParameter(f"write it as {example}", param_hint=option) from None
