"""Checks whom PAM admits, by evaluating its stacks for every possible result of each module (pam.conf(5))."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from appliance.checks.check import failed, not_assessed, warned
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Access, PamRow
from appliance.models.result import Judgement, Place, place
from appliance.models.site import Host

PERMIT, DENY = "pam_permit.so", "pam_deny.so"
SUCCESS, FAILURE, IGNORED = "success", "auth_err", "ignore"
ANY = (SUCCESS, FAILURE, IGNORED)
REQUIRED = {"success": "ok", "new_authtok_reqd": "ok", "ignore": "ignore", "default": "bad"}
CONTROLS = {
    "required": REQUIRED,
    "requisite": {**REQUIRED, "default": "die"},
    "sufficient": {"success": "done", "new_authtok_reqd": "done", "default": "ignore"},
    "optional": {"success": "ok", "new_authtok_reqd": "ok", "default": "ignore"},
}
NO_PROOF = frozenset(
    f"pam_{name}.so"
    for name in (
        *("env", "faildelay", "nologin", "limits", "selinux", "motd", "mail", "echo", "warn"),
        *("keyinit", "loginuid", "lastlog", "umask", "cap", "systemd", "faillock", "tally2"),
    )
)
"""Modules that authenticate no one by themselves."""
CONDITIONS = frozenset({"pam_succeed_if.so", "pam_usertype.so", "pam_listfile.so", "pam_access.so"})
"""Modules that admit only some accounts of a site."""
CLOSED = (
    ("sshd", "account"),
    ("sshd", "session"),
    ("sudo", "account"),
    ("sudo", "session"),
    ("login", "auth"),
)
OPEN = ("sshd", "login", "su")
"""Services whose auth stack must not admit everybody; su first, which makes everybody root."""
WHO = {
    "sshd": "no one can log in by ssh",
    "sudo": "no admin can use sudo",
    "login": "no one can log in at the console",
}
SAFE = re.compile(r"([\w.-]{1,100}):(\d{1,5})")
DEPTH = 4


class State(NamedTuple):
    """State of the stack so far, and the line that caused it."""

    good: bool | None
    by: PamRow | None


Stacks = dict[str, list[PamRow]]


def judge_pam(host: Host, facts: HostFacts, access: Access) -> Iterator[Judgement]:
    """Report stacks that refuse or admit everybody; if one line affects several, only the first."""
    if access.pam_unread:
        why = f"whom PAM lets in is not known: {access.pam_unread}"
        yield not_assessed(place(host.name, "etc/pam.d"), why)
        return
    stacks: Stacks = {}
    for row in access.pam:
        stacks.setdefault(row.at.partition(":")[0], []).append(row)
    known: set[str] = set()
    for service, kind in CLOSED:
        ends = _ends(stacks, service, kind, everybody=False)
        if ends and not any(end.good for end in ends):
            at = _culprit(end.by for end in ends)
            yield from _once(known, _closed(host, facts, stacks, service, kind, at), at)
    for service in OPEN:
        ends = _ends(stacks, service, "auth", everybody=True)
        if ends and all(end.good for end in ends):
            at = _culprit(end.by for end in ends)
            yield from _once(known, _open(host, facts, stacks, service, at), at)


def _once(known: set[str], found: Judgement, by: PamRow | None) -> Iterator[Judgement]:
    key = by.at if by else str(found.at)
    if key not in known:
        known.add(key)
        yield found


def _culprit(rows: Iterable[PamRow | None]) -> PamRow | None:
    found = [row for row in rows if row]
    return next((row for row in found if row.missing or row.module in {PERMIT, DENY}), None)


def _ends(stacks: Stacks, service: str, kind: str, *, everybody: bool) -> set[State]:
    """Return the possible results of the stack; empty if it has no line."""
    rows = _flat(stacks, service, kind, ())
    if not rows:
        return set()
    ended, fell = _run(stacks, rows, kind, {State(None, None)}, everybody=everybody)
    return ended | fell


def _flat(stacks: Stacks, name: str, kind: str, above: tuple[str, ...]) -> list[PamRow]:
    """Return the lines of a type, with those of included files in place."""
    found: list[PamRow] = []
    for row in stacks.get(name, ()) if name not in above else ():
        if row.type == kind:
            included = _flat(stacks, row.module, kind, (*above, name))
            found += included if row.control == "include" else [row]
    return found


def _run(
    stacks: Stacks,
    rows: list[PamRow],
    kind: str,
    states: set[State],
    *,
    everybody: bool,
    depth: int = 0,
) -> tuple[set[State], set[State]]:
    """Run the stack: return immediate ends, and the state after the last line."""
    at: list[set[State]] = [set() for _ in range(len(rows) + 1)]
    at[0] = set(states)
    ended: set[State] = set()
    for index, row in enumerate(rows):
        if row.control == "substack":
            inner = _flat(stacks, row.module, kind, ()) if depth < DEPTH else []
            both = _run(stacks, inner, kind, at[index], everybody=everybody, depth=depth + 1)
            at[index + 1] |= set.union(*both)
            continue
        for state in at[index]:
            for answer in _answers(row, everybody=everybody):
                done, steps, then = _acted(state, row, answer)
                if done:
                    ended.add(then)
                else:
                    at[min(index + steps, len(rows))].add(then)
    return ended, at[-1]


def _answers(row: PamRow, *, everybody: bool) -> tuple[str, ...]:
    """Return a module's possible results; with ``everybody``, those for a user without credentials."""
    if row.missing or row.module == DENY:
        return (FAILURE,)
    if row.module == PERMIT:
        return (SUCCESS,)
    if not everybody or row.module in CONDITIONS:
        return ANY
    if row.module == "pam_localuser.so":
        return (SUCCESS,)
    return (IGNORED,) if row.module in NO_PROOF else (FAILURE,)


def _acted(state: State, row: PamRow, answer: str) -> tuple[bool, int, State]:
    """Return whether the stack ends here, how many lines it skips, and the state then."""
    actions = CONTROLS.get(row.control)
    if actions is None:
        words = row.control.strip("[]").replace("=", " = ").split()
        actions = dict(zip(words[::3], words[2::3], strict=False))
    action = actions.get(answer, actions.get("default", "bad"))
    if action.isdigit():
        return False, int(action) + 1, state
    if action in {"ok", "done"}:
        then = state if state.good is False else State(answer == SUCCESS, row)
        return action == "done" and then.good is not False, 1, then
    if action in {"bad", "die"}:
        then = state if state.good is False else State(False, row)
        return action == "die", 1, then
    return False, 1, State(None, None) if action == "reset" else state


def _closed(
    host: Host, facts: HostFacts, stacks: Stacks, service: str, kind: str, by: PamRow | None
) -> Judgement:
    cause = f"/etc/pam.d/{service} accepts no {kind}: {WHO[service]}"
    what = "names a module that is not installed" if by and by.missing else "refuses everybody"
    return (warned if kind == "auth" else failed)(
        _place(host, service, by),
        cause if by is None else f"{_said(by)} {what}: {WHO[service]}",
        _remedy(host, facts, stacks, by),
        value=by.module if by else "refused",
        limit="a stack that accepts some accounts, and not all",
        evidence="/etc/pam.d",
    )


def _open(
    host: Host, facts: HostFacts, stacks: Stacks, service: str, by: PamRow | None
) -> Judgement:
    cause = f"/etc/pam.d/{service} accepts everybody without a password"
    return failed(
        _place(host, service, by),
        f"{_said(by)} accepts everybody without a password, as root, too" if by else cause,
        _remedy(host, facts, stacks, by),
        value=by.module if by else "accepted",
        limit="a stack that accepts some accounts, and not all",
        evidence="/etc/pam.d",
    )


def _place(host: Host, service: str, by: PamRow | None) -> Place:
    return place(host.name, f"etc/pam.d/{by.at.partition(':')[0] if by else service}")


def _said(row: PamRow) -> str:
    name, _, number = row.at.partition(":")
    return f"line {number} of /etc/pam.d/{name}, {row.type} {row.control} {row.module},"


def _remedy(host: Host, facts: HostFacts, stacks: Stacks, by: PamRow | None) -> str:
    """Return the remedy: remove the line if another module still authenticates, else restore the distribution's files."""
    found = SAFE.fullmatch(by.at) if by else None
    if by and found:
        rest = {
            name: [row for row in rows if row.at != by.at or row.type != by.type]
            for name, rows in stacks.items()
        }
        others = [row for row in rest[found[1]] if row.type == by.type]
        proves = any(row.module not in {PERMIT, DENY} and not row.missing for row in others)
        if proves and _is_sound(rest):
            at = f"{found[2]}{{/{re.escape(by.module)}/d}}"
            return f"on {host.name}: sed -i '{at}' /etc/pam.d/{found[1]}"
    if "debian" in (facts.os.id, *facts.os.like):
        return f"on {host.name}: DEBIAN_FRONTEND=noninteractive pam-auth-update --force, which rewrites the common files of PAM; another file: dpkg --verify shows its package"
    return f"on {host.name}: authselect apply-changes --force, or the file of the package: rpm --verify pam"


def _is_sound(stacks: Stacks) -> bool:
    is_closed = any(
        (ends := _ends(stacks, service, kind, everybody=False))
        and not any(end.good for end in ends)
        for service, kind in CLOSED
    )
    is_open = any(
        (ends := _ends(stacks, service, "auth", everybody=True)) and all(end.good for end in ends)
        for service in OPEN
    )
    return not is_closed and not is_open
