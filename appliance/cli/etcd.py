"""appliance etcd list, save, restore, abandon, repair"""

import time
from pathlib import Path

import click

from appliance.actions import etcd as action
from appliance.actions import etcd_repair
from appliance.actions.etcd import Restore
from appliance.actions.etcd_repair import Repair
from appliance.cli import options
from appliance.engine.etcd import Order
from appliance.errors import ApplianceError
from appliance.report.documents import Backup, Backups, BackupsOfHost, BackupWritten
from appliance.text import plural

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.group()
def etcd() -> None:
    """Backups of the cluster's state, and room for it. List, save, and one brought back on all control hosts at once.

    \b
    appliance etcd list --inventory mysite                        which backups lie where
    appliance etcd save --inventory mysite                        one of now
    appliance etcd restore 20261122T113054Z --inventory mysite    back to that one; asks first
    appliance etcd abandon --inventory mysite                     takes back a restore that was cut off
    appliance etcd repair --inventory mysite                      room again where etcd is full; asks first
    """


@etcd.command("list")
@options.target_options
@options.json_option("What was found, as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """List the backups of each control host. Changes nothing.

    Exit: 0 every control host answered, 1 not, 2 unusable input.
    """
    site, hosts = action.backups(options.target(inventory, profile), options.quiet())
    if as_json:
        told = {host: _document(found) for host, found in hosts.items()}
        options.echo_json(Backups(site=site, hosts=told))
    else:
        for host, found in hosts.items():
            for line in _lines(found):
                options.echo(f"  {host:<12} {line}")
    return 1 if any(isinstance(found, ApplianceError) for found in hosts.values()) else 0


@etcd.command()
@options.target_options
@options.json_option("The backup, as one JSON object.")
def save(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Have a control host write a backup now.

    Exit: 0 written, 1 no control host could, 2 unusable input.
    """
    host, name = action.save(options.target(inventory, profile), options.quiet())
    if as_json:
        options.echo_json(BackupWritten(host=host, name=name))
    else:
        options.echo(f"{name} on {host}")
    return 0


@etcd.command()
@click.argument("name")
@options.target_options
@yes_option
@options.json_option("Events as JSON, one object per line.")
def restore(
    name: str, inventory: Path | None, profile: str | None, yes: bool, as_json: bool
) -> int:
    """Bring the cluster back to backup NAME. On all control hosts at once; what was written since is lost.

    The backup is taken from whichever control host has it, judged, copied to the others and made ready beside the state
    of now; only then etcd and the API stop everywhere, for a minute or two. Pods run on. Refused before anything is
    touched: a control host that does not answer, a backup that is damaged or of another cluster.

    After an interrupt or a failure the same command goes on, and appliance etcd abandon takes it back.
    Two of three control hosts gone for good: docs/kubernetes.md has the way.
    Exit: 0 restored, 1 failed, 2 unusable input, 130 interrupted.
    """
    options.require_answer(yes, as_json)

    def consent(wanted: Restore) -> bool:
        if not as_json:
            for line in _intent(wanted):
                options.echo(line)
        return yes or click.confirm("\n  Restore it?", default=False)

    watcher = options.observer(as_json)
    with watcher:
        done = action.restore(options.target(inventory, profile), name, watcher, consent)
    return _end(done, as_json, f"restored {name}", inventory, profile)


@etcd.command()
@options.target_options
@yes_option
@options.json_option("Events as JSON, one object per line.")
def abandon(inventory: Path | None, profile: str | None, yes: bool, as_json: bool) -> int:
    """Take back a restore that is under way. The state before it, on all control hosts again.

    One that is through is taken back by restoring the backup it made when it began.
    Exit: 0 taken back, 1 failed, 2 unusable input or none is under way.
    """
    options.require_answer(yes, as_json)

    def consent(order: Order) -> bool:
        if not as_json:
            options.echo(f"  The restore of {order.backup} is taken back.")
        return yes or click.confirm("\n  Take it back?", default=False)

    watcher = options.observer(as_json)
    with watcher:
        done = action.abandon(options.target(inventory, profile), watcher, consent)
    return _end(done, as_json, "the state before is in its place again", inventory, profile)


@etcd.command()
@click.option(
    "--delete",
    default="",
    metavar="NAMESPACE/KIND",
    help="First delete all objects of this kind in this namespace, as demo/configmaps. For good.",
)
@options.target_options
@yes_option
@options.json_option("Events as JSON, one object per line.")
def repair(
    delete: str, inventory: Path | None, profile: str | None, yes: bool, as_json: bool
) -> int:
    """Make room in etcd where it is full or fragmented. And have it take changes again.

    What objects were before is let go, each member gives its free space back, one after the other and the leader last, and the alarm
    is taken back. Where objects themselves fill etcd the alarm stays: the kinds and namespaces with the most bytes are named, and
    the command that deletes them. Nothing is deleted without --delete, and nothing of the cluster's own with it.

    After an interrupt or a failure the same command goes on.
    Exit: 0 there is room, 1 not, 2 unusable input, 130 interrupted.
    """
    options.require_answer(yes, as_json)

    def consent(wanted: Repair) -> bool:
        if not as_json:
            for line in _work(wanted):
                options.echo(line)
        return yes or click.confirm("\n  Repair it?", default=False)

    watcher = options.observer(as_json)
    with watcher:
        done = etcd_repair.repair(options.target(inventory, profile), delete, watcher, consent)
    return _end(done, as_json, "etcd has room", inventory, profile)


def _end(done: bool, as_json: bool, said: str, inventory: Path | None, profile: str | None) -> int:
    if not as_json:
        following = options.command_line(inventory, profile, "health --check kubernetes")
        options.echo(f"  {said}\n  next: {following}" if done else "  Nothing was changed.")
    return 0 if done else 1


def _work(wanted: Repair) -> list[str]:
    lines = [f"  {host:<12} {member}" for host, member in wanted.members.items()]
    if wanted.delete:
        be = "is" if wanted.count == 1 else "are"
        lines.append(
            f"  {plural(wanted.count, 'object')} of {wanted.delete} {be} deleted for good."
        )
    text = "  Each member answers nobody while it is defragmented, for some seconds a GB; one after the other. Pods run on."
    return [*lines, text]


def _intent(wanted: Restore) -> list[str]:
    order = wanted.order
    members = ", ".join(wanted.parts)
    if wanted.steps:
        told = ", ".join(f"{host}: {step}" for host, step in wanted.steps.items())
        return [f"  The restore of {order.backup} on {members} goes on ({told})."]
    return [
        f"  etcd of {members} goes back to {order.backup}, the backup of {wanted.source}.",
        "  The API stops for a minute or two; pods run on. What was written to the cluster since is lost.",
    ]


def _lines(found: action.Listed) -> list[str]:
    if isinstance(found, ApplianceError):
        return [found.message, *([f"fix: {found.hint}"] if found.hint else [])]
    if not found:
        return ["no backup"]
    now = time.time()
    return [f"{b.name}  {b.bytes / 1e6:8.1f} MB  {(now - b.written) / 3600:6.1f} h" for b in found]


def _document(found: action.Listed) -> BackupsOfHost:
    if isinstance(found, ApplianceError):
        return BackupsOfHost(error=found.message, fix=found.hint)
    return BackupsOfHost(backups=tuple(Backup(**vars(backup)) for backup in found))
