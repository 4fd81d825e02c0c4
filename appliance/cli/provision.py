"""appliance provision build, install, media"""

from pathlib import Path

import click

from appliance.actions.provisioning import provision as action
from appliance.actions.provisioning.bare_machine import Provisioned, State
from appliance.cli import options
from appliance.cli.files import InputFile
from appliance.provision.sources import RELEASES
from appliance.report import documents
from appliance.text import plural

YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
REINSTALL = click.option(
    "--reinstall",
    multiple=True,
    metavar="HOST",
    help="Also install on a disk that holds an operating system or data: everything on it is lost. Several: gpu-[1-3].",
)


@click.group()
def provision() -> None:
    """Install the operating system on bare machines. From an image, by virtual media of their BMCs or a USB stick.

    \b
    Build the image once:     appliance provision build --output images/debian-12
    Install bare machines:    appliance provision install --site mysite
    Without BMCs:             appliance provision media gpu-1 --site mysite --output sticks
    """


@provision.command()
@click.option(
    "--release",
    type=click.Choice(tuple(RELEASES)),
    default="12",
    show_default=True,
    help="Release of Debian.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="A new folder; default: images/debian-RELEASE.",
)
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Additional package, such as the firmware of a network adapter.",
)
@click.option(
    "--sign",
    type=InputFile(),
    metavar="KEY",
    help="Sign the image with this SSH key.",
)
def build(release: str, output: Path | None, packages: tuple[str, ...], sign: Path | None) -> int:
    """Build a disk image. From the packages of this machine's Debian archive; needs root, and no target machine.

    Exit: 0 built, 1 failed, 2 unusable input.
    """
    folder = output or Path("images") / f"debian-{release}"
    made = action.build_image(release, folder, packages, sign, options.echo)
    size = sum(file.bytes for file in made.manifest.files)
    options.echo(
        f"  {folder}: {made.manifest.name}, kernel {made.manifest.kernel}, {size / 1e6:.0f} MB, "
        f"digest {made.digest[:12]}{', signed' if sign else ''}"
    )
    options.echo(f"  Add it to site.yml:  provision: {{image: {folder.absolute()}}}")
    return 0


@provision.command()
@click.argument("hosts", nargs=-1)
@options.target_options
@REINSTALL
@click.option(
    "--force",
    is_flag=True,
    help="With --reinstall: also hosts that carry work, or whose state is unknown.",
)
@YES
@options.json_option("Print the result as one JSON object.")
def install(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    reinstall: tuple[str, ...],
    force: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Install HOSTS through their BMCs, in parallel. Without HOSTS and --reinstall: all that have a BMC.

    Skips hosts that run the image, and disks that hold data, unless --reinstall names the host. Pins the SSH keys that
    the new systems created, so that the first SSH connection is verified. Exit: 0 all run the image, 1 some do not,
    2 unusable input.
    """
    options.require_answer(yes, as_json)

    def consent(names: tuple[str, ...]) -> bool:
        listed = ", ".join(names)
        lost = " Everything on the disks of hosts under --reinstall is lost." if reinstall else ""
        return yes or click.confirm(f"Switch off, install and start {listed}?{lost}", err=True)

    done = action.install(
        options.target(inventory, profile),
        hosts,
        reinstall,
        options.quiet() if as_json else options.observer(as_json=False),
        consent,
        force=force,
    )
    if done is None:
        options.echo("nothing was changed")
        return 1
    if as_json:
        options.echo_json(documents.Provisioning(hosts=tuple(map(_entry, done))))
    else:
        _show(done)
    return int(any(one.error for one in done))


@provision.command()
@click.argument("hosts", nargs=-1, required=True)
@options.target_options
@REINSTALL
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Folder for the files; default: the current folder.",
)
def media(
    hosts: tuple[str, ...],
    inventory: Path | None,
    profile: str | None,
    reinstall: tuple[str, ...],
    output: Path,
) -> int:
    """Write an ISO with the image for each of HOSTS. Copy it to a USB stick, or attach it to a BMC by hand.

    The installation needs no network. The console of the machine shows the key to compare: appliance trust.
    Exit: 0 written, 1 failed, 2 unusable input.
    """
    target = options.target(inventory, profile)
    for file in action.media_for(target, hosts, output, reinstall, options.quiet()):
        options.echo(f"  {file}")
    return 0


def _entry(one: Provisioned) -> documents.ProvisionedHost:
    return documents.ProvisionedHost(
        host=one.host,
        state=one.state,
        seconds=round(one.seconds, 1),
        cause=one.error.message if one.error else "",
        fix=one.error.hint if one.error else "",
        verified_medium=one.is_verified,
        foreign_dhcp=one.strangers,
    )


def _show(done: list[Provisioned]) -> None:
    for one in done:
        took = f" in {one.seconds:.0f} s" if one.state is State.INSTALLED else ""
        options.echo(f"  {one.host:<16} {one.state}{took}")
        if one.error:
            options.echo(f"  {'':<16} {one.error.message}")
            if one.error.hint:
                options.echo(f"  {'':<16} fix: {one.error.hint}")
    blind = [one.host for one in done if one.state is State.INSTALLED and not one.is_verified]
    if blind:
        options.echo(
            f"  {plural(len(blind), 'BMC')} could not verify the server's certificate: {', '.join(blind)}"
        )
    if done and not any(one.error for one in done):
        options.echo("  Next: appliance deploy")
