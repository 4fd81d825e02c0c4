"""Makes slurmdbd's database and the user that may use it."""

from __future__ import annotations

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
PASSWORD = re.compile(r"[A-Za-z0-9_.,:+/=@%-]{8,128}")
"""What needs no quoting in slurmdbd.conf, in SQL and in the client's option file."""

CLIENT = ["mariadb", "--no-auto-rehash", "--batch", "--skip-column-names"]


def options(user: str, password: str) -> str:
    """An option file for the client."""
    return f'[client]\nuser="{user}"\npassword="{password}"\nhost="localhost"\n'


def statements(name: str, user: str, password: str) -> str:
    """SQL that leaves the database and a user with exactly this password and these rights."""
    account = f"'{user}'@'localhost'"
    return (
        f"CREATE DATABASE IF NOT EXISTS {name};\n"
        f"CREATE USER IF NOT EXISTS {account};\n"
        f"ALTER USER {account} IDENTIFIED BY '{password}';\n"
        f"GRANT ALL PRIVILEGES ON {name}.* TO {account};\n"
    )


def refusal(name: str, user: str, password: str) -> str:
    """Why these values cannot be used; empty when they can."""
    if not NAME.fullmatch(name) or not NAME.fullmatch(user):
        return "database and user names are letters, digits and _ only"
    if not PASSWORD.fullmatch(password):
        return "the password of slurmdbd needs 8 to 128 of the characters A-Z a-z 0-9 _ . , : + / = @ % -"
    return ""


def _logs_in(module: Any, name: str, user: str, password: str) -> bool:
    query = ["--execute", "SELECT 1", name]
    code, _, _ = module.run_command(
        [CLIENT[0], "--defaults-file=/dev/stdin", *CLIENT[1:], *query],
        data=options(user, password),
    )
    return bool(code == 0)


def _create(module: Any, name: str, user: str, password: str) -> None:
    code, _, err = module.run_command(
        [*CLIENT, "--user=root", "--protocol=socket"], data=statements(name, user, password)
    )
    if code:
        said = (lines_of(err.strip()) or ["no reason given"])[-1].replace(password, "***")
        module.fail_json(msg=f"database {name}: {said}")
    if not _logs_in(module, name, user, password):
        module.fail_json(msg=f"database {name}: {user} still cannot log in after it was made")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "name": {"required": True},
            "user": {"required": True},
            "password": {"required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    name, user, password = (module.params[key] for key in ("name", "user", "password"))
    problem = refusal(name, user, password)
    if problem:
        module.fail_json(msg=problem)
    client = module.get_bin_path("mariadb")
    if client is None and not module.check_mode:
        module.fail_json(msg="mariadb, the database's client, is not installed")
    changed = client is None or not _logs_in(module, name, user, password)
    if changed and not module.check_mode:
        _create(module, name, user, password)
    module.exit_json(changed=changed, name=name)
