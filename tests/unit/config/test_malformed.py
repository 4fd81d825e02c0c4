"""Every malformed profile and site in tests/data/malformed is refused with its line, its reason and its remedy."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.bounds import check_ids
from appliance.config.finding import Finding, InvalidConfig, render
from appliance.config.fresh import write_secrets
from appliance.config.load import load_profile, load_site

CASES = Path(__file__).parents[2] / "data/malformed"
CHECK_IDS = check_ids()
NAMES = sorted(case.name for case in CASES.iterdir())


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


def findings_of(case: Path, folder: Path) -> tuple[Finding, ...]:
    if (case / "profile.yml").exists():
        with pytest.raises(InvalidConfig) as refused:
            load_profile(case / "profile.yml", CHECK_IDS)
        return refused.value.findings
    shutil.copy(case / "site.yml", folder)
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
    expected = json.loads((CASES / name / "expected.json").read_text())
    furnish(tmp_path, expected.get("setup", {}))
    found = list(findings_of(CASES / name, tmp_path))
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
