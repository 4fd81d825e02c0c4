"""An installation names packages that are not those of its release; a checkout says nothing."""

from importlib.metadata import version
from pathlib import Path

import pytest

from appliance.adapters import installed
from tests.support.command_line import run

RICH = version("rich")
HASH = "    --hash=sha256:0"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lock of an installation."""
    file = tmp_path / "appliance.lock"
    monkeypatch.setattr(installed, "LOCK", file)
    monkeypatch.setattr(installed, "SUPPORTED_ANSIBLE", (2, 0))
    return file


def test_the_packages_of_the_lock_are_no_remark(lock: Path) -> None:
    lock.write_text(f"rich=={RICH} \\\n{HASH} \\\n{HASH}\n./appliance.whl \\\n{HASH}\n")
    assert installed.differences() == []
    assert installed.remarks() == []


def test_another_version_and_a_missing_package_are_named(lock: Path) -> None:
    lock.write_text(f"rich==0.1 \\\n{HASH}\nno-such-package==1.0 \\\n{HASH}\n")
    assert installed.differences() == [
        f"rich {RICH} instead of 0.1",
        "no-such-package is missing",
    ]


def test_packages_for_another_python_are_not_missed(lock: Path) -> None:
    lock.write_text("no-such-package==1.0 ; python_full_version < '3.0' \\\n")
    assert installed.differences() == []
    lock.write_text("no-such-package==1.0 ; python_full_version >= '3.0' \\\n")
    assert installed.differences() == ["no-such-package is missing"]


def test_many_differences_are_one_line(lock: Path) -> None:
    lock.write_text("".join(f"no-such-package-{n}==1.0 \\\n" for n in range(8)))
    (remark,) = installed.remarks()
    assert "no-such-package-4 is missing and 3 more; " in remark
    assert "no-such-package-5" not in remark


def test_an_ansible_without_updates_is_named(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.write_text("")
    monkeypatch.setattr(installed, "SUPPORTED_ANSIBLE", (99, 0))
    (remark,) = installed.remarks()
    assert remark.startswith(f"ansible-core {version('ansible-core')} no longer gets updates")


def test_a_checkout_is_judged_by_no_lock() -> None:
    assert installed.remarks() == []


@pytest.mark.parametrize(("wanted", "code"), [(RICH, 0), ("0.1", 1)])
def test_the_version_fails_where_packages_differ(
    lock: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wanted: str,
    code: int,
) -> None:
    lock.write_text(f"rich=={wanted} \\\n{HASH}\n")
    assert run(monkeypatch, "--version") == code
    printed = capsys.readouterr()
    assert printed.out.startswith("appliance, version ")
    assert ("rich" in printed.err) == bool(code)
