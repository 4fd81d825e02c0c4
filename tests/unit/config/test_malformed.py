"""Every malformed profile and site in tests/data/malformed is refused with its line, its reason and its remedy."""

from pathlib import Path
from typing import Any

import pytest

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.config.finding import Finding, InvalidConfig, render
from appliance.config.load import load_profile, load_site
from appliance.config.new_secrets import write_secrets
from tests.support.malformed import FOLDER, NAMES, Case, case, changed

CHECK_IDS = check_ids()


def furnish(folder: Path, setup: dict[str, Any]) -> None:
    """Put beside a site what its files are expected to be."""
    write_secrets(folder / "secrets")
    key = folder / "secrets/id_ed25519"
    key.touch(mode=0o600)
    key.write_text("a key")
    (folder / "known_hosts").write_text("")
    for name, mode in setup.get("modes", {}).items():
        (folder / name).chmod(int(mode, 8))
    for name in setup.get("without", ()):
        (folder / name).unlink()


def findings_of(case: Case, folder: Path) -> tuple[Finding, ...]:
    file = case.write(folder)
    if case.kind == "profile.yml":
        with pytest.raises(InvalidConfig) as refused:
            load_profile(file, CHECK_IDS)
        return refused.value.findings
    try:
        return load_site(folder, check_ids=CHECK_IDS).todo
    except InvalidConfig as error:
        return error.findings


def matches(finding: Finding, expected: dict[str, Any]) -> bool:
    remedies = expected["remedy"] if isinstance(expected["remedy"], list) else [expected["remedy"]]
    return (
        (finding.line, finding.key) == (expected["line"], expected["key"])
        and finding.level == expected.get("level", "problem")
        and all(words in finding.message for words in expected["says"])
        and all(words in finding.remedy for words in remedies)
    )


@pytest.mark.parametrize("name", NAMES)
def test_malformed_file_is_refused_with_line_reason_and_remedy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_MUNGE_KEY", raising=False)
    malformed = case(name)
    expected = malformed.expected
    furnish(tmp_path, expected.get("setup", {}))
    found = list(findings_of(malformed, tmp_path))
    shown = render(found)
    assert "nothing was contacted" in shown
    assert len(shown.splitlines()) == len(found) + len({f.file for f in found})
    for one in expected["findings"]:
        hits = [f for f in found if matches(f, one)]
        assert hits, f"no finding says {one} in\n{shown}"
        found.remove(hits[0])
        assert one.get("never", "\0") not in shown
    assert not found, f"not expected:\n{render(found)}"


def test_there_are_many_cases() -> None:
    assert len(NAMES) >= 36


def test_the_files_that_cases_change_are_sound(tmp_path: Path) -> None:
    furnish(tmp_path, {})
    sound = Case("site.yml", (FOLDER / "site.yml").read_text(), {})
    assert findings_of(sound, tmp_path) == ()
    assert load_profile(FOLDER / "profile.yml", CHECK_IDS).name == "hpc"


def test_a_change_whose_lines_are_not_there_once_is_refused() -> None:
    assert changed("a\nb\nc\na\n", " b\n+d\n@@\n-a\n") == "a\nb\nd\nc\n"
    for lost in (" x\n+d", "-a\n+d"):
        with pytest.raises(ValueError, match=r"these lines are there [02] times"):
            changed("a\nb\nc\na\n", lost)
