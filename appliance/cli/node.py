"""appliance node show, drain, return, replace, add, remove, reboot, assign, conditions"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from appliance.actions.hosts import addition, maintenance, reboot, removal, replacement
from appliance.actions.hosts import owners as action
from appliance.actions.hosts.owners import HostOwner, Move
from appliance.actions.kubernetes import node_conditions
from appliance.actions.kubernetes.kubeconfig import find
from appliance.actions.kubernetes.node_conditions import Act, Fit, NodeConditionResult
from appliance.cli import options, spoken
from appliance.cli.waves import EVICT as EVICT_THEN
from appliance.cli.waves import WAIT, YES, order_lines, result_lines
from appliance.models.site import Host, Owner, Role
from appliance.report.console import run_summary
from appliance.report.documents import (
    Holding,
    NodeCondition,
    NodeConditions,
    NodeOwner,
    NodeOwners,
)

EVICT = click.option(
    "--evict", is_flag=True, help="Then kill what still runs; needed for the work of a dead host."
)
FORCE = click.option("--force", is_flag=True, help="Replace the drain of another operator.")


@click.group()
def node() -> None:
    """Drain and return hosts; show or change their scheduler.

    \b
    appliance node show --site mysite                         show the owner and the work of each host
    appliance node drain gpu-3 --reason "new power supply"    planned work: no new jobs or pods
    appliance node return gpu-3                               back to work
    appliance node replace gpu-3                              the machine or its disk is new
    appliance node add gpu-4 --address 10.1.0.14              a new host
    appliance node remove gpu-3                               it leaves the site
    appliance node reboot --all                               in waves: drained, rebooted, judged, returned
    appliance node assign gpu-3 slurm --wait 240              drain gpu-3 in Kubernetes, then give it to Slurm
    appliance node assign gpu-3 kubernetes --wait 0 --evict   assign it at once: running jobs are killed
    appliance node conditions --site mysite                   set node conditions from health, and cordon unfit hosts
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
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--reason", required=True, metavar="TEXT", help="Why; users see it in sinfo -R.")
@options.target_options
@click.option(
    "--wait",
    "minutes",
    type=click.FloatRange(0),
    default=0.0,
    metavar="MINUTES",
    help="Wait for jobs, and for pods that run to completion. Default: do not wait.",
)
@EVICT_THEN
@FORCE
def drain(
    hosts: tuple[str, ...],
    reason: str,
    inventory: Path | None,
    profile: str | None,
    minutes: float,
    evict: bool,
    force: bool,
) -> int:
    """Drain GPU hosts for planned work on them. In Slurm and in Kubernetes, until node return.

    No new work starts there. Running jobs continue; pods that are recreated on other hosts are evicted, within their
    disruption budgets. Shows what still runs. In health, the hosts are not judged instead of failed.
    Exit: 0 drained, 1 work is left after --wait or --evict, 2 unusable input, such as a host that another person drained.
    """
    target = options.target(inventory, profile)
    kept = maintenance.drain_hosts(
        target, hosts, reason, options.quiet(), minutes, evict=evict, force=force
    )
    for one in kept:
        state = "still runs there:" if one.work else "nothing runs there"
        options.echo(f"  {one.host:<12} in maintenance: {one.planned.why}; {state}")
        for work in one.work:
            options.echo(f"      {work}")
    names = " ".join(one.host for one in kept)
    options.echo(
        f"  back to work: {options.command_line(inventory, profile, 'node return', names)}"
    )
    return int((minutes > 0 or evict) and any(one.work for one in kept))


@node.command("return")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@options.target_options
@click.option(
    "--force",
    is_flag=True,
    help="Also end the drain of another person, or one for another reason.",
)
def give_back(
    hosts: tuple[str, ...], inventory: Path | None, profile: str | None, force: bool
) -> int:
    """Return GPU hosts to work after node drain. Waits until their scheduler uses them.

    Exit: 0 all are in service, 1 some are not, 2 unusable input, such as a host that another person drained.
    """
    target = options.target(inventory, profile)
    done = maintenance.return_hosts(target, hosts, options.quiet(), force=force)
    for one in done:
        options.echo(f"  {'✓' if one.works else '✗'} {one.host:<12} {one.said}")
        if not one.works:
            options.echo(f"      fix: appliance health --hosts {one.host}")
    return 0 if all(one.works for one in done) else 1


@node.command()
@click.argument("host")
@options.target_options
@WAIT
@EVICT
@FORCE
@click.option(
    "--installed", is_flag=True, help="It has a new system already: do not install it by its BMC."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; this also pins the new host key.")
def replace(
    host: str,
    inventory: Path | None,
    profile: str | None,
    minutes: float,
    evict: bool,
    force: bool,
    installed: bool,
    yes: bool,
) -> int:
    """Replace HOST by a new machine, or one with a new disk. Drains, installs, trusts, deploys and judges it, then returns it.

    The machine keeps name and address. It is installed by its BMC where the site has an image, else it needs a new system
    with the site's key. Shows the old and the new host key. Other hosts get only what this change needs, and keep working.
    A failed or interrupted replacement leaves the host drained; the same command continues.
    Exit: 0 in service, 1 failed or declined, 2 unusable input, such as a storage host.
    """
    options.require_answer(yes)
    target = options.target(inventory, profile)

    def consent(intent: replacement.Intent) -> bool:
        for line in _replacing(intent):
            options.echo(line)
        return yes or click.confirm("\n  Replace it?", default=False)

    def may_pin(key: replacement.KeyOffer) -> bool:
        return _may_pin(key, yes=yes)

    watcher = options.observer(as_json=False)
    with watcher:
        done = replacement.replace_host(
            target,
            host,
            watcher,
            consent,
            may_pin,
            minutes,
            evict=evict,
            force=force,
            installed=installed,
        )
    for line in _replaced(done):
        options.echo(line)
    return done.exit_code


@node.command()
@click.argument("host")
@click.option("--address", required=True, help="Its address in network management.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in Role]),
    default=[Role.GPU.value],
    show_default=True,
    help="Its role (repeatable).",
)
@click.option("--class", "hardware_class", metavar="NAME", help="Its hardware class.")
@options.target_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask; this also pins its host key.")
def add(
    host: str,
    address: str,
    roles: tuple[str, ...],
    hardware_class: str | None,
    inventory: Path | None,
    profile: str | None,
    yes: bool,
) -> int:
    """Add HOST to the site, and deploy it. Shows the difference of site.yml, pins the key, and deploys what the others need.

    The host needs a system with the site's key. Other keys of a host, as its BMC, are written into site.yml by hand.
    Exit as for deploy: 0 good, 1 failed or declined, 2 unusable input, 3 incomplete.
    """
    options.require_answer(yes)
    target = options.target(inventory, profile)

    def consent(difference: tuple[str, ...]) -> bool:
        for line in difference:
            options.echo(line)
        return yes or click.confirm("\n  Add it?", default=False)

    watcher = options.observer(as_json=False)
    with watcher:
        done = addition.add_host(
            target,
            host,
            address,
            roles,
            hardware_class,
            watcher,
            consent,
            lambda key: _may_pin(key, yes=yes),
        )
    if done.declined:
        options.echo("  site.yml was not changed.")
    elif done.others:
        options.echo(f"  deployed because of it: {', '.join(done.others)}")
    if done.deployed:
        good = done.exit_code in {0, 3}
        told = (
            "is deployed"
            if good
            else "is in site.yml, but not finished; to continue: appliance deploy"
        )
        options.echo(f"  {'✓' if good else '✗'} {host} {told}")
    return done.exit_code


@node.command()
@click.argument("host")
@options.target_options
@WAIT
@EVICT
@FORCE
@YES
def remove(
    host: str,
    inventory: Path | None,
    profile: str | None,
    minutes: float,
    evict: bool,
    force: bool,
    yes: bool,
) -> int:
    """Remove HOST from the site. Drains it, deletes its keys and its node, edits site.yml, and deploys what the others need.

    Shows the difference of site.yml first; comments stay. If another section names the host, that is refused with its line.
    So are the last storage host and any control host. A host that does not answer keeps its keys: they are named.
    Exit: 0 removed, 1 failed or declined, 2 unusable input.
    """
    options.require_answer(yes)
    target = options.target(inventory, profile)

    def consent(leaving: removal.Leaving) -> bool:
        for line in (f"  {leaving.host.name} will leave the site.", *leaving.difference):
            options.echo(line)
        for line in _work_there(leaving.seen, leaving.silent, minutes, evict=evict):
            options.echo(line)
        return yes or click.confirm("\n  Remove it?", default=False)

    watcher = options.observer(as_json=False)
    with watcher:
        done = removal.remove_host(
            target, host, watcher, consent, minutes, evict=evict, force=force
        )
    if done.declined:
        options.echo("  Nothing was changed.")
        return done.exit_code
    if done.others:
        options.echo(f"  deployed because of it: {', '.join(done.others)}")
    options.echo(f"  {host} left the site; {done.rest}")
    if done.failed:
        options.echo("  ✗ the others are not finished; fix the cause, then: appliance deploy")
    return done.exit_code


@node.command("reboot")
@click.argument("hosts", nargs=-1, metavar="[HOST...]")
@options.target_options
@click.option("--all", "everything", is_flag=True, help="All hosts of the site.")
@click.option(
    "--at-once",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of GPU hosts that reboot at the same time.",
)
@WAIT
@EVICT_THEN
@FORCE
@YES
def restart(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    everything: bool,
    at_once: int,
    minutes: float,
    evict: bool,
    force: bool,
    yes: bool,
) -> int:
    """Reboot hosts in waves. Each GPU host is drained, rebooted, judged by all checks, and returned to service.

    Login, storage and control hosts follow one by one, in this order. The first host that is not free in time, does not boot
    or fails a check stops the rest, and stays drained unless it was not rebooted.
    Exit: 0 all rebooted, 1 stopped or declined, 2 unusable input.
    """
    if bool(hosts) == everything:
        raise click.UsageError("name the hosts, or all of them with --all")
    options.require_answer(yes)
    target = options.target(inventory, profile)

    def consent(plan: tuple[tuple[Host, ...], ...]) -> bool:
        for line in order_lines(plan):
            options.echo(line)
        return yes or click.confirm("\n  Reboot them in this order?", default=False)

    watcher = options.observer(as_json=False)
    with watcher:
        done = reboot.reboot_hosts(
            target,
            hosts,
            watcher,
            consent,
            minutes,
            everything=everything,
            at_once=at_once,
            evict=evict,
            force=force,
        )
    if done is None:
        options.echo("  Nothing was changed.")
        return 1
    for line in result_lines(*done, "has rebooted", "rebooted"):
        options.echo(line)
    return 0 if all(one.is_good for one in done[0]) else 1


@node.command()
@click.argument("host")
@click.argument("owner", type=click.Choice([owner.value for owner in Owner]))
@options.target_options
@WAIT
@EVICT_THEN
@YES
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


def _replacing(intent: replacement.Intent) -> list[str]:
    lines = [
        f"  {intent.host.name} will be replaced: drained, deployed, judged, and returned to work."
    ]
    if intent.silent:
        lines.append(f"  It does not answer with its pinned key: {intent.silent}")
    if intent.installs:
        lines.append("  Its BMC installs it: everything on its disk is lost.")
    return lines + _work_there(intent.seen, "", intent.minutes, evict=intent.evict)


def _work_there(seen: HostOwner | None, silent: str, minutes: float, *, evict: bool) -> list[str]:
    lines = [f"  It does not answer with its pinned key: {silent}"] if silent else []
    work = seen.work if seen else ()
    if not work:
        return [*lines, "  Nothing runs there."]
    then = "then it is killed" if evict else "else the host stays as it is, drained"
    lines.append(f"  Work on it has {minutes:g} min to finish, {then}:")
    return lines + [f"    {one}" for one in work]


def _may_pin(key: replacement.KeyOffer, *, yes: bool) -> bool:
    """Whether the key that a host shows is pinned: by the option, or by a person who compares it."""
    is_new = not key.pinned
    said = "is not pinned yet" if is_new else "is not the pinned one"
    options.echo(f"  the host key of {key.offer.host} {said}; compare it with the host's console:")
    for one in key.pinned:
        options.echo(f"    pinned  {one}")
    options.echo(f"    shown   {key.offer.fingerprint} ({key.offer.kind})")
    question = "Pin it?" if is_new else "Pin the new key, and refuse the old one?"
    return yes or click.confirm(f"\n  {question}", default=False)


def _replaced(done: replacement.Replaced) -> list[str]:
    if done.declined:
        return [
            f"  {done.host} was not replaced. If it is drained: appliance node return {done.host}"
        ]
    lines = [f"  deployed because of it: {', '.join(done.others)}"] if done.others else []
    for bad in done.failures:
        lines += [f"  ✗ {bad.name}: {bad.cause}"] + ([f"      fix: {bad.fix}"] if bad.fix else [])
    if done.exit_code:
        state = done.returned.said if done.returned else "stays drained; the same command continues"
        return [*lines, f"  ✗ {done.host} {state}"]
    key = "; its old host key is refused" if done.is_new_key else ""
    state = f"in service: {done.returned.said}" if done.returned else "deployed"
    lines.append(f"  ✓ {done.host} is replaced and {state}{key}")
    if done.returned:
        lines.append(f"  not run: {replacement.NOT_RUN}")
    return lines


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
    if planned := seen.maintenance:
        lines.append(f"      {planned.text}")
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
