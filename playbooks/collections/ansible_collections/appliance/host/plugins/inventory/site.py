# SPDX-License-Identifier: Apache-2.0
"""Inventory plugin: the hosts of an appliance site, as the program ``appliance`` itself connects to them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: site
short_description: The hosts of an appliance site
description:
  - Runs C(appliance inventory --ansible), which reads the site's folder and contacts nothing.
  - Groups are the roles of the hosts (C(control), C(gpu), C(storage), C(login)).
  - Every host has the address, port, user, key and pinned host keys with which a deployment connects to it.
author:
  - The appliance authors (@appliance)
requirements:
  - The program C(appliance) on the controller.
options:
  plugin:
    description: Name of this plugin.
    type: str
    required: true
    choices: [appliance.host.site]
  site:
    description: Folder of the site, or its C(site.yml); relative to the inventory file.
    type: str
    required: true
  profile:
    description: Hardware class. By default, the site's own.
    type: str
  program:
    description: >-
      Path of the program C(appliance). By default, it is searched on E(PATH), then next to the Python of Ansible.
    type: str
"""

EXAMPLES = r"""
# appliance.yml, in the same folder as the site's folder mysite
plugin: appliance.host.site
site: mysite
"""

import json
import os
import shutil
import subprocess  # noqa: TID251 - the program may be installed for another Python than Ansible
import sys
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

ENDINGS = ("appliance.yml", "appliance.yaml")
SECONDS = 120


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]
    """Reads a file that names a site, and adds the site's hosts."""

    NAME = "appliance.host.site"

    def verify_file(self, path: str) -> bool:
        """Whether the file's name ends as documented."""
        return bool(super().verify_file(path)) and path.endswith(ENDINGS)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Adds hosts, groups and connection variables. Raises AnsibleParserError with the program's own message."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        site = os.path.join(os.path.dirname(os.path.abspath(path)), self.get_option("site"))
        command = [self._program(), "inventory", "--ansible", "--list", "--site", site]
        if self.get_option("profile"):
            command += ["--profile", self.get_option("profile")]
        tree = _answer(command)
        for host, variables in tree["_meta"]["hostvars"].items():
            inventory.add_host(host)
            for name, value in variables.items():
                inventory.set_variable(host, name, value)
        for group in tree["all"]["children"]:
            inventory.add_group(group)
            for host in tree.get(group, {}).get("hosts", ()):
                inventory.add_host(host, group)

    def _program(self) -> str:
        named = self.get_option("program")
        if named:
            return str(named)
        beside = os.path.join(os.path.dirname(sys.executable), "appliance")
        found = shutil.which("appliance") or shutil.which(beside)
        if not found:
            raise AnsibleParserError(
                "the program appliance is neither on PATH nor next to Ansible's Python; set option program"
            )
        return found


def _answer(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AnsibleParserError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        raise AnsibleParserError(f"{command[0]} ended with {done.returncode}: {_text(done.stderr)}")
    try:
        found: dict[str, Any] = json.loads(_text(done.stdout))
    except ValueError as error:
        raise AnsibleParserError(f"{command[0]} printed no JSON: {error}") from error
    return found


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace").strip()
