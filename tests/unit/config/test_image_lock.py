"""images.lock: written whole, read back the same, and refused with line and remedy before anything is contacted."""

from pathlib import Path

import pytest

from appliance.config import image_lock
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from appliance.errors import ConfigError

ONE, OTHER = (f"digest sha256:{digit * 64}" for digit in "12")
IMAGES = {"registry.k8s.io/pause:3.9": ONE, "a.b:5000/c:1": f"id sha256:{'3' * 64}"}


@pytest.mark.parametrize("images", [{}, IMAGES])
def test_what_is_written_is_read_back_and_the_same_twice(
    images: dict[str, str], tmp_path: Path
) -> None:
    file = image_lock.write(tmp_path, images)
    lock, findings = image_lock.read(tmp_path)
    assert (lock.images if lock else None, findings) == (images, ())
    before = file.read_bytes()
    image_lock.write(tmp_path, dict(reversed(images.items())))
    assert file.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == [image_lock.NAME], "nothing else is left there"


def test_a_site_has_its_lock_or_none(site_folder: Path) -> None:
    assert load_site(site_folder).lock is None
    image_lock.write(site_folder, IMAGES)
    lock = load_site(site_folder).lock
    assert lock is not None
    assert lock.images == IMAGES


@pytest.mark.parametrize(
    ("text", "line", "says", "remedy"),
    [
        ("", 0, "is empty", "appliance images lock"),
        ("version: 1\n", 1, "is missing", "images"),
        ("version: 2\nimages: {}\n", 1, "2 is not accepted", "1"),
        ("version: 1\nimages:\n  a/b:1: sha256:12\n", 3, "not an image identity", "64"),
        (f"version: 1\nimages:\n  a/b:1: {ONE}\n  a/b:1: {OTHER}\n", 4, "twice", ""),
        ("version: 1\nimages: {}\nimage: {}\n", 3, "is an unknown key", 'did you mean "images"?'),
        ("version: 1\nimages: [\n", 3, "", ""),
    ],
)
def test_a_damaged_lock_is_refused_with_its_line(
    text: str, line: int, says: str, remedy: str, site_folder: Path
) -> None:
    (site_folder / image_lock.NAME).write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        load_site(site_folder)
    (finding,) = refused.value.findings
    assert finding.file == site_folder / image_lock.NAME
    assert finding.line == line
    assert says in finding.message
    assert remedy in finding.remedy
    assert refused.value.exit_code == 2


def test_a_lock_that_leads_nowhere_is_not_taken_for_none(site_folder: Path) -> None:
    (site_folder / image_lock.NAME).symlink_to("elsewhere")
    with pytest.raises(InvalidConfig):
        load_site(site_folder)


def test_a_lock_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    image_lock.write(tmp_path, IMAGES)
    (tmp_path / f".{image_lock.NAME}.new").mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        image_lock.write(tmp_path, {})
    lock, _ = image_lock.read(tmp_path)
    assert lock is not None
    assert lock.images == IMAGES
