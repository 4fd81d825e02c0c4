"""appliance node show, assign, conditions"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from appliance.actions.hosts import owners as action
from appliance.actions.hosts.owners import HostOwner, Move
from appliance.actions.kubernetes import node_conditions
from appliance.actions.kubernetes.kubeconfig import find
from appliance.actions.kubernetes.node_conditions import Act, Fit, NodeConditionResult
from appliance.cli import options, spoken
from appliance.models.site import Owner
from appliance.report.console import run_summary
from appliance.report.documents import (
    Holding,
    NodeCondition,
    NodeConditions,
    NodeOwner,
    NodeOwners,
)


@click.group()
def node() -> None:
    """Show or change which scheduler owns a GPU host. And report unfit hosts to Kubernetes.

    \b
    appliance node show --site mysite                    show the owner and the work of each host
    appliance node assign gpu-3 slurm --wait 240              drain gpu-3 in Kubernetes, then give it to Slurm
    appliance node assign gpu-3 kubernetes --wait 0 --evict   assign it at once: running jobs are killed
    appliance node conditions --site mysite              set node conditions from health, and cordon unfit hosts
    """


@node.command()
@options.target_options
@options.json_option("Print the owners as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show the owner of each GPU host and what runs there. As declared in the site, and as seen by Slurm and Kubernetes. Changes nothing.

    Exit: 0 all as declared, 1 some differ or are unknown, 2 unusable input.
    """
    site, hosts = action.show(options.target(inventory, profile), options.quiet())
    if as_json:
        told = {seen.host: _document(seen) for seen in hosts}
        options.echo_json(NodeOwners(site=site, hosts=told))
    else:
        for seen in hosts:
            for line in _lines(seen, partial(options.command_line, inventory, profile)):
                options.echo(line)
    return 0 if all(seen.settled for seen in hosts) else 1


@node.command()
@click.argument("host")
@click.argument("owner", type=click.Choice([owner.value for owner in Owner]))
@options.target_options
@click.option(
    "--wait",
    "minutes",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Minutes to wait for jobs, and for pods that run to completion.",
)
@click.option("--evict", is_flag=True, help="After that, kill what still runs there.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@options.json_option("Print events as JSON, one object per line.")
def assign(
    host: str,
    owner: str,
    inventory: Path | None,
    profile: str | None,
    minutes: float,
    evict: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Assign HOST to Kubernetes or Slurm. Drains it, writes the owner to site.yml, and deploys it.

    Waits for jobs, and for pods that run to completion. Evicts pods that are recreated on other hosts, within their
    disruption budgets. If the host is not free in time, its owner and site.yml stay unchanged. After an interrupt, the
    same command continues. Exit as for deploy: 0 good, 1 failed, 2 unusable input, 3 incomplete, 130 interrupted.
    """
    options.require_answer(yes, as_json)
    console = options.console(stderr=as_json)

    def consent(move: Move) -> bool:
        if not as_json:
            for line in _intent(move):
                options.echo(line)
        return yes or click.confirm("\n  Move it?", default=False)

    watcher = options.observer(as_json)
    with watcher:
        done = action.assign(
            options.target(inventory, profile),
            host,
            Owner(owner),
            watcher,
            consent,
            minutes,
            evict=evict,
        )
    if done.record is None:
        console.print("  Nothing was changed.")
    elif not as_json:
        console.print()
        following = options.command_line(inventory, profile, "node show")
        run_summary(console, spoken.advice(done.record), done.report, following, stages=False)
    return done.exit_code


@node.command()
@options.target_options
@options.kubeconfig_option
@click.option(
    "--most-out",
    type=click.IntRange(0),
    help="Largest number of hosts that may be cordoned at the same time. Default: a tenth of them, at least one.",
)
@click.option("--no-cordon", is_flag=True, help="Set conditions only.")
@options.json_option("Print the conditions as one JSON object.")
def conditions(
    inventory: Path | None,
    profile: str | None,
    kubeconfig: Path | None,
    most_out: int | None,
    no_cordon: bool,
    as_json: bool,
) -> int:
    """Report the health of GPU hosts to Kubernetes. Sets the condition ApplianceFit on each node and cordons unfit nodes.

    A host is unfit for the same reasons that drain a host in Slurm. An unfit node is cordoned, with the annotation
    appliance/unfit, unless --most-out nodes are out already. It is uncordoned when the host is fit again. After a GPU
    fault, only an operator uncordons it (kubectl uncordon). Running pods stay. This is for an external cluster: hosts of
    the site's own cluster check themselves (kubernetes.watch).
    Exit: 0 all are fit, 1 one is not, 2 unusable input, 3 one could not be judged.
    """
    target = options.target(inventory, profile)
    watcher = options.quiet()
    cluster = find(kubeconfig, target, watcher)
    told = node_conditions.update_conditions(
        target, cluster, watcher, most_out, cordon=not no_cordon
    )
    if as_json:
        options.echo_json(NodeConditions(hosts={t.judged.host: _condition(t) for t in told}))
    else:
        for one in told:
            options.echo(_condition_text(one))
    fits = {one.judged.fit for one in told}
    return 1 if Fit.NO in fits else 3 if Fit.UNKNOWN in fits or any(t.error for t in told) else 0


def _condition(one: NodeConditionResult) -> NodeCondition:
    judged = one.judged
    return NodeCondition(
        fit=judged.fit.value,
        causes=tuple(judged.causes.values()),
        act=one.act.value,
        error=one.error,
    )


def _condition_text(one: NodeConditionResult) -> str:
    judged = one.judged
    sign = {Fit.YES: "✓", Fit.NO: "✗", Fit.UNKNOWN: "?"}[judged.fit]
    said = one.error or "; ".join(filter(None, [one.act.value, *judged.causes.values()]))
    if judged.fit is Fit.YES and one.act is Act.STAYS_OUT:
        said = f"fit, but cordoned after a GPU fault; to release it: kubectl uncordon {judged.host}"
    return f"  {sign} {judged.host:<12} {said or 'fit'}".rstrip()


def _intent(move: Move) -> list[str]:
    seen = move.seen
    there = f"{seen.host} will belong to {move.owner}; declared owner now: {seen.declared}"
    then = "then it is killed" if move.evict else "else the host keeps its owner"
    lines = [f"  {there} ({move.file})"]
    if seen.work:
        lines.append(f"  Work on it has {move.minutes:g} min to finish, {then}:")
        lines += [f"    {work}" for work in seen.work]
    else:
        lines.append("  Nothing runs there.")
    return lines


def _lines(seen: HostOwner, command: Callable[..., str]) -> list[str]:
    sign = "✓" if seen.settled else "✗" if seen.is_known else "?"
    said = [f"{owner.value}: {held.said}" for owner, held in seen.held.items()]
    lines = [f"  {sign} {seen.host:<12} {seen.declared.value:<11} {' · '.join(said)}".rstrip()]
    if seen.error:
        lines.append(f"      {seen.error.message}")
        lines += [f"      fix: {seen.error.hint}"] if seen.error.hint else []
    elif not seen.is_known:
        lines.append(f"      {seen.declared} does not list this host: it was never deployed there")
        lines.append(f"      fix: {command('deploy', '--hosts', seen.host)}")
    elif not seen.settled:
        lines.append(f"      declared owner is {seen.declared}, but the actual state differs")
        lines.append(f"      fix: {command('node assign', seen.host, seen.declared)}")
    lines += [f"      {work}" for work in seen.work]
    return lines


def _document(seen: HostOwner) -> NodeOwner:
    held = {
        owner.value: Holding(
            owner=one.owner.value if one.owner else None,
            gives_work=one.gives,
            state=one.said,
            work=one.work,
        )
        for owner, one in seen.held.items()
    }
    return NodeOwner(
        declared=seen.declared.value,
        as_declared=seen.settled if seen.is_known else None,
        slurm=held.get(Owner.SLURM),
        kubernetes=held.get(Owner.KUBERNETES),
        error=seen.error.message if seen.error else "",
        fix=seen.error.hint if seen.error else "",
    )
