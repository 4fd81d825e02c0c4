"""appliance node show, assign, conditions"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from appliance.actions import node as action
from appliance.actions import node_conditions
from appliance.actions.kubeconfig import find
from appliance.actions.node import Move, Seen
from appliance.actions.node_conditions import Act, Fit, Told
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
    """GPU hosts and their owners. Who gives them work, and one of them moved.

    \b
    appliance node show --inventory mysite                    who owns each host, and what runs there
    appliance node assign gpu-3 slurm --wait 240              drains gpu-3 in Kubernetes, gives it to Slurm
    appliance node assign gpu-3 kubernetes --wait 0 --evict   at once: jobs that run there are ended
    appliance node conditions --inventory mysite              tells Kubernetes what health judges, and cordons what is unfit
    """


@node.command()
@options.target_options
@options.json_option("What was found, as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show whose each GPU host is, and what runs there. By the site, by Slurm and by Kubernetes; changes nothing.

    Exit: 0 as the site says, 1 not, or not known, 2 unusable input.
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
    help="Minutes that jobs, and pods that run to an end, have for it.",
)
@click.option("--evict", is_flag=True, help="Then end what still runs there.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.json_option("Events as JSON, one object per line.")
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
    """Give HOST to Kubernetes or to Slurm. Drains it, writes its owner to site.yml, hands it over.

    Jobs, and pods that run to an end, are waited for; pods that are made anew elsewhere are evicted, as their disruption
    budgets allow. What is not free in time keeps its owner, and site.yml its text. After an interrupt the same command
    continues. Exit as of deploy: 0 good, 1 failed, 2 unusable input, 3 incomplete, 130 interrupted.
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
    help="Hosts that may be out of work at the same time; else a tenth of them, and one at least.",
)
@click.option("--no-cordon", is_flag=True, help="Write conditions alone.")
@options.json_option("What was told, as one JSON object.")
def conditions(
    inventory: Path | None,
    profile: str | None,
    kubeconfig: Path | None,
    most_out: int | None,
    no_cordon: bool,
    as_json: bool,
) -> int:
    """Tell Kubernetes what health judges of its GPU hosts. Each node gets the condition ApplianceFit; unfit ones no new pods.

    What makes a host unfit is what drains one of Slurm. It is cordoned, with the annotation appliance/unfit, while no more than --most-out
    are out, and given back once it is fit; after faults of a GPU by a person alone (kubectl uncordon). Pods that run stay.
    Exit: 0 all are fit, 1 one is not, 2 unusable input, 3 one could not be judged.
    """
    target = options.target(inventory, profile)
    watcher = options.quiet()
    cluster = find(kubeconfig, target, watcher)
    told = node_conditions.tell(target, cluster, watcher, most_out, cordon=not no_cordon)
    if as_json:
        options.echo_json(NodeConditions(hosts={t.judged.host: _condition(t) for t in told}))
    else:
        for one in told:
            options.echo(_told(one))
    fits = {one.judged.fit for one in told}
    return 1 if Fit.NO in fits else 3 if Fit.UNKNOWN in fits or any(t.error for t in told) else 0


def _condition(one: Told) -> NodeCondition:
    judged = one.judged
    return NodeCondition(
        fit=judged.fit.value,
        causes=tuple(judged.causes.values()),
        act=one.act.value,
        error=one.error,
    )


def _told(one: Told) -> str:
    judged = one.judged
    sign = {Fit.YES: "✓", Fit.NO: "✗", Fit.UNKNOWN: "?"}[judged.fit]
    said = one.error or "; ".join(filter(None, [one.act.value, *judged.causes.values()]))
    if judged.fit is Fit.YES and one.act is Act.STAYS_OUT:
        said = f"fit, and stays cordoned after a fault of a GPU: kubectl uncordon {judged.host}"
    return f"  {sign} {judged.host:<12} {said or 'fit'}".rstrip()


def _intent(move: Move) -> list[str]:
    seen = move.seen
    there = f"{seen.host} goes to {move.owner}; the site says {seen.declared} now"
    then = "then ended" if move.evict else "else it stays where it is"
    lines = [f"  {there} ({move.file})"]
    if seen.work:
        lines.append(f"  At work there, with {move.minutes:g} min to come to an end, {then}:")
        lines += [f"    {work}" for work in seen.work]
    else:
        lines.append("  Nothing runs there.")
    return lines


def _lines(seen: Seen, command: Callable[..., str]) -> list[str]:
    sign = "✓" if seen.settled else "✗" if seen.is_known else "?"
    said = [f"{owner.value}: {held.said}" for owner, held in seen.held.items()]
    lines = [f"  {sign} {seen.host:<12} {seen.declared.value:<11} {' · '.join(said)}".rstrip()]
    if seen.error:
        lines.append(f"      {seen.error.message}")
        lines += [f"      fix: {seen.error.hint}"] if seen.error.hint else []
    elif not seen.is_known:
        lines.append(f"      {seen.declared} does not know it: the host was never brought to it")
        lines.append(f"      fix: {command('deploy', '--limit', seen.host)}")
    elif not seen.settled:
        lines.append(f"      the site says {seen.declared}, and that is not so everywhere")
        lines.append(f"      fix: {command('node assign', seen.host, seen.declared)}")
    lines += [f"      {work}" for work in seen.work]
    return lines


def _document(seen: Seen) -> NodeOwner:
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
