"""appliance queue show, status, plan, apply, render"""

import os
from pathlib import Path

import click

from appliance.actions.kubernetes import queues as action
from appliance.actions.kubernetes.gitops import Tool, files
from appliance.actions.kubernetes.queue_state import state
from appliance.cli import options
from appliance.config.load import LoadedSite
from appliance.errors import ConfigError
from appliance.models.queue_plan import QueuePlan
from appliance.report.console.queues import plan_lines, queue_state, queue_tree
from appliance.report.documents import Queues
from appliance.stages.scheduler.queues.rendered import Rendered
from appliance.text import plural


@click.group()
def queue() -> None:
    """Show and apply the queues of departments and projects. With the GPUs that each is guaranteed, on Kubernetes.

    \b
    Show and check the tree:       appliance queue show --site mysite
    Show who waits, and why:       appliance queue status --site mysite
    Show what would change:        appliance queue plan --site mysite
    Change the cluster:            appliance queue apply --site mysite
    Write files for Helm, kubectl: appliance queue render --site mysite --output rendered
    """


@queue.command()
@options.target_options
@options.json_option("Print the tree as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show the site's queues and the guarantee of each. Contacts nothing.

    Exit: 0 valid, 2 impossible or unusable.
    """
    loaded, wanted = action.describe(options.target(inventory, profile))
    if as_json:
        options.echo_json(_document(loaded, wanted))
    else:
        queue_tree(options.console(), action.tree_of(loaded))
    return 0


@queue.command()
@options.target_options
@options.kubeconfig_option
@options.json_option("Print the state as one JSON object.")
def status(
    inventory: Path | None, profile: str | None, kubeconfig: Path | None, as_json: bool
) -> int:
    """Show which queue has how many GPUs, and why pods wait. Reads only.

    Exit: 0 read, even if pods wait; 1 the cluster failed, 2 unusable.
    """
    loaded, _ = action.describe(options.target(inventory, profile))
    with action.cluster_of(loaded, kubeconfig) as cluster:
        found = state(loaded, cluster)
    if as_json:
        options.echo_json(found)
    else:
        queue_state(options.console(), found)
    return 0


@queue.command()
@options.target_options
@options.kubeconfig_option
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="0 nothing to do, 1 error or refused, 2 changes to make.",
)
@options.json_option("Print the plan as one JSON object.")
def plan(
    inventory: Path | None,
    profile: str | None,
    kubeconfig: Path | None,
    detailed_exitcode: bool,
    as_json: bool,
) -> int:
    """Show what apply would change in the cluster or in Run:ai. Field by field; changes nothing.

    Exit: 0 done, 1 something blocks the change or the cluster failed, 2 impossible or unusable.
    """
    loaded, _ = action.describe(options.target(inventory, profile))
    with action.keeper_of(loaded, kubeconfig) as keeper:
        made = keeper.plan()
    _show_plan(made, as_json)
    if made.refused:
        return 1
    return 2 if detailed_exitcode and made.work else 0


@queue.command()
@options.target_options
@options.kubeconfig_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@options.json_option("Print the changes as one JSON object.")
def apply(
    inventory: Path | None,
    profile: str | None,
    kubeconfig: Path | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Bring the queues of the cluster or of Run:ai to the declared state. Shows the plan, asks, applies.

    Nothing is applied while something blocks a change. After an interrupt, the same command continues.
    Exit: 0 as declared, 1 refused or failed, 2 impossible or unusable.
    """
    if as_json:
        options.require_answer(yes, as_json)
    target = options.target(inventory, profile)
    loaded, _ = action.describe(target)
    with (
        action.keeper_of(loaded, kubeconfig) as keeper,
        action.changing(target, options.quiet()) as session,
    ):
        made = keeper.plan()
        _show_plan(made, as_json)
        if made.refused:
            return 1
        if not made.work:
            return 0
        if not yes and not click.confirm(
            f"  Apply {plural(len(made.work), 'change')} to {keeper.server}?"
        ):
            return 1
        with action.alone(session):
            done = keeper.apply(
                made,
                (lambda _: None) if as_json else lambda said: options.echo(f"  {said}"),
            )
    if not as_json:
        options.echo(f"  {plural(done, 'change')} made")
    return 0


@queue.command()
@options.target_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR"
)
@click.option(
    "--charts",
    type=click.Choice([tool.value for tool in Tool]),
    help="Also write objects with which this tool installs the charts of scheduler and workloads.",
)
def render(inventory: Path | None, profile: str | None, output: Path, charts: str | None) -> int:
    """Write the queues as files. Resources for kubectl -k, values and exact versions for Helm. Contacts nothing.

    The same site and profile always give the same files, byte for byte.
    """
    loaded, wanted = action.describe(options.target(inventory, profile))
    for name, content in files(loaded, wanted, Tool(charts) if charts else None).items():
        file = output / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{file} cannot be written ({error.strerror})",
                "name a folder that you own with --output",
            ) from None
        options.echo(os.fspath(file))
    unpinned = [chart.name for chart in wanted.charts if chart.version is None]
    if unpinned:
        options.echo(f"no exact version is known for: {', '.join(unpinned)}", err=True)
    return 0


def _show_plan(made: QueuePlan, as_json: bool) -> None:
    if as_json:
        options.echo_json(made)
    else:
        for line in plan_lines(made):
            options.echo(line)


def _document(loaded: LoadedSite, wanted: Rendered) -> Queues:
    return Queues(
        **dict(action.tree_of(loaded)),
        digest=wanted.digest,
        resources=tuple(map(dict, wanted.resources)),
        node_labels=wanted.node_labels,
        charts=tuple(chart.model_dump(mode="json") for chart in wanted.charts),
    )
