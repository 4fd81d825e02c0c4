"""The record of the site that was deployed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.config.secrets import Secret
from appliance.engine.accept.declared_site import (
    DECLARED,
    changed_secrets,
    last_declared,
    record_declared,
)
from appliance.engine.look.bundled import journal_lines
from appliance.engine.session import Session
from tests.support.engine_fakes import PASSWORD


@pytest.fixture
def session(session: Session, tmp_path: Path) -> Session:
    """One that knows its files."""
    site, profile = tmp_path / "site.yml", tmp_path / "special.yml"
    site.write_text("name: acme\n")
    profile.write_text("name: special\n")
    return replace(session, sources=(site, profile))


def _with(session: Session, secrets: Mapping[str, str]) -> Session:
    return replace(session, secrets={name: Secret(value) for name, value in secrets.items()})


def test_the_texts_are_recorded_with_the_run(session: Session) -> None:
    record_declared(session)
    found = last_declared(session.journal)
    assert found is not None
    assert (found.site, found.run) == ("name: acme\n", "r1")
    assert (found.profile, found.profiles) == ("special", {"special": "name: special\n"})


def test_no_secret_is_recorded_and_a_changed_one_is_noticed(session: Session) -> None:
    record_declared(session)
    found = last_declared(session.journal)
    assert found is not None
    assert PASSWORD not in str([entry.data for entry in session.journal.entries(DECLARED)])
    assert changed_secrets(found, session.secrets) == frozenset()
    assert changed_secrets(found, {"slurmdbd_password": "another"}) == {"slurmdbd_password"}
    assert changed_secrets(found, {**session.secrets, "munge_key": "new"}) == {"munge_key"}


def test_no_digest_of_a_secret_leaves_in_a_support_bundle(session: Session) -> None:
    record_declared(session)
    session.journal.append("r1", "accepted", note="kept")
    lines, _ = journal_lines(session)
    assert "accepted" in lines
    assert DECLARED not in lines


def test_secrets_of_bmcs_are_left_out(session: Session) -> None:
    record_declared(_with(session, {"bmc.gpu-1": "weak", "munge_key": "strong"}))
    found = last_declared(session.journal)
    assert found is not None
    assert found.secrets.keys() == {"munge_key"}


def test_the_same_site_is_recorded_once(session: Session) -> None:
    record_declared(session)
    record_declared(session)
    assert len([*session.journal.entries(DECLARED)]) == 1
    session.sources[0].write_text("name: acme\n# another\n")
    record_declared(session)
    record_declared(_with(session, {"slurmdbd_password": "another"}))
    assert len([*session.journal.entries(DECLARED)]) == 3


def test_a_record_of_another_form_counts_as_none(session: Session) -> None:
    session.journal.append("r0", DECLARED, site="name: acme\n")
    assert last_declared(session.journal) is None
