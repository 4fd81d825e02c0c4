"""Every impossible queue tree in tests/data/impossible_queues is refused with its line, key, reason and remedy.

A case begins with what is expected, ``# line | key | message | remedy``, and is appended to base.yml.
"""

import shutil
from pathlib import Path

import pytest

from appliance.config.finding import InvalidConfig, render
from appliance.config.load import load_site
from tests.support.impossible_queues import BASE, DATA, SOUND, furnish

CASES = sorted(file.stem for file in DATA.glob("[0-9]*.yml"))


@pytest.mark.parametrize("name", CASES)
def test_impossible_tree_is_refused_before_any_call(name: str, tmp_path: Path) -> None:
    case = (DATA / f"{name}.yml").read_text()
    furnish(tmp_path)
    (tmp_path / "site.yml").write_text(BASE + case)
    with pytest.raises(InvalidConfig) as refused:
        load_site(tmp_path)
    found = list(refused.value.findings)
    expected = [line[2:] for line in case.splitlines() if line.startswith("# ")]
    assert expected
    for line in expected:
        number, key, says, remedy = line.split(" | ")
        where = len(BASE.splitlines()) + int(number)
        hits = [
            f
            for f in found
            if (f.line, f.key) == (where, key) and says in f.message and remedy in f.remedy
        ]
        assert hits, f"no finding says {line} in\n{render(found)}"
        found.remove(hits[0])
    assert not found, f"not expected:\n{render(found)}"


def test_sound_tree_is_accepted(tmp_path: Path) -> None:
    furnish(tmp_path)
    shutil.copy(DATA / "base.yml", tmp_path / "site.yml")
    with (tmp_path / "site.yml").open("a") as site:
        site.write(SOUND)
    assert load_site(tmp_path).site.scheduler is not None


def test_slurms_hosts_are_in_no_pool_and_promise_nothing(tmp_path: Path) -> None:
    furnish(tmp_path)
    slurms = BASE.replace("address: 10.0.0.11}", "address: 10.0.0.11, owner: slurm}")
    (tmp_path / "site.yml").write_text(slurms + SOUND)
    with pytest.raises(InvalidConfig) as refused:
        load_site(tmp_path)
    said = render(refused.value.findings)
    assert "gpu-1 belongs to Slurm" in said
    assert "node pool interactive has 0" in said


def test_there_are_many_cases() -> None:
    assert len(CASES) >= 80


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("alice+gpu@example.com", True),
        ("/vision/robots", True),
        ("sso:/vision", True),
        ("//vision", False),
        ("/../vision", False),
        ("+alice", False),
        ("alice;id", False),
    ],
)
def test_members_are_called_as_providers_call_them(tmp_path: Path, name: str, fine: bool) -> None:
    furnish(tmp_path)
    text = BASE + SOUND.replace("users: [alice]", f'users: ["{name}"]\n      groups: ["{name}"]')
    (tmp_path / "site.yml").write_text(text)
    try:
        load_site(tmp_path)
        refused = set()
    except InvalidConfig as error:
        refused = {f.key for f in error.findings if f.key.startswith("scheduler.projects[0]")}
    wrong = {"scheduler.projects[0].users[0]", "scheduler.projects[0].groups[0]"}
    assert refused == (set() if fine else wrong)
