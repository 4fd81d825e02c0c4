"""Finds unmanaged files in places of the stages. Their content is untrusted."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import Foreign, HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Site
from appliance.models.text_types import KEPT

MOVED = "appliance deploy moves it to /var/lib/appliance/purged"
REMOVABLE = frozenset({"file", "link"})
"""Kinds that a deployment removes if the site sets base.purge; for the others an operator must decide."""
WORDS = {
    "changed": "differs from its package",
    "key": "has a key that is not in the site",
    "line": "trusts unsigned packages",
}
RIGHTS = {
    "password": ("has a password", "usermod -p '*' {at}"),
    "shell": ("has a shell, {line}", "usermod -s /usr/sbin/nologin {at}"),
    "group": ("is in group {line}", "gpasswd -d {at} {line}"),
    "primary group": (
        "has {line} for its own group",
        "groupadd -f --system {at}; usermod -g {at} {at}",
    ),
}
"""Excess rights of system accounts, each with the command that removes it."""
NOT_READ = "not read: "
"""First word of the line of a finding whose place could not be read and whose owner is unknown."""
PLAIN = re.compile(r"([A-Za-z0-9_./][\w./-]*)?", re.ASCII)
ACCOUNTS = frozenset({"account", *RIGHTS})
"""Kinds of findings about an account."""
STOPPED_BY = (
    ("/var/spool/cron/crontabs/", "crontab -r -u {name}"),
    ("/var/spool/cron/atjobs/", "rm {at}"),
    ("/var/spool/at/", "rm {at}"),
    ("/var/spool/cron/", "crontab -r -u {name}"),
    ("/var/lib/systemd/linger/", "loginctl disable-linger {name}"),
)
"""Places of work that runs without a login, each with the command that removes it."""
FROM_PACKAGE = "cd $(mktemp -d); apt-get download $(dpkg-query -S {at} | cut -d: -f1); dpkg-deb --fsys-tarfile *.deb | tar -xOf - .{at} > {at}"
AS_SHIPPED = (
    (
        "/etc/ssh/sshd_config",
        "cp /usr/share/openssh/sshd_config {at}; systemctl reload ssh",
    ),
    (
        "/etc/systemd/",
        FROM_PACKAGE + "; systemctl daemon-reexec",
    ),
    ("/etc/", FROM_PACKAGE),
)
"""By place, the command that restores a file as its package ships it (dpkg-query(1), dpkg-deb(1))."""
IN_FORCE = (
    (re.compile(r"/(?:etc|run)/systemd/system/([\w@.-]+\.service)\.d/"), "systemctl daemon-reload; systemctl restart {}"),
    (re.compile(r"/(?:etc|run)/systemd/()"), "systemctl daemon-reload"),
    (re.compile(r"/etc/ssh/(?:sshd_config\.d/)?()"), "systemctl reload ssh || systemctl reload sshd"),
    (re.compile(r"/etc/chrony/()"), "systemctl restart chrony"),
)  # fmt: skip
"""By place, the command that makes programs notice the removal."""


def judge_foreign(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Report findings that no deployment removes."""
    left = [f for f in unexpected_entries(view.site, facts) if not is_purged(view.site, f)]
    return _judged(host, facts, left, lambda found: f"on {host.name}: {_undo(found)}")


def judge_purge(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Report findings that deployments remove if the site sets base.purge."""
    if not view.site.base.purge:
        return []
    left = [f for f in unexpected_entries(view.site, facts) if is_purged(view.site, f)]
    return _judged(host, facts, left, lambda _: MOVED)


def unexpected_entries(site: Site, facts: HostFacts) -> list[Foreign]:
    """Return findings that are not in base.keep."""
    return [
        f
        for f in facts.foreign or ()
        if not any(_is(f, kept) for kept in site.base.keep)
        and not _is_how_we_become_root(site, f)
        and not _has_rights_by_the_site(site, f)
        and not _only_forbids(f)
    ]


def _is_how_we_become_root(site: Site, found: Foreign) -> bool:
    """Return whether the file is the one-line sudo rule of the deployment account, which deployments need."""
    rule = found.kind == "file" and found.at.startswith("/etc/sudoers.d/") and found.lines == 1
    return site.access.become and rule and found.line.split()[:1] == [site.access.user]


def _has_rights_by_the_site(site: Site, found: Foreign) -> bool:
    """Return whether the site grants these rights: the deployment account and admins may have a system uid."""
    return found.kind in RIGHTS and found.at in {site.access.user, *(a.name for a in site.base.admins)}  # fmt: skip


def _only_forbids(found: Foreign) -> bool:
    """Return whether the file only disables ssh passwords, as cloud-init writes it."""
    settings = found.kind == "file" and found.at.startswith("/etc/ssh/sshd_config.d/")
    return settings and found.lines == 1 and found.line.split() == ["PasswordAuthentication", "no"]


def is_purged(site: Site, found: Foreign) -> bool:
    """Return whether the next deployment removes it."""
    return site.base.purge and found.kind in REMOVABLE


def purged(site: Site, facts: HostFacts) -> tuple[str, ...]:
    """Return the paths that the next deployment removes."""
    return tuple(f.at for f in unexpected_entries(site, facts) if is_purged(site, f))


def _is(found: Foreign, kept: str) -> bool:
    if found.kind in ACCOUNTS:
        return kept == f"account {found.at}"
    if found.kind == "key" and kept.startswith("SHA256:"):
        return kept in found.line.split()
    return fnmatchcase(found.at, kept)


def _judged(
    host: Host,
    facts: HostFacts,
    left: Sequence[Foreign],
    fix: Callable[[Foreign], str],
) -> Iterable[Judgement]:
    for found in left:
        yield failed(place(host.name, _part(found)), _cause(found), fix(found))
    if facts.foreign is None:
        yield not_assessed(host.name, facts.gap("foreign", "not read"))
    elif not left:
        yield passed(host.name, 0, unit="findings", limit=0)


def _undo(found: Foreign) -> str:
    """Return the remedy, with the line of base.keep that accepts the finding."""
    if found.kind == "more":
        return "undo or keep the listed ones, then run appliance health again"
    name = _name(found)
    if not re.fullmatch(KEPT, name) or not fnmatchcase(found.at, found.at):
        return "undo it; such a name cannot be kept"
    return f'{_remedy(found)}, or keep it: "{name}" in base.keep of site.yml'


def _remedy(found: Foreign) -> str:
    """Return the command that removes the finding; names with special characters are never part of a command."""
    words = {"at": found.at, "name": found.at.rpartition("/")[2]}
    if found.end and PLAIN.fullmatch(found.at):
        return f"sed -i '\\#{found.end}#d' {found.at}"
    if found.kind in RIGHTS:
        words["line"] = found.line
        command, why = RIGHTS[found.kind][1], ""
    else:
        places = {"file": STOPPED_BY, "changed": AS_SHIPPED}.get(found.kind, ())
        command = next((how for place, how in places if found.at.startswith(place)), "")
        why = ", because it runs without a job" if found.kind == "file" else ""
    if not all(PLAIN.fullmatch(word) for word in words.values()):
        return "undo it"
    if not command and found.kind in REMOVABLE:
        return _removed(found.at)
    return command.format_map(words) + why if command else "undo it"


def _removed(at: str) -> str:
    """Return the command that removes the file and reloads the daemons that have read it."""
    then = next((how.format(m[1]) for place, how in IN_FORCE if (m := place.match(at))), "")
    return f"rm {at}" + (f"; {then}" if then else "")


def _name(found: Foreign) -> str:
    """Return its name in ``base.keep``."""
    if found.kind in ACCOUNTS:
        return f"account {found.at}"
    if found.kind == "key":
        return next((w for w in found.line.split() if w.startswith("SHA256:")), found.at)
    return found.at


def _part(found: Foreign) -> str:
    if found.kind in RIGHTS:
        return f"account {found.at} {found.kind} {found.line}".rstrip()
    match found.kind:
        case "account":
            return f"account {found.at}"
        case "key":
            # One file may hold several.
            return f"{found.at.lstrip('/')} {found.line}"
        case _:
            return found.at.lstrip("/")


def _cause(found: Foreign) -> str:
    if found.kind == "account":
        return f"account {found.at} {found.line}"
    if found.kind in RIGHTS:
        return f"account {found.at} of the system {RIGHTS[found.kind][0].format(line=found.line)}"
    if found.kind == "more":
        return f"{found.at} like these are not listed"
    if not found.owner and found.line.startswith(NOT_READ):
        return f"{found.at} is {found.line}"
    what = WORDS.get(found.kind, "is not managed by the appliance")
    when = datetime.fromtimestamp(found.modified, UTC).strftime("%Y-%m-%d %H:%M")
    said = f': "{found.line}"' if found.line else ""
    return f"{found.at} {what} (of {found.owner}, {when} UTC){said}"
