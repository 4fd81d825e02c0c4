"""The target over SFTP: what its server refuses is named by what to do."""

from pathlib import Path

import pytest

from appliance.backup.store import Sftp
from appliance.backup.trouble import Trouble

TARGET = "ssh://store@192.0.2.7:2222/srv/backup"
SAYS = {
    "stat remote: No such file or directory": "/srv/backup does not exist on store@192.0.2.7: create it there",
    "remote open: Permission denied": "sftp: remote open: Permission denied",
}


@pytest.mark.parametrize("said", SAYS)
@pytest.mark.parametrize("does", ["names", "put"])
def test_a_missing_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, does: str
) -> None:
    program = tmp_path / "sftp"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    store = Sftp(TARGET, "/key", "/known_hosts")
    with pytest.raises(Trouble) as found:
        store.names("head") if does == "names" else store.put(program, "head/20261201.age")
    assert str(found.value) == SAYS[said]
