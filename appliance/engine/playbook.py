"""A stage's playbook as it is run: its plays, each telling when a host has come to its end.

Ansible says that a playbook is over, not that one host is through with it. One task more at the end of its last
play, which runs on the control machine alone, lets a fast host be proved while a slow one is still at work.
"""

from collections.abc import Mapping
from pathlib import Path

from appliance.adapters.ansible import LAST_PLAY, THROUGH
from appliance.config.document import read
from appliance.errors import AnsibleFailed

Groups = Mapping[str, tuple[str, ...]]
Json = dict[str, object]


def plays_of(file: Path) -> tuple[Json, ...]:
    """The plays of a playbook, each with the task that tells its end. Raises AnsibleFailed for what is none."""
    plays = read(file).data
    if not isinstance(plays, list) or not all(isinstance(p, dict) for p in plays):
        raise AnsibleFailed(f"{file.name} is not a list of plays", "this is a defect: report it")
    return tuple(_with_end(play, number) for number, play in enumerate(plays))


def last_plays(
    plays: tuple[Json, ...], hosts: Mapping[str, object], groups: Groups
) -> dict[str, int]:
    """Host -> number of the last play it takes part in; hosts that are in none are left out."""
    last: dict[str, int] = {}
    for number, play in enumerate(plays):
        last |= dict.fromkeys(matching(str(play.get("hosts", "all")), hosts, groups), number)
    return last


def matching(pattern: str, hosts: Mapping[str, object], groups: Groups) -> list[str]:
    """The hosts of a pattern of group and host names with ``:``, ``:&`` and ``:!``, as Ansible understands it."""
    chosen: set[str] = set()
    words = pattern.replace(",", ":").split(":")
    # Ansible unites first, then intersects, then excludes, wherever these stand in the pattern.
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
    end: Json = {
        "name": THROUGH,
        "ansible.builtin.debug": {"msg": THROUGH},
        "when": f"{LAST_PLAY} == {number}",
    }
    return {**play, "post_tasks": [*(after if isinstance(after, list) else []), end]}
