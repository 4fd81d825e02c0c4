"""A stage's playbook as it is run: each play reports when a host has completed it.

Ansible reports the end of a playbook, not of one host. An extra task at the end of a host's last play, run on
the control machine, lets a fast host be proved while a slow one is still running.
"""

from collections.abc import Mapping
from pathlib import Path

from appliance.adapters.ansible import LAST_PLAY, THROUGH
from appliance.config.document import read
from appliance.errors import AnsibleFailed

FREE = "ansible.builtin.free"
WAITING = "appliance.host.free"
"""The plays that the engine runs, at less cost for the control machine."""

Groups = Mapping[str, tuple[str, ...]]
Json = dict[str, object]


def plays_of(file: Path) -> tuple[Json, ...]:
    """Return the plays of a playbook, each with the task that reports its end. Raises AnsibleFailed for an invalid one."""
    plays = read(file).data
    if not isinstance(plays, list) or not all(isinstance(p, dict) for p in plays):
        raise AnsibleFailed(
            f"{file.name} is not a list of plays", "this is a bug in appliance: report it"
        )
    return tuple(_with_end(play, number) for number, play in enumerate(plays))


def last_plays(
    plays: tuple[Json, ...], hosts: Mapping[str, object], groups: Groups
) -> dict[str, int]:
    """Return by host the number of its last play; hosts in no play are missing."""
    last: dict[str, int] = {}
    for number, play in enumerate(plays):
        last |= dict.fromkeys(matching(str(play.get("hosts", "all")), hosts, groups), number)
    return last


def matching(pattern: str, hosts: Mapping[str, object], groups: Groups) -> list[str]:
    """Return the hosts of a pattern of group and host names with ``:``, ``:&`` and ``:!``, as Ansible reads it."""
    chosen: set[str] = set()
    words = pattern.replace(",", ":").split(":")
    # Ansible unites first, then intersects, then excludes, in any order within the pattern.
    for word in sorted(words, key=lambda w: " &!".find(w[:1])):
        named = set(hosts if word.lstrip("&!") == "all" else groups.get(word.lstrip("&!"), ()))
        named |= {word.lstrip("&!")}.intersection(hosts)
        match word[:1]:
            case "&":
                chosen &= named
            case "!":
                chosen -= named
            case _:
                chosen |= named
    return [name for name in hosts if name in chosen]


def _with_end(play: Json, number: int) -> Json:
    after = play.get("post_tasks")
    is_free = play.get("strategy") == FREE
    tell = (
        {"ansible.builtin.meta": "end_host"}
        if is_free
        else {"ansible.builtin.debug": {"msg": THROUGH}}
    )
    end: Json = {"name": THROUGH, **tell, "when": f"{LAST_PLAY} == {number}"}
    strategy = {"strategy": WAITING} if is_free else {}
    tasks = [*(after if isinstance(after, list) else []), end]
    return {**play, **strategy, "post_tasks": tasks}
