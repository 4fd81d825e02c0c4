"""Models are built when they are first used, whoever comes first."""

import subprocess  # noqa: TID251 - a process in which no model is built yet
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
READ = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from appliance.models.facts import HostFacts
from tests.support.facts import facts_of

sys.setswitchinterval(1e-6)
begin = Barrier(32)


def read(_):
    begin.wait()
    return facts_of("head")


with ThreadPoolExecutor(32) as threads:
    assert not HostFacts.__pydantic_complete__
    found = list(threads.map(read, range(32)))
assert found == [facts_of("head")] * 32
assert found[0].cpu.model == "x"
"""


def test_threads_that_use_a_model_first_at_once_all_get_it_whole() -> None:
    done = subprocess.run([sys.executable, "-c", READ], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
