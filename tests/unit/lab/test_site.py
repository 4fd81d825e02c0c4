"""site.yml of a rack: written anew while it is as it was written, kept once somebody has changed it."""

from pathlib import Path

import pytest

from appliance.lab import containers, repository, site, spec
from appliance.lab.spec import Rack, RackSpec, numbered


class Racks:
    """Writes the site of a rack, and collects what is said."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack
        self.file = rack.site_dir / "site.yml"
        self.said: list[str] = []

    def write(self, reset: bool = False) -> str:
        self.said.clear()
        site.write(self.rack, self.said.append, reset=reset)
        return self.file.read_text(encoding="utf-8")

    def edit(self, old: str, new: str) -> str:
        text = self.file.read_text(encoding="utf-8")
        assert old in text
        self.file.write_text(text.replace(old, new, 1), encoding="utf-8")
        return self.file.read_text(encoding="utf-8")


@pytest.fixture
def racks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Racks:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(containers, "write", lambda _: {})
    monkeypatch.setattr(repository, "fingerprint", lambda _: "")
    monkeypatch.setattr(site, "known_hosts", lambda _: "")
    made = numbered(RackSpec("test", hosts=4, kubernetes=True, slurm=1), 2, {})
    made.site_dir.mkdir(parents=True)
    return Racks(made)


def test_what_nobody_changed_is_written_anew(racks: Racks, monkeypatch: pytest.MonkeyPatch) -> None:
    first = racks.write()
    assert racks.write() == first
    monkeypatch.setattr(site, "SIMULATED_AREAS", ("gpu",))
    assert "simulated: [gpu]" in racks.write()
    assert racks.said == []


def test_an_edit_is_kept_and_said(racks: Racks) -> None:
    racks.write()
    edited = racks.edit("path: /srv/data", "path: /srv/other")
    assert racks.write() == edited
    assert racks.write() == edited
    (said,) = racks.said
    assert f"{racks.file} was changed by hand and is kept" in said
    assert "appliance lab up --name test --reset-site" in said


def test_an_edit_goes_only_where_that_is_asked_for_and_is_kept_beside(racks: Racks) -> None:
    first = racks.write()
    edited = racks.edit("path: /srv/data", "path: /srv/other")
    assert racks.write(reset=True) == first
    assert (racks.file.with_name("site.yml.before")).read_text(encoding="utf-8") == edited
    assert racks.write() == first
    assert racks.said == []


def test_an_owner_that_was_assigned_is_no_edit_and_stays(racks: Racks) -> None:
    racks.write()
    racks.edit("owner: slurm", "owner: kubernetes")
    assert "owner: kubernetes" in racks.write()
    assert racks.said == []


def test_a_file_of_a_rack_that_kept_no_note_is_not_taken_for_its_own(racks: Racks) -> None:
    racks.write()
    (racks.rack.state_dir / site.WRITTEN).unlink()
    racks.write()
    assert racks.said == []
    (racks.rack.state_dir / site.WRITTEN).unlink()
    edited = racks.edit("path: /srv/data", "path: /srv/other")
    assert racks.write() == edited
