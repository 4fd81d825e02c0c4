"""What lies in the current folder, in HOME or in the caller's environment is no code of a deployment."""

import os
import shutil
import subprocess  # noqa: TID251 - starts the program as a person does
import sys
from pathlib import Path

import pytest

import appliance
from tests.support.hello_playbook import hello, played
from tests.support.ssh_server import serving

PLUGIN = """
from pathlib import Path
Path({marker!r}).touch()
from ansible.plugins.callback import CallbackBase
class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "notification", "evil"
"""


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client")
def test_plugins_and_settings_of_others_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, here, home = tmp_path / "was-run", tmp_path / "here", tmp_path / "home"
    for folder in (here / "callback_plugins", home / ".ansible/plugins/callback"):
        folder.mkdir(parents=True)
        (folder / "evil.py").write_text(PLUGIN.format(marker=str(marker)))
    (here / "ansible.cfg").write_text("[defaults]\ncallback_plugins = callback_plugins\n")
    vault = here / "vault"
    vault.write_text(f"#!/bin/sh\ntouch {marker}\necho x\n")
    vault.chmod(0o700)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", str(here / "callback_plugins"))
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(vault))
    monkeypatch.setenv("ANSIBLE_VAULT_IDENTITY_LIST", f"x@{vault}")
    (tmp_path / "remote").mkdir()
    with serving(tmp_path / "remote") as server:
        played(hello(tmp_path, tmp_path / "data", server, tmp_path / "key"))
    assert not marker.exists()
    assert os.environ["ANSIBLE_VAULT_PASSWORD_FILE"] == str(vault)


def test_modules_of_the_current_folder_are_not_the_programs(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('code of the current folder')\n")
    (tmp_path / "faulthandler.py").write_text("raise SystemExit('code of the current folder')\n")
    done = subprocess.run(
        (sys.executable, "-m", "appliance", "--version"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(appliance.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("appliance")
    assert "current folder" not in done.stderr
