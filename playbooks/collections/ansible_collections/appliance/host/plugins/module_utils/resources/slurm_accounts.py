"""Registers the cluster, its accounts and their users in Slurm's accounting."""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

ENVIRONMENT = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}


def associations(listing: str) -> set[tuple[str, str]]:
    """Pairs of account and user of ``sacctmgr --parsable2``; an account itself has the user ""."""
    pairs = (line.split("|")[:2] for line in lines_of(listing) if "|" in line)
    return {(account.lower(), user.lower()) for account, user in pairs}


def missing(
    cluster: str, known: bool, accounts: list[dict[str, Any]], there: set[tuple[str, str]]
) -> list[list[str]]:
    """Arguments of ``sacctmgr add`` for everything that is not there, in order."""
    wanted: list[list[str]] = [] if known else [["cluster", cluster]]
    for account in accounts:
        name = account["name"]
        if (name, "") not in there:
            about = [f"description={name}", "organization=appliance"]
            wanted.append(["account", name, f"cluster={cluster}", *about])
        users = [user for user in account["users"] if (name, user) not in there]
        if users:
            wanted.append(["user", ",".join(users), f"account={name}", f"cluster={cluster}"])
    return wanted


class Accounting:
    """The door to sacctmgr."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def clusters(self, seconds: int) -> list[str]:
        """Names of the registered clusters, once slurmdbd answers."""
        end = time.monotonic() + seconds
        while True:
            code, out, err = self._run("show", "cluster", "format=cluster")
            if not code:
                return [line.strip() for line in lines_of(out) if line.strip()]
            if time.monotonic() > end:
                self.module.fail_json(msg=f"slurmdbd does not answer: {_last(err or out)}")
            time.sleep(1)

    def associations(self, cluster: str) -> set[tuple[str, str]]:
        """What the cluster's tree holds."""
        code, out, err = self._run(
            "show", "associations", f"cluster={cluster}", "format=account,user"
        )
        if code:
            self.module.fail_json(msg=f"sacctmgr show associations: {_last(err or out)}")
        return associations(out)

    def add(self, words: list[str]) -> None:
        """Adds one thing."""
        code, out, err = self._run("--immediate", "add", *words)
        if code:
            self.module.fail_json(msg=f"sacctmgr add {' '.join(words)}: {_last(err or out)}")

    def _run(self, *words: str) -> tuple[int, str, str]:
        base = ["sacctmgr", "--noheader", "--parsable2"]
        answer: tuple[int, str, str] = self.module.run_command(
            [*base, *words], environ_update=ENVIRONMENT
        )
        return answer


def _last(text: str) -> str:
    return (lines_of(text.strip()) or ["no reason given"])[-1].strip()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "cluster": {"required": True},
            "accounts": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"required": True},
                    "users": {"type": "list", "elements": "str", "default": []},
                },
            },
            "wait": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    cluster, accounts = module.params["cluster"], module.params["accounts"]
    if module.check_mode and module.get_bin_path("sacctmgr") is None:
        module.exit_json(changed=True, added=[f"cluster {cluster}"])
    accounting = Accounting(module)
    known = cluster in accounting.clusters(0 if module.check_mode else module.params["wait"])
    there = accounting.associations(cluster) if known else set()
    wanted = missing(cluster, known, accounts, there)
    if not module.check_mode:
        for words in wanted:
            accounting.add(words)
    module.exit_json(changed=bool(wanted), added=[" ".join(words[:2]) for words in wanted])
