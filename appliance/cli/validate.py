"""appliance validate"""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from pydantic import ValidationError

from appliance.acceptance.sandbox import Settings
from appliance.actions.benchmarks import validate as action
from appliance.actions.benchmarks.through_pods import trial_image
from appliance.actions.kubernetes.kubeconfig import find
from appliance.actions.sites.opening import Target
from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.gpt3.trial import Framework
from appliance.cli import (
    conformance_trial,
    foreign_trial,
    gate_trial,
    gpt3_logs,
    gpt3_render,
    gpt3_training,
    model_load_trial,
    options,
    pods_trial,
    scheduler_trial,
    serving_trial,
    spoken,
    workloads_trial,
)
from appliance.cli.files import InputFile
from appliance.cli.tables import print_tables
from appliance.models.events import Observer
from appliance.models.run import RunRecord
from appliance.report.console import run_summary
from appliance.stages.slurm.site import JobContainer

TRIALS = (scheduler_trial.NAME, workloads_trial.NAME, conformance_trial.NAME)
NAMES = [*(b.name for b in BENCHMARKS), *TRIALS]
DEFAULTS = Settings()
ON_SCHEDULER = (scheduler_trial.NAME, conformance_trial.NAME)
OPTIONS_OF = {
    "level": ("dcgm",),
    "minutes": ("burnin", model_load_trial.NAME),
    **dict.fromkeys(model_load_trial.OPTIONS, (model_load_trial.NAME,)),
    **dict.fromkeys(serving_trial.OPTIONS, (serving_trial.NAME,)),
    "here": (model_load_trial.NAME, serving_trial.NAME),
    "from_logs": ("gpt3",),
    "table": ("gpt3", serving_trial.NAME),
    "render": ("gpt3",),
    "nodes": ("gpt3",),
    **dict.fromkeys(("through", "queue"), pods_trial.BENCHMARKS),
    **dict.fromkeys(("model", "framework"), ("gpt3",)),
    "kubeconfig": (*TRIALS, *pods_trial.BENCHMARKS),
    "clean": TRIALS,
    "prometheus": ON_SCHEDULER,
    "scheduler_name": ON_SCHEDULER,
    "image": (*ON_SCHEDULER, *pods_trial.BENCHMARKS),
    "evidence": (conformance_trial.NAME,),
    "gpu_image": (scheduler_trial.NAME,),
}
"""The benchmarks that each option belongs to."""


@click.command()
@click.argument("benchmarks", nargs=-1, type=click.Choice(NAMES))
@options.target_options
@click.option(
    "--from-logs",
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR",
    help="gpt3 only: read the logs of finished NeMo or Megatron runs instead of running a training.",
)
@click.option(
    "--table",
    is_flag=True,
    help="gpt3, serving: print the published tables, with misprints and doubtful cells marked.",
)
@gpt3_render.render_options
@click.option(
    "--model",
    metavar="NAME",
    help="gpt3 only: model, such as 5b, to train now, or to select with --from-logs or --render.",
)
@click.option(
    "--framework",
    type=click.Choice([one.value for one in Framework]),
    default=Framework.NEMO.value,
    show_default=True,
    help="gpt3 only: framework that trains --model: NeMo in its container, or the hosts' own PyTorch.",
)
@click.option(
    "--container-image",
    metavar="IMAGE",
    help="gpt3 only: train in this container, in the notation of Pyxis (docs/gpt3.md).",
)
@click.option(
    "--container-mounts",
    metavar="SRC:DST,...",
    help="Paths of the hosts that are mounted in the container.",
)
@click.option(
    "--level",
    type=click.IntRange(1, 4),
    help="dcgm only: 1 takes seconds, 2 minutes, 3 a quarter of an hour, 4 hours. Default: the profile's level, or 2.",
)
@click.option(
    "--minutes",
    type=click.IntRange(1, 20160),
    help="burnin: duration; default: eight hours. model-load: timeout for all loads of a host; default: 60.",
)
@model_load_trial.options
@serving_trial.options
@options.kubeconfig_option
@click.option(
    "--prometheus", default="", metavar="URL", help="scheduler, conformance: address of Prometheus."
)
@click.option("--scheduler-name", default=DEFAULTS.scheduler, show_default=True)
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    help="Image for test pods. scheduler needs sleep in it; conformance also sh; --through kubernetes sh and chroot. Default: the site's kubernetes.trial_image, or busybox 1.36.1.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="conformance only: folder for its evidence; default: conformance next to the kubeconfig.",
)
@click.option(
    "--gpu-image", default="", help="scheduler only: image with PyTorch, to test the memory limit."
)
@click.option("--clean", is_flag=True, help="Remove what an interrupted trial left in the cluster.")
@click.option(
    "--self-test",
    is_flag=True,
    help="Test every gate of acceptance with forged evidence. Contacts no host, records nothing.",
)
@click.option(
    "--foreign",
    type=InputFile(),
    metavar="FILE",
    help="Add an audit to the record: of ClusterMAX (audit.values.json), of NVIDIA's nvcrectl (--results-file) or of isvctl (--junitxml). Informational only; closes no gate.",
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Resume an interrupted run: wait for its jobs, then judge them.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every step as a line.")
@options.json_option("Print the record of the run as one JSON object.")
def validate(
    benchmarks: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    from_logs: Path | None,
    table: bool,
    render: Path | None,
    nodes: str,
    through: str,
    queue: str,
    model: str | None,
    framework: str,
    container_image: str | None,
    container_mounts: str | None,
    level: int | None,
    minutes: int | None,
    kubeconfig: Path | None,
    prometheus: str,
    scheduler_name: str,
    image: str,
    evidence: Path | None,
    gpu_image: str,
    clean: bool,
    self_test: bool,
    foreign: Path | None,
    resume: str | None,
    verbose: bool,
    as_json: bool,
    **measured: Any,
) -> int:
    """Run the cluster's benchmarks and judge their results. Changes no configuration.

    \b
    Benchmarks of a deployment:    appliance validate --inventory mysite
    Selected, also longer ones:    appliance validate storage fio --inventory mysite
    GPT-3 on GPUs of Slurm:        appliance validate gpt3 --model 5b --nodes 1,2 --inventory mysite
    The same without a container:  appliance validate gpt3 --model 126m --framework pytorch --inventory mysite
    Training in a container:       appliance validate gpt3 --container-image nvcr.io#nvidia/pytorch:26.01-py3
    Logs of a site's GPU runs:     appliance validate gpt3 --from-logs DIR --inventory mysite
    Resume after an interruption:  appliance validate --resume RUN --inventory mysite
    How fast models load:          appliance validate model-load --python /opt/model-load/bin/python3
    A served model:                appliance validate serving --endpoint https://HOST:8000/v1
    Without GPUs, through Slurm:   appliance validate --through slurm
    Without GPUs, in Kubernetes:   appliance validate --through kubernetes --queue QUEUE
    Self-test of the gates:        appliance validate --self-test --profile hpc
    Promises of the scheduler:     appliance validate scheduler --inventory mysite
    Add-ons of stage workloads:    appliance validate workloads --inventory mysite
    AI conformance of CNCF:        appliance validate conformance --inventory mysite

    Exit: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    left_out = pods_trial.left_out(benchmarks)
    benchmarks = pods_trial.named_benchmarks(benchmarks)
    _refuse_strays(benchmarks)
    if resume or foreign:
        _refuse_more("resume" if resume else "foreign")
        target = options.target(inventory, profile)
        watcher = options.quiet() if as_json else options.observer(as_json, verbose)
        return _gone_on(target, resume, foreign, watcher, as_json)
    gpt3_training.refuse_framework(model, not_now=bool(render or table or from_logs))
    if render:
        asked = gpt3_render.RenderRequest(model, nodes, through, container_image or "", queue)
        return gpt3_render.write(render, asked)
    pods = pods_trial.asked(benchmarks, Target(inventory, profile), kubeconfig, queue, image)
    if self_test:
        if benchmarks:
            raise click.UsageError("--self-test tests every gate: name no benchmark")
        return gate_trial.try_gates(Target(inventory, profile), as_json)
    container = _container(container_image, container_mounts)
    if container and (from_logs or "gpt3" not in (benchmarks or ("gpt3",))):
        raise click.UsageError("--container-image needs a training: appliance validate gpt3")
    if set(TRIALS) & set(benchmarks):
        target = options.target(inventory, profile)
        chosen = image or trial_image(target, options.quiet())
        settings = Settings(scheduler=scheduler_name, image=chosen, gpu_image=gpu_image)
        return _trial(
            benchmarks, target, kubeconfig, settings, prometheus, evidence, clean, as_json
        )
    if table and benchmarks == (serving_trial.NAME,):
        return serving_trial.papers(as_json)
    if table or from_logs:
        reading = gpt3_logs.Reading(from_logs, table, model, inventory, profile, as_json)
        return gpt3_logs.show(reading, benchmarks, _print_record)
    options_given = {**measured, "minutes": minutes}
    code = _without_site(benchmarks, options_given, as_json)
    if code is not None:
        return code
    target = options.target(inventory, profile)
    given = {
        "dcgm": {"level": level or 0},
        "burnin": {"minutes": minutes or 0},
        **gpt3_training.settings(target, benchmarks, model, nodes, through, container, framework),
        **_measured(benchmarks, target, options_given),
    }
    watcher = options.observer(as_json, verbose) if not as_json else options.quiet()
    record, report = action.validate(
        target,
        benchmarks,
        watcher,
        None if pods else container,
        given,
        pods,
        left_out,
    )
    return _print_record(record, report, as_json)


def _gone_on(
    target: Target, run: str | None, foreign: Path | None, watcher: Observer, as_json: bool
) -> int:
    """Options that exclude all others: a resumed run, or an audit by another program."""
    if foreign:
        return foreign_trial.enter(target, foreign, as_json)
    return _print_record(*action.resume(target, str(run), watcher), as_json)


def _refuse_more(option: str) -> None:
    """An option that excludes all others. Raises UsageError."""
    context = click.get_current_context()
    beside = {option, "inventory", "profile", "verbose", "as_json"}
    given = (n for n in context.params if n not in beside)
    if any(context.get_parameter_source(n) is ParameterSource.COMMANDLINE for n in given):
        raise click.UsageError(f"--{option} excludes all options but --inventory and --profile")


def _without_site(benchmarks: tuple[str, ...], asked: dict[str, Any], as_json: bool) -> int | None:
    """The exit code of a measurement from this machine or of a file; None if a site is measured."""
    alone = {
        model_load_trial.NAME: model_load_trial.alone,
        serving_trial.NAME: serving_trial.alone,
    }
    if len(benchmarks) > 1 and (asked["here"] or asked["results"]):
        raise click.UsageError("--here and --results need exactly one benchmark")
    return alone[benchmarks[0]](asked, as_json) if benchmarks and benchmarks[0] in alone else None


def _measured(
    benchmarks: tuple[str, ...], target: Target, asked: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    given: dict[str, dict[str, Any]] = {}
    if model_load_trial.NAME in benchmarks:
        given |= model_load_trial.settings(target, asked)
    if serving_trial.NAME in benchmarks:
        given |= serving_trial.settings(target, asked)
    return given


def _trial(
    benchmarks: tuple[str, ...],
    target: Target,
    kubeconfig: Path | None,
    settings: Settings,
    prometheus: str,
    evidence: Path | None,
    clean: bool,
    as_json: bool,
) -> int:
    if len(benchmarks) > 1:
        name = next(name for name in TRIALS if name in benchmarks)
        verb = "are" if name == workloads_trial.NAME else "is"
        raise click.UsageError(f"{name} {verb} run alone: appliance validate {name}")
    cluster = find(kubeconfig, target, options.quiet())
    if benchmarks == (scheduler_trial.NAME,):
        return scheduler_trial.try_promises(cluster, settings, prometheus, clean, as_json)
    if benchmarks == (conformance_trial.NAME,):
        return conformance_trial.try_requirements(
            target, cluster, settings, prometheus, evidence, clean, as_json
        )
    return workloads_trial.try_hellos(target, cluster, clean, as_json)


def _print_record(record: RunRecord, report: str, as_json: bool) -> int:
    if as_json:
        options.echo_json(record)
        return record.verdict.exit_code
    console = options.console()
    print_tables(console, record.tables)
    run_summary(console, spoken.advice(record), report)
    return record.verdict.exit_code


def _refuse_strays(benchmarks: tuple[str, ...]) -> None:
    """Refuses an option of another benchmark instead of ignoring it. Raises UsageError."""
    given = click.get_current_context().get_parameter_source
    for option, owners in OPTIONS_OF.items():
        if given(option) is ParameterSource.COMMANDLINE and not set(owners) & set(benchmarks):
            flag = f"--{option.replace('_', '-')}"
            raise click.UsageError(f"{flag} needs: appliance validate {' or '.join(owners)}")


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
