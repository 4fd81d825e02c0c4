"""Role slurm: a question without an answer is not taken for an answer; nobody is shut out for good."""

from pathlib import Path
from typing import Any

import yaml  # noqa: TID251 - reads the role's own files

TASKS = Path(__file__).parents[3] / "roles/slurm/tasks"
ASKS = "service | Have ssh ask for a job where the site wants it"


def tasks(name: str) -> list[dict[str, Any]]:
    """Tasks of one of the role's files."""
    found: list[dict[str, Any]] = yaml.safe_load((TASKS / f"{name}.yml").read_text("utf-8"))
    return found


def entries() -> dict[str, dict[str, Any]]:
    """What the role applies, by name and in order."""
    found = tasks("main")[0]["appliance.host.apply"]["resources"]
    return {entry["name"]: entry for entry in found}


def test_repositories_that_do_not_answer_are_not_said_to_offer_nothing() -> None:
    first = next(iter(entries().values()))
    # repoquery ends with 0 where a package is unknown, and with 1 where a repository cannot be read.
    assert "repoquery" in first["command"]["argv"]
    assert first["command"]["lists"] == "{{ __slurm_installed }}"
    assert "No enabled repository offers %s" in first["command"]["unlisted"]
    assert "fails" not in first["command"]
    assert "ignore_failure" not in first


def test_entries_that_wait_for_a_change_wait_for_entries_before_them() -> None:
    seen: set[str] = set()
    for name, entry in entries().items():
        assert set(entry.get("after_change", [])) <= seen, name
        seen.add(name)


def test_slurmd_is_restarted_once_where_containers_were_taken_away() -> None:
    names = list(entries())
    forget = entries()["service | Have slurmd forget a plugin that was taken away"]
    # Without containers nothing but taking them away is a change of that entry.
    assert forget["when"] == "slurm_compute and slurm_containers | length == 0"
    (awaited,) = forget["after_change"]
    assert "slurm_containers" in entries()[awaited]
    # What watches changed files finds a daemon that is younger than they are.
    assert names[names.index(forget["name"]) + 1] == "service | Run the daemons of this host"


def test_a_changed_door_is_proved_by_a_new_login_or_put_back() -> None:
    apply, leave, proof = tasks("main")
    assert "ssh_for_jobs" in entries()[ASKS]
    given = proof["vars"]
    assert f"{apply['register']}.done['{ASKS}']" in given["__slurm_asked"]
    assert (
        f"{leave['register']}.done['leave | Have ssh ask for no job']" in given["__slurm_unasked"]
    )
    assert given["__slurm_logins"].startswith("{{ __slurm_asked if slurm_state == 'present'")
    assert "__slurm_logins.unproved" in proof["when"]
    login, keep, fail = tasks("logins")
    assert login["vars"]["ansible_ssh_extra_args"] == "-o ControlPath=none"
    assert (login["ignore_unreachable"], login["failed_when"]) == (True, False)
    assert "ternary('back', 'kept')" in keep["appliance.host.ssh_for_jobs"]["state"]
    assert "rc | default(1) != 0" in fail["when"]


def test_slurm_leaves_only_a_host_without_jobs_and_saves_the_accounts_first() -> None:
    _, leave, _ = tasks("main")
    assert leave["when"] == "slurm_state == 'absent'"
    resources = leave["appliance.host.apply"]["resources"]
    names = [entry["name"].partition(" | ")[2] for entry in resources]
    looks = [entry["command"] for entry in resources[:2]]
    assert [command["lacks"] for command in looks] == ["[0-9]", "[0-9]"]
    assert ["slurmstepd" in looks[0]["argv"][2], "squeue" in looks[1]["argv"][2]] == [True, True]
    assert names.index("Save the accounting database") < names.index("Stop the daemons")
    assert names.index("Stop the daemons") < names.index("Take the packages away")
