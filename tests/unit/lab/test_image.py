"""Builds of images: each waits for its own alone, and clears away only what was left of it."""

from pathlib import Path

import pytest

from appliance.lab import image
from appliance.lab.image import IMAGE, IMAGES, one_build
from appliance.provision.sources import RELEASES


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(image, "cache_root", lambda: tmp_path)
    return tmp_path / "lab"


def _left(cache: Path, what: str) -> Path:
    """The folder of a build of it that was interrupted."""
    folder = cache / f"building-{'packages' if what == IMAGE else what}-0a1b"
    folder.mkdir(parents=True)
    return folder


def test_each_release_of_plain_hosts_is_an_image_of_its_own() -> None:
    assert len(set(IMAGES)) == len(RELEASES) + 1


@pytest.mark.parametrize("one", IMAGES)
def test_a_build_goes_on_while_others_are_built_and_leaves_theirs_alone(
    cache: Path, one: str
) -> None:
    left = {what: _left(cache, what) for what in IMAGES}
    said: list[str] = []
    others = [what for what in IMAGES if what != one]
    with one_build(said.append, one):
        assert [what for what in IMAGES if not left[what].exists()] == [one]
        mine = _left(cache, one)
        for what in others:
            with one_build(said.append, what):
                assert mine.exists()
        image.sweep()
        assert mine.exists()
    assert said == []
    image.sweep()
    assert list(cache.glob("building-*")) == []


def test_a_second_build_of_the_same_image_waits(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def waited(text: str) -> None:
        said.append(text)
        raise InterruptedError

    with one_build(said.append), pytest.raises(InterruptedError), one_build(waited):
        pass
    assert said == ["waiting for another rack's image build"]
