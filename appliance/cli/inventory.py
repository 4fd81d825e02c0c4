"""appliance inventory"""

import json
from pathlib import Path

import click

from appliance.actions.sites import inventory as action
from appliance.actions.sites.opening import locate
from appliance.cli import options


@click.command()
@options.target_options
@click.option("--ansible", is_flag=True, help="As an inventory script of Ansible prints them.")
@click.option(
    "--prometheus-sd",
    is_flag=True,
    help="The exporters of all hosts, for file_sd_configs and http_sd_configs of Prometheus.",
)
@click.option("--list", "all_hosts", is_flag=True, help="With --ansible: all hosts; the default.")
@click.option("--host", metavar="NAME", help="With --ansible: the variables of this host only.")
def inventory(
    inventory: Path | None,
    profile: str | None,
    ansible: bool,
    prometheus_sd: bool,
    all_hosts: bool,
    host: str | None,
) -> int:
    """Print the hosts as JSON for Ansible or Prometheus. Contacts nothing.

    \b
    Exit: 0 printed, 2 unusable input.
    """
    if ansible == prometheus_sd:
        raise click.UsageError("give one of --ansible and --prometheus-sd")
    if prometheus_sd and (all_hosts or host is not None):
        raise click.UsageError("--list and --host need --ansible")
    if all_hosts and host is not None:
        raise click.UsageError("--list and --host exclude each other")
    loaded = locate(options.target(inventory, profile))
    if prometheus_sd:
        _print(action.prometheus_targets(loaded))
    elif host is not None:
        _print(action.ansible_host(loaded, host))
    else:
        _print(action.ansible_tree(loaded))
    return 0


def _print(found: object) -> None:
    click.echo(json.dumps(found, indent=1))
