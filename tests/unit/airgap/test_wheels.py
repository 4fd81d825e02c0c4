"""Python packages are chosen for the control machine's Python, and accepted by their hashes alone."""

import hashlib
from pathlib import Path

import pytest

from appliance.adapters.process import Completed
from appliance.airgap import wheels
from appliance.errors import ApplianceError

LOCK = f"""\
# comment
ansible-core==2.19.14 ; python_full_version < '3.12' \\
    --hash=sha256:{"1" * 64}
ansible-core==2.21.5 ; python_full_version >= '3.12' \\
    --hash=sha256:{"2" * 64}
appliance==0.2.0 \\
    --hash=sha256:{"3" * 64}
click==8.5.1 \\
    --hash=sha256:{"4" * 64} \\
    --hash=sha256:{"5" * 64}
colorama==0.4 ; sys_platform == 'win32' \\
    --hash=sha256:{"6" * 64}
"""


def test_conditions_are_those_of_the_control_machine_not_of_this_one() -> None:
    old, new = wheels.of_python(LOCK, "3.11"), wheels.of_python(LOCK, "3.13")
    assert wheels.count(old) == wheels.count(new) == 2
    assert f"ansible-core==2.19.14 \\\n    --hash=sha256:{'1' * 64}\n" in old
    assert "2.21.5" in new
    assert "2.19.14" not in new
    assert "win32" not in old + new
    assert f"--hash=sha256:{'4' * 64} \\\n    --hash=sha256:{'5' * 64}\n" in old


def _quiet(text: str) -> None:
    del text


def test_only_files_of_the_lock_are_part_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"wheel"
    digest = hashlib.sha256(content).hexdigest()

    def pip(argv: tuple[str, ...], **given: object) -> Completed:
        assert "--require-hashes" in argv
        assert digest in str(given["input"])
        (tmp_path / "wheels/click-8.5.1-py3-none-any.whl").write_bytes(content)
        (tmp_path / "wheels/old-1.0-py3-none-any.whl").write_bytes(b"another")
        return Completed(argv, 0, "", "")

    monkeypatch.setattr(wheels, "run", pip)
    lock = f"click==8.5.1 \\\n    --hash=sha256:{digest}\n"
    (found,) = wheels.bring(tmp_path, {"3.11": lock}, _quiet)
    assert (found.path, found.name, found.version) == (
        "wheels/click-8.5.1-py3-none-any.whl",
        "click",
        "8.5.1",
    )


def test_a_package_with_another_hash_ends_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."
    monkeypatch.setattr(wheels, "run", lambda argv, **_: Completed(argv, 1, "", said))
    with pytest.raises(ApplianceError, match=r"for Python 3\.11: THESE PACKAGES DO NOT MATCH"):
        wheels.bring(tmp_path, {"3.11": LOCK}, _quiet)


def test_no_program_of_the_current_folder_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may stand in /tmp, where every user can put a folder named pip."""
    (tmp_path / "pip").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (tmp_path / "pip" / name).write_text("open('owned', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "wheels").mkdir()
    with pytest.raises(ApplianceError):
        wheels._download(tmp_path / "wheels", "3.11", f"no-such==1 --hash=sha256:{'0' * 64}\n")
    assert not (tmp_path / "owned").exists()
