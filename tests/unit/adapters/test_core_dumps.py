"""No memory of this program, nor of what it starts, ends up in a file; all else works as before, for any user."""

import os
import sys
from pathlib import Path

import pytest

from appliance.adapters import process
from appliance.errors import CommandFailed

FORBID = "from appliance.adapters import core_dumps; core_dumps.forbid()\n"
GENEROUS = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))\n"
DUMPED = """
import os, signal, sys
child = os.fork()
if not child:
    {act}
print(os.WCOREDUMP(os.waitpid(child, 0)[1]))
"""
ACTS = {
    "itself": "os.kill(os.getpid(), signal.SIGSEGV)",
    "what it starts": "os.execl('/bin/sh', 'sh', '-c', 'kill -SEGV $$')",
}
DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"


def _python(program: str, tmp_path: Path) -> str:
    argv = (sys.executable, "-c", program)
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return process.run(argv, cwd=tmp_path, env=env).stdout.strip()


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_memory_is_not_dumped(act: str, tmp_path: Path) -> None:
    try:
        dumped = _python(GENEROUS + DUMPED.format(act=act), tmp_path)
    except CommandFailed:
        pytest.skip("this shell may not raise its limit of core dumps")
    if dumped != "True":
        pytest.skip("this machine makes no core dumps at all")
    assert _python(GENEROUS + FORBID + DUMPED.format(act=act), tmp_path) == "False"


def test_limit_is_the_one_that_holds_for_pipes_too(tmp_path: Path) -> None:
    said = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    hard = _python("import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[1])", tmp_path)
    assert _python(FORBID + said, tmp_path) == ("0" if hard == "0" else "1")


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_process_is_closed_to_others_of_its_user_and_what_it_starts_is_not(tmp_path: Path) -> None:
    assert _python(DUMPABLE, tmp_path) == "1"
    assert _python(FORBID + DUMPABLE, tmp_path) == "0"
    start = f"import subprocess, sys; subprocess.run((sys.executable, '-c', {DUMPABLE!r}))"
    assert _python(FORBID + start, tmp_path) == "1"


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs another user")
def test_an_ordinary_user_still_reads_its_own_descriptors_and_starts_programs(
    tmp_path: Path,
) -> None:
    """/proc/self belongs to root then: process substitution of shells leads through it, and closing descriptors too."""
    said = """
import ctypes, os, subprocess
from appliance.adapters import core_dumps
os.setgroups([]); os.setgid(65534); os.setuid(65534)
core_dumps.forbid()
read, write = os.pipe()
os.write(write, b"through the pipe"); os.close(write)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
print(open(f"/dev/fd/{read}").read(), len(os.listdir("/proc/self/fd")) > 2)
print(subprocess.run(("echo", "started"), capture_output=True, text=True, cwd="/").stdout)
"""
    assert _python(said, tmp_path).split("\n") == ["0", "through the pipe True", "started"]
