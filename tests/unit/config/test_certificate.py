"""Certificates are taken whole or refused: a program that is given half of one does not start."""

from pathlib import Path

import pytest

from appliance.config.certificate import complaint
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from tests.support.full_sites import AUTHORITY

GOOD = AUTHORITY.read_text()
LINES = GOOD.splitlines(keepends=True)
DAMAGED = "is truncated or damaged"


@pytest.mark.parametrize("text", [GOOD, GOOD * 2, f"Authority of Zürich\n{GOOD}"])
def test_whole_certificates_are_taken(text: str) -> None:
    assert complaint(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "".join(LINES[:3] + LINES[4:]),
        "".join(LINES[:4]),
        GOOD + "".join(LINES[:4] + LINES[-1:]),
        f"{LINES[0]}{LINES[-1]}",
        f"{LINES[0]}TUlJQg==\n{LINES[-1]}",
        "",
    ],
)
def test_what_was_cut_or_damaged_is_refused(text: str) -> None:
    assert complaint(text) == DAMAGED


def test_the_authority_of_controllers_is_read_before_one_is_asked(site_folder: Path) -> None:
    file = site_folder / "site.yml"
    given = file.read_text().replace("{file: secrets/bmc}", "{file: secrets/bmc}, authority: ca")
    file.write_text(given)
    (site_folder / "ca").write_text(GOOD)
    load_site(site_folder)
    (site_folder / "ca").write_text("".join(LINES[:3] + LINES[4:]))
    with pytest.raises(InvalidConfig) as caught:
        load_site(site_folder)
    (found,) = caught.value.findings
    assert (found.key, found.message) == ("hosts[1].bmc.authority", f"ca {DAMAGED}")
