"""What is written from the program itself is current, whole, and nothing beside it."""

import subprocess  # noqa: TID251 - asks git what is in the repository
from pathlib import Path

import pytest
import yaml  # noqa: TID251 - reads what was written

from tools.published import BUILT, built, committed, strays, write
from tools.published.roles import HEAD, files
from tools.published.tables import PAGES

ROOT = Path(__file__).parents[2]
REFRESH = "run: make published"


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return {**built(), **committed(ROOT)}


def test_every_file_is_what_the_program_says_now(now: dict[str, str]) -> None:
    def there(name: str) -> str:
        return (ROOT / name).read_text() if (ROOT / name).exists() else ""

    assert [name for name, text in now.items() if there(name) != text] == [], REFRESH


def test_no_file_is_left_of_what_is_gone(now: dict[str, str], tmp_path: Path) -> None:
    assert strays(ROOT, now) == [], REFRESH
    write(tmp_path, {"docs/man/appliance-gone.1": "x", "docs/man/appliance.1": "y"})
    assert strays(tmp_path, now) == [tmp_path / "docs/man/appliance-gone.1"]


def test_what_is_built_is_in_no_repository() -> None:
    tracked = ("git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", *BUILT)
    assert subprocess.run(tracked, capture_output=True, text=True, check=True).stdout == ""
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {f"/{name}" for name in BUILT} <= {line.rstrip("/") for line in ignored}


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no"):
        PAGES[0].current("# Checks")


def test_a_new_role_gets_its_defaults_and_its_table(tmp_path: Path) -> None:
    role = tmp_path / "greet"
    (role / "meta").mkdir(parents=True)
    options = {"greet_times": {"description": "How often.", "type": "int", "default": 2}}
    specs = {"argument_specs": {"main": {"options": options}}}
    (role / "meta/argument_specs.yml").write_text(yaml.safe_dump(specs), encoding="utf-8")
    (role / "README.md").write_text(f"# greet\n\n## Variables\n{HEAD}", encoding="utf-8")
    written = files(tmp_path)
    assert yaml.safe_load(written["greet/defaults/main.yml"]) == {"greet_times": 2}
    assert "| `greet_times` | `2` | how often |" in written["greet/README.md"]


def test_a_file_of_no_text_goes(tmp_path: Path) -> None:
    write(tmp_path, {"a/b": "text"})
    assert (tmp_path / "a/b").read_text() == "text"
    write(tmp_path, {"a/b": "", "a/c": ""})
    assert list((tmp_path / "a").iterdir()) == []
