"""appliance backup list, create, verify, restore"""

import time
from dataclasses import asdict
from pathlib import Path

import click

from appliance.actions.sites import backups as action
from appliance.actions.sites.backups import CONTROL_MACHINE, Considered, Saved
from appliance.cli import options
from appliance.cli.files import InputFile
from appliance.errors import ApplianceError
from appliance.report import documents
from appliance.report.formatting import duration

host_option = click.option(
    "--host", default="", metavar="HOST", help="The control host that acts. Default: the first."
)
of_option = click.option(
    "--from",
    "of",
    default="",
    metavar="HOST",
    help="The host that was saved, by its earlier name. Default: the same host.",
)
HERE = "control machine"


@click.group()
def backup() -> None:
    """List, create, verify and restore backups off the hosts.

    \b
    appliance backup list --site mysite                                  list the backups on the target
    appliance backup create --site mysite                                write backups of control hosts and site folder now
    appliance backup verify latest --site mysite                         read the newest backup back and compare it
    appliance backup restore latest --identity age.key --site mysite     restore accounting and state; asks first
    """


@backup.command("list")
@options.target_options
@options.json_option("Print the backups as one JSON object.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """List the backups on the target. Changes nothing.

    Shows age, size and content, for each control host and the control machine.
    Exit: 0 every control host answered, 1 one did not, 2 unusable input.
    """
    site, where, found = action.listed(options.target(inventory, profile), options.quiet())
    if as_json:
        hosts = {host: _listed_document(saved) for host, saved in found.items()}
        options.echo_json(documents.SavedBackups(site=site, target=where, hosts=hosts))
    else:
        options.echo(f"  {where}")
        for host, saved in found.items():
            for line in _lines(saved):
                options.echo(f"  {_title(host):<16} {line}")
    return 1 if any(isinstance(saved, ApplianceError) for saved in found.values()) else 0


@backup.command()
@click.option(
    "--force", is_flag=True, help="Also if the accounting on the host is newer than its backups."
)
@options.target_options
@options.json_option("Print the new backups as one JSON object.")
def create(inventory: Path | None, profile: str | None, force: bool, as_json: bool) -> int:
    """Write backups now, of each control host and of the site's folder.

    Each is encrypted, written under a temporary name, read back and compared. Only then old backups are removed.
    A rebuilt host with new accounting is refused until a backup is restored, or with --force starts over.
    Exit: 0 all were written, 1 one was not, 2 unusable input.
    """
    found = action.create(options.target(inventory, profile), options.quiet(), force)
    failed = any(isinstance(saved, ApplianceError) for saved in found.values())
    if as_json:
        hosts = {host: _written_document(saved) for host, saved in found.items()}
        options.echo_json(documents.CreatedBackups(hosts=hosts))
        return 1 if failed else 0
    for host, saved in found.items():
        for line in _error(saved) if isinstance(saved, ApplianceError) else [_line(saved)]:
            options.echo(f"  {_title(host):<16} {line}")
    return 1 if failed else 0


@backup.command()
@click.argument("name", default="latest")
@host_option
@of_option
@click.option(
    "--identity",
    type=InputFile(),
    metavar="FILE",
    help="Private key of age; compares each file inside, too.",
)
@options.target_options
@options.json_option("Print the result as one JSON object.")
def verify(
    name: str,
    host: str,
    of: str,
    identity: Path | None,
    inventory: Path | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Read backup NAME from the target and compare its digest. Changes nothing.

    NAME is a name of appliance backup list, or latest. With --identity, the archive is also decrypted on the control
    host, and each file in it is compared. With a target of SSH, the signature is compared, too.
    Exit: 0 it is intact, 1 it is not or cannot be read, 2 unusable input.
    """
    where = options.target(inventory, profile)
    found = action.verify(where, options.quiet(), name, host, of, identity)
    if as_json:
        options.echo_json(
            documents.VerifiedBackup(
                name=found.name,
                decrypted=found.decrypted,
                authentic=found.authentic,
                parts=tuple(p.name for p in found.parts),
            )
        )
        return int(found.authentic is False)
    if found.authentic is False:
        options.echo(f"  ✗ {action.UNSIGNED.format(found.name)}")
        options.echo(f"      fix: {action.UNSIGNED_FIX}")
        return 1
    how = (
        "each file in it has its digest"
        if found.decrypted
        else "the target returns what was written"
    )
    signed = "; signed by this site" if found.authentic else ""
    options.echo(f"  {found.name}: {how}{signed}")
    return 0


@backup.command()
@click.argument("name", default="latest")
@host_option
@of_option
@click.option(
    "--identity",
    type=InputFile(),
    required=True,
    metavar="FILE",
    help="Private key of age; it is sent to the host and not stored there.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Restore although newer jobs are lost, or the backup is not signed by this site.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@options.target_options
@options.json_option("Print events as JSON, one object per line.")
def restore(
    name: str,
    host: str,
    of: str,
    identity: Path,
    force: bool,
    yes: bool,
    inventory: Path | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """Restore backup NAME onto a control host. It contains Slurm's accounting and state.

    Deploy a rebuilt host first. The archive is read and checked before anything stops. Then slurmctld and slurmdbd stop,
    database and state are replaced, and both start. What was there before is kept on the host. A snapshot of etcd is
    placed where appliance etcd restore finds it.

    Refused if the backup is damaged, belongs to another site or cluster, or was written by a newer Slurm. Also refused,
    without --force, if jobs on the host changed after the backup, or if this site did not sign it.
    Exit: 0 restored, 1 failed or refused, 2 unusable input, 130 interrupted.
    """
    options.require_answer(yes, as_json)

    def consent(chosen: str, considered: Considered) -> bool:
        if not as_json:
            for line in _intent(chosen, considered):
                options.echo(line)
        return yes or click.confirm("\n  Restore it?", default=False)

    watcher = options.observer(as_json)
    with watcher:
        done = action.restore(
            options.target(inventory, profile), watcher, name, host, of, identity, force, consent
        )
    if as_json:
        return 0 if done else 1
    if done is None:
        options.echo("  Nothing was changed.")
        return 1
    options.echo(f"  restored {done.manifest.name}: {', '.join(action.summary(done.manifest))}")
    for path in done.kept:
        options.echo(f"  the data before is in {path}")
    for snapshot in done.etcd:
        options.echo(f"  to restore the cluster: appliance etcd restore {snapshot}")
    options.echo(f"  next: {options.command_line(inventory, profile, 'deploy')}")
    return 0


def _intent(host: str, considered: Considered) -> list[str]:
    saved = considered.manifest
    lines = [
        f"  {host} is restored from {saved.name}: {', '.join(action.summary(saved))}.",
        f"  The backup is {action.lost_minutes(considered):.1f} minutes old. Slurm stops for about a minute.",
    ]
    if considered.lost:
        lines.append(f"  {considered.lost} jobs on {host} changed after it and are lost.")
    return lines


def _title(host: str) -> str:
    return HERE if host == CONTROL_MACHINE else host


def _lines(found: tuple[Saved, ...] | ApplianceError) -> list[str]:
    if isinstance(found, ApplianceError):
        return _error(found)
    return [_line(saved) for saved in found] or ["no backup"]


def _line(saved: Saved) -> str:
    if saved.problem:
        return f"{saved.name}  {saved.problem}"
    age = duration(max(0.0, time.time() - saved.written))
    inside = ", ".join(action.summary(saved))
    unsigned = "; not signed by this site" if saved.authentic is False else ""
    return f"{saved.name}  {saved.bytes / 1e6:8.1f} MB  {age:>8}  {inside}{unsigned}"


def _error(error: ApplianceError) -> list[str]:
    return [error.message, *([f"fix: {error.hint}"] if error.hint else [])]


def _listed_document(found: tuple[Saved, ...] | ApplianceError) -> documents.SavedBackupsOfHost:
    if isinstance(found, ApplianceError):
        return documents.SavedBackupsOfHost(error=found.message, fix=found.hint)
    return documents.SavedBackupsOfHost(backups=tuple(map(_document, found)))


def _written_document(found: Saved | ApplianceError) -> documents.SavedBackupsOfHost:
    return _listed_document(found if isinstance(found, ApplianceError) else (found,))


def _document(saved: Saved) -> documents.SavedBackup:
    slurm = documents.SavedSlurm(**asdict(saved.slurm)) if saved.slurm else None
    return documents.SavedBackup(
        name=saved.name,
        problem=saved.problem,
        written=saved.written,
        bytes=saved.bytes,
        slurm=slurm,
        parts=tuple(part.name for part in saved.parts),
        authentic=saved.authentic,
    )
