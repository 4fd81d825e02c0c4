"""Rules for backups: the target is off the hosts that are saved, and can be reached with a key."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule
from appliance.config.rules.reserved import inside, is_system_folder
from appliance.models.site import Role
from appliance.stages.storage.variables import server_host

TARGET: KeyPath = ("backup", "target")
SSH_KEY = "backup_ssh_key"
RECIPIENT = re.compile(r"age1[02-9ac-hj-np-z]{58}")
"""A public key of age (X25519), in Bech32."""
MINUTES = (5, 1440)
DAYS = (1, 3650)


def another_host(case: Case) -> Iterator[Finding]:
    """The target is on another machine than the control hosts."""
    given = case.site.backup
    if given is None or not case.checked.whole(*TARGET):
        return
    remedy = "name another host, or a server outside of the site"
    if given.target.startswith("ssh://"):
        server = urlsplit(given.target).hostname or ""
        for host in case.site.with_role(Role.CONTROL):
            own = {host.name, *map(str, (host.address, *host.addresses.values()))}
            if server in own or server.split(".")[0] == host.name:
                yield case.problem(
                    TARGET, f"is {host.name}, whose own data would be saved on its disk", remedy
                )
        if _is_loopback(server):
            yield case.problem(TARGET, f"{server} is the host that is saved", remedy)
        return
    yield from _mounted(case, given.target, remedy)


def _mounted(case: Case, folder: str, remedy: str) -> Iterator[Finding]:
    if is_system_folder(folder):
        message = f"{folder} belongs to the operating system"
        yield case.problem(TARGET, message, "mount it below /data, /mnt or /srv")
    server = server_host(case.site)
    mount = case.site.storage.mount_of(folder)
    own = [export.path for export in case.site.storage.exports]
    if server is None or Role.CONTROL not in server.roles:
        return
    if (mount and mount.export in own) or any(inside(folder, path) for path in own):
        message = f"{folder} is on {server.name}, whose own data would be saved on its disk"
        yield case.problem(TARGET, message, remedy)


def _is_loopback(server: str) -> bool:
    try:
        return ip_address(server).is_loopback
    except ValueError:
        return server == "localhost" or server.endswith(".localhost")


def access(case: Case) -> Iterator[Finding]:
    """A target by SSH needs a key of the server and one for the login; a folder needs neither."""
    given = case.site.backup
    if given is None or not case.checked.whole(*TARGET):
        return
    by_ssh = given.target.startswith("ssh://")
    key: KeyPath = ("backup", "host_key")
    if by_ssh and given.host_key is None and case.checked.whole(*key):
        remedy = "add the server's public key; compare ssh-keyscan with /etc/ssh/ssh_host_ed25519_key.pub there"
        yield case.problem(key, "is missing; a target with ssh:// needs it", remedy)
    if not by_ssh and given.host_key is not None:
        yield case.problem(key, "is not used by a folder", "remove this line")
    secret: KeyPath = ("secrets", SSH_KEY)
    has_key = SSH_KEY in case.site.secrets
    if by_ssh and not has_key and case.checked.whole(*secret):
        remedy = f'ssh-keygen -t ed25519 -N "" -f secrets/{SSH_KEY}; add {SSH_KEY}: {{file: secrets/{SSH_KEY}}}'
        yield case.problem(secret, "is missing; it is needed by backups", remedy)
    if not by_ssh and has_key:
        yield case.problem(secret, "is not used by a folder", "remove it")


def recipient(case: Case) -> Iterator[Finding]:
    """It is a public key; a private one is never quoted."""
    given = case.site.backup
    path: KeyPath = ("backup", "recipient")
    if given is None or not case.checked.whole(*path) or RECIPIENT.fullmatch(given.recipient):
        return
    message = "is not a public key of age"
    if given.recipient.upper().startswith("AGE-SECRET-KEY"):
        message = "is a private key of age"
    yield case.problem(path, message, "write the line age1... that age-keygen -y KEY prints")


def times(case: Case) -> Iterator[Finding]:
    """Backups are taken often enough, and kept for whole days."""
    given = case.site.backup
    if given is None:
        return
    if not MINUTES[0] <= given.minutes <= MINUTES[1]:
        message = f"{given.every} is out of range"
        yield case.problem(("backup", "every"), message, "5m to 24h; the default is 15m")
    if not given.keep.endswith("d") or not DAYS[0] <= given.days <= DAYS[1]:
        message = f"{given.keep} is out of range"
        yield case.problem(("backup", "keep"), message, "1d to 3650d; the default is 14d")


RULES: tuple[Rule, ...] = (another_host, access, recipient, times)
