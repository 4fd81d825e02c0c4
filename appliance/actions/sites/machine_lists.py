"""The list of machines that a new site is made from, wherever it is."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from appliance.actions.sites import csv_list, netbox_list
from appliance.actions.sites.machine_list import MachineList
from appliance.config.secrets import Secret, hidden_secret, secret_in
from appliance.errors import ConfigError

TOKEN = "NETBOX_TOKEN"


def read_list(
    files: Sequence[Path], netbox: str | None, token: Path | None, authority: Path | None
) -> MachineList | None:
    """Read the files, or NetBox with the token of a file or of the environment; None if neither is named.

    Raises ConfigError, InvalidConfig with a finding for each unusable row, and ConnectionFailed.
    """
    if netbox:
        netbox_list.address_of(netbox)
        return netbox_list.read(netbox, str(_token(token)), authority)
    return csv_list.read(files) if files else None


def _token(file: Path | None) -> Secret:
    found = secret_in(file) if file else hidden_secret(os.environ.get(TOKEN, ""))
    where = str(file) if file else TOKEN
    if not found:
        raise ConfigError(
            f"{where} {'is empty' if file else 'is not set'}",
            f"export {TOKEN}=..., or name a file of mode 0600: --token FILE",
        )
    if not re.fullmatch("[!-~]{1,500}", found):
        raise ConfigError(f"{where} is not a token", "it is one word, as NetBox shows it once")
    return found
