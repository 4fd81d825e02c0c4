"""A rack's daemons outlive the program that started them, which says nothing of it."""

import gc
import os
import signal
import warnings
from pathlib import Path

from appliance.adapters.process import spawn


def test_a_daemon_is_left_alone_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pid = spawn(("sleep", "60"), log=tmp_path / "log")
        gc.collect()
    assert not [warning for warning in caught if warning.category is ResourceWarning]
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[0] == pid
