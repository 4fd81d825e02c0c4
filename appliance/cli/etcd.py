"""appliance etcd list, save, restore, abandon, repair"""

import time
from pathlib import Path

import click

from appliance.actions.kubernetes import etcd_backups as action
from appliance.actions.kubernetes import etcd_repair
from appliance.actions.kubernetes.etcd_backups import Restore
from appliance.actions.kubernetes.etcd_members import RestoreOrder
from appliance.actions.kubernetes.etcd_repair import Repair
from appliance.cli import options
from appliance.errors import ApplianceError
from appliance.report.documents import Backup, Backups, BackupsOfHost, BackupWritten
from appliance.text import plural

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


@click.group()
def etcd() -> None:
    """List, save and restore backups of etcd; free space.

    \b
    appliance etcd list --site mysite                        list the backups of each control host
    appliance etcd save --site mysite                        write a backup now
    appliance etcd restore 20261122T113054Z --site mysite    restore that backup; asks first
    appliance etcd abandon --site mysite                     undo an interrupted restore
    appliance etcd repair --site mysite                      free space in a full etcd; asks first
    """


@etcd.command("list")
@options.target_options
@options.json_option("Print the backups as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """List the backups of each control host. Changes nothing.

    Exit: 0 every control host answered, 1 one did not, 2 unusable input.
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
@options.json_option("Print the backup as one JSON object.")
def save(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Write a backup on a control host now.

    Exit: 0 written, 1 no control host could write it, 2 unusable input.
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
@options.json_option("Print events as JSON, one object per line.")
def restore(
    name: str, inventory: Path | None, profile: str | None, yes: bool, as_json: bool
) -> int:
    """Restore backup NAME on all control hosts. Everything written to the cluster since then is lost.

    The backup is read from any control host that has it, checked, copied to the others and unpacked next to the current
    state. Only then do etcd and the API stop everywhere, for a minute or two. Pods keep running. The restore is refused
    before any change if a control host does not answer, or if the backup is damaged or belongs to another cluster.

    After an interrupt or a failure, the same command continues, and appliance etcd abandon undoes it.
    If two of three control hosts are lost permanently, follow docs/kubernetes.md.
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
@options.json_option("Print events as JSON, one object per line.")
def abandon(inventory: Path | None, profile: str | None, yes: bool, as_json: bool) -> int:
    """Undo an unfinished restore. Puts the earlier state back on all control hosts.

    To undo a finished restore, restore the backup that it made at its start.
    Exit: 0 undone, 1 failed, 2 unusable input or no restore is in progress.
    """
    options.require_answer(yes, as_json)

    def consent(order: RestoreOrder) -> bool:
        if not as_json:
            options.echo(f"  The restore of {order.backup} will be undone.")
        return yes or click.confirm("\n  Undo it?", default=False)

    watcher = options.observer(as_json)
    with watcher:
        done = action.abandon(options.target(inventory, profile), watcher, consent)
    return _end(done, as_json, "the earlier state is restored", inventory, profile)


@etcd.command()
@click.option(
    "--delete",
    default="",
    metavar="NAMESPACE/KIND",
    help="First delete all objects of this kind in this namespace, such as demo/configmaps. This cannot be undone.",
)
@options.target_options
@yes_option
@options.json_option("Print events as JSON, one object per line.")
def repair(
    delete: str, inventory: Path | None, profile: str | None, yes: bool, as_json: bool
) -> int:
    """Free space in etcd when it is full or fragmented. Afterwards it accepts changes again.

    Compacts the history, defragments each member in turn, the leader last, and clears the alarm. If the objects
    themselves fill etcd, the alarm stays, and the largest kinds and namespaces are listed with the command that deletes
    them. Nothing is deleted without --delete, and --delete never deletes the cluster's own objects.

    After an interrupt or a failure, the same command continues.
    Exit: 0 there is room, 1 there is not, 2 unusable input, 130 interrupted.
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
    return _end(done, as_json, "etcd has free space", inventory, profile)


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
            f"  {plural(wanted.count, 'object')} of {wanted.delete} {be} permanently deleted."
        )
    text = "  Members are defragmented one after the other. Each is unavailable for some seconds per GB. Pods keep running."
    return [*lines, text]


def _intent(wanted: Restore) -> list[str]:
    order = wanted.order
    members = ", ".join(wanted.parts)
    if wanted.steps:
        told = ", ".join(f"{host}: {step}" for host, step in wanted.steps.items())
        return [f"  The restore of {order.backup} on {members} continues ({told})."]
    return [
        f"  etcd on {members} is restored from {order.backup}, a backup of {wanted.source}.",
        "  The API stops for a minute or two; pods keep running. Everything written to the cluster since then is lost.",
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
