"""An ansible-playbook that somebody else ends: the machine is named, not the playbook and not the hosts."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from appliance.adapters import leftovers
from appliance.adapters.ansible import DEAD_WORKER, KILLED, _killed_by
from appliance.errors import AnsibleFailed
from tests.support.hello_playbook import hello, played
from tests.support.ssh_server import serving


def _playbook(folder: str) -> int:
    """Process id of the one that reads a playbook there and is no worker of another."""
    wanted = folder.encode()
    found = {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _names(entry / "cmdline", wanted)
    }
    (oldest,) = (pid for pid in found if _parent(pid) not in found)
    return oldest


def _parent(pid: int) -> int:
    """Of a process that is still there; its name may hold blanks and brackets."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def _names(file: Path, wanted: bytes) -> bool:
    try:
        words = file.read_bytes()
    except OSError:
        return False
    return b"ansible-playbook" in words and wanted in words


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_playbook_that_is_killed_is_no_defect_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "ansible"))
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "home") as server:
        request = hello(tmp_path, tmp_path / "data", server, tmp_path / "key")
        folder = f"/dev/shm/{leftovers._prefix(request.mark)}"

        def kill(command: str) -> bool:
            os.kill(_playbook(folder), number)
            return True

        server.slow = kill
        with pytest.raises(AnsibleFailed) as caught:
            played(request)
    assert "hello.yml was ended by a signal from outside" in caught.value.message
    assert caught.value.hint == KILLED
    assert "report" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("code", "said", "by"),
    [
        (0, "", ""),
        (2, DEAD_WORKER, ""),
        (1, "ERROR! the role 'x' was not found", ""),
        (250, "Unexpected Exception", ""),
        (1, f"ERROR! {DEAD_WORKER}", "because one of its processes was killed"),
        (None, "", "by a signal from outside"),
        (-9, "", "by SIGKILL from outside"),
        (137, "", "by SIGKILL from outside"),
        (143, "", "by SIGTERM from outside"),
    ],
)
def test_what_ended_it_is_read_from_its_code(code: int | None, said: str, by: str) -> None:
    assert _killed_by(code, [said]) == by
