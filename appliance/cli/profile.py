"""appliance profile list, show, validate, schema, capture"""

import sys
from pathlib import Path

import click

from appliance.cli import options
from appliance.config.finding import Finding, InvalidConfig
from appliance.config.load import (
    SITE_FILE,
    LoadedSite,
    find_profile,
    load_profile,
    load_site,
    profile_names,
)
from appliance.models.bound import Bounds
from appliance.models.profile import Profile
from appliance.text import plural


@click.group()
def profile() -> None:
    """List, show, check and capture hardware classes."""


@profile.command("list")
def list_profiles() -> int:
    """List the profiles. From ./profiles and from the program."""
    loaded = [(load_profile(name), find_profile(name)) for name in profile_names()]
    rows = [(p.name, _hardware(p), p.title, str(file)) for p, file in loaded]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table("name", "GPU host", "title", "file", box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
    else:
        for row in rows:
            click.echo("\t".join(row))
    return 0


@profile.command()
@click.argument("name", metavar="NAME|FILE")
@click.option("--json", "as_json", is_flag=True, help="Print the whole profile as JSON.")
def show(name: str, as_json: bool) -> int:
    """Show what a profile expects, installs and requires."""
    chosen = load_profile(name, _limits())
    click.echo(chosen.model_dump_json(indent=2) if as_json else _page(chosen, find_profile(name)))
    return 0


@profile.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def validate(paths: tuple[str, ...]) -> int:
    """Check profiles (NAME or FILE) and sites (DIR). Contacts nothing.

    Exit: 0 valid (steps left to you are listed), 2 invalid.
    """
    findings: list[Finding] = []
    for path in paths:
        try:
            click.echo(_judge(path))
        except InvalidConfig as error:
            findings += error.findings
    if findings:
        raise InvalidConfig(findings)
    return 0


@profile.command()
@click.option("--site", "kind", flag_value="site", help="Print the schema of site.yml instead.")
def schema(kind: str | None) -> int:
    """Print the JSON Schema of a profile. For an editor or another program."""
    from appliance.config.json_schema import schema as published

    click.echo(published(kind or "profile"), nl=False)
    return 0


@profile.command()
@click.argument("host")
@options.target_options
@click.option("--name", default="captured", show_default=True, help="Name of the new profile.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this new file; default: print the profile.",
)
def capture(
    host: str, inventory: Path | None, profile: str | None, name: str, output: Path | None
) -> int:
    """Write a profile from HOST, a correctly configured host. Reads only.

    Values that HOST does not report, the software and the limits are taken from --profile. Exit: 0 written, 2 refused.
    """
    from appliance.actions.profiles import capture as action

    target = options.target(inventory, profile)
    found = action.capture(target, host, name, options.quiet())
    if output is None:
        click.echo(found.text, nl=False)
    else:
        action.write(found, output)
        click.echo(f"{output}: profile {name}, {_hardware(found.profile)}")
    for key in found.kept:
        click.echo(f"not reported by {host}, kept: hardware.{key}", err=True)
    if found.simulated:
        click.echo(f"simulated on {host}: {', '.join(found.simulated)}", err=True)
    return 0


def _limits() -> Bounds:
    """Reads all checks and benchmarks."""
    from appliance.actions.profiles.limit_bounds import check_ids

    return check_ids()


def _judge(path: str) -> str:
    if not Path(path).is_dir() and Path(path).name != SITE_FILE:
        found = load_profile(path, _limits())
        return f"{find_profile(path)}: valid, profile {found.name} ({found.title})"
    loaded = load_site(path, check_ids=_limits())
    count = len(loaded.site.hosts)
    lines = [
        f"{loaded.site_document.file}: valid, site {loaded.site.name}, {plural(count, 'host')}, {_classes(loaded)}"
    ]
    lines += [f"  to do  {todo.key}  {todo}" for todo in loaded.todo]
    return "\n".join(lines)


def _classes(loaded: LoadedSite) -> str:
    names = [profile.name for profile in loaded.site.profiles(loaded.profile)]
    return f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _hardware(profile: Profile) -> str:
    gpu, fabric = profile.hardware.gpu, profile.hardware.fabric
    ports = (
        f", {fabric.ports} x {fabric.link_layer} {fabric.rate_gbps} Gb/s" if fabric.ports else ""
    )
    if not profile.has_gpus:
        return f"no GPUs{ports}"
    return f"up to {gpu.count} x {gpu.memory_gib} GB, {gpu.interconnect}{ports}"


def _page(profile: Profile, file: Path) -> str:
    gpu, host = profile.hardware.gpu, profile.hardware.host
    software = profile.software.model_dump(exclude={"operating_systems"})
    rows = [
        ("GPU host" if profile.has_gpus else "hosts", _hardware(profile)),
        *(
            (
                ("GPU models", " | ".join(gpu.models)),
                ("PCIe", f"Gen{gpu.pcie_generation} x{gpu.pcie_width} at least"),
            )
            if profile.has_gpus
            else ()
        ),
        (
            "host",
            f"{plural(host.sockets, 'socket')}, {plural(host.cores, 'core')}, {host.memory_gib} GiB, {plural(host.numa_nodes, 'NUMA node')} at least",
        ),
        (
            "disks",
            f"system {host.system_disk_gib} GiB, scratch {host.scratch_disk_gib} GiB at least",
        ),
        ("GPU hosts", f"{profile.gpu_hosts.minimum} to {profile.gpu_hosts.maximum}"),
        ("systems", ", ".join(profile.software.operating_systems)),
        *(
            (name.replace("_", " "), release or "the distribution's")
            for name, release in software.items()
        ),
    ]
    lines = [f"{profile.name}: {profile.title}   ({file})"]
    lines += [f"  {name:<18}{value}" for name, value in rows]
    lines += [
        f"  {name:<18}{limit.value} {limit.unit}  ({', '.join(p for p in (limit.source, limit.date) if p)})"
        for name, limit in sorted(profile.limits.items())
    ]
    return "\n".join(lines)
