"""A secret its daemon could not read is refused before any host is contacted, and never shown."""

from pathlib import Path

import pytest

from appliance.config.finding import InvalidConfig
from appliance.config.new_secrets import write_secrets
from appliance.config.secrets import resolve
from tests.support.sites import site_of

SITE = site_of(
    "head",
    secrets={
        "munge_key": {"file": "secrets/munge_key"},
        "slurmdbd_password": {"file": "secrets/slurmdbd_password"},
    },
)


def test_fresh_secrets_have_the_right_form(tmp_path: Path) -> None:
    write_secrets(tmp_path / "secrets")
    assert set(resolve(SITE, tmp_path)) == {"munge_key", "slurmdbd_password"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("munge_key", "short"),
        ("munge_key", "A" * 40 + "\n" + "B" * 40),
        ("slurmdbd_password", "line-one\nline-two"),
        ("slurmdbd_password", "has a space in it"),
        ("slurmdbd_password", "quote'quote'quote"),
    ],
)
def test_form_no_daemon_reads_is_refused_without_showing_it(
    tmp_path: Path, name: str, value: str
) -> None:
    write_secrets(tmp_path / "secrets")
    (tmp_path / "secrets" / name).write_text(value)
    with pytest.raises(InvalidConfig) as caught:
        resolve(SITE, tmp_path)
    (finding,) = caught.value.findings
    assert finding.key == f"secrets.{name}"
    assert "one line of" in finding.remedy
    assert value not in str(caught.value)
