"""Plain hosts without an uplink are deployed from a bundle alone."""

import os
import signal
import subprocess  # noqa: TID251 - the server must be held by its handle
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from appliance.adapters.process import run
from appliance.lab import rack
from appliance.lab.spec import Rack, RackSpec
from tests.integration.own_site import Integrator, readme_block
from tests.integration.rack import own_name, traces

pytestmark = [pytest.mark.rack, pytest.mark.slow]

SPEC = RackSpec(own_name("bundle"), 2, "hpc", plain="12")
PORT = 8480
TABLE = "appliance_test_bundle"
# The simulated fabric is a server on this machine, too; what hosts could download from is closed.
CUT = """
table ip {table} {{
  chain onward {{
    type filter hook forward priority -10;
    ip saddr {network} ip daddr != {network} drop
  }}
  chain local {{
    type filter hook input priority -10;
    ip saddr {network} tcp dport {{ 53, 80, 443, 3128, 8070, 8080 }} drop
    ip saddr {network} udp dport {{ 53, 123, 443 }} drop
  }}
}}
"""
FETCH = "appliance bundle fetch --site mysite --os debian-12 --to bundle\n"


@pytest.fixture(scope="module")
def integrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Integrator]:
    rack.down(SPEC.name)
    raised = rack.up(SPEC, lambda _: None)
    try:
        made = Integrator(raised, tmp_path_factory.mktemp("hall"))
        made.prepare()
        yield made
    finally:
        run(("nft", "delete", "table", "ip", TABLE), check=False)
        rack.down(SPEC.name)
    assert traces(raised) == []


@contextmanager
def _served(folder: Path, raised: Rack) -> Iterator[None]:
    argv = (sys.executable, "-m", "appliance", "bundle", "serve", str(folder), "--address", str(raised.gateway))  # fmt: skip
    server = subprocess.Popen(argv, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not _answers(raised):
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield
    finally:
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(30) == 0


def _answers(raised: Rack) -> bool:
    try:
        with urlopen(f"http://{raised.gateway}:{PORT}/wheels/requirements.lock", timeout=5):
            return True
    except (URLError, OSError):
        return False


def _cut(raised: Rack) -> None:
    run(("nft", "-f", "-"), input=CUT.format(table=TABLE, network=raised.network))
    for host in raised.hosts:
        (host.root / "etc/resolv.conf").write_text("")


def test_hosts_without_an_uplink_are_deployed_from_the_bundle(integrator: Integrator) -> None:
    lines = readme_block().replace("--count 4", "--count 2").splitlines(keepends=True)
    before = [line for line in lines if line.split()[1:2] != ["deploy"]][:3]
    made = integrator.type("".join(before) + FETCH)
    assert made.failed == [], made.text
    file = integrator.folder / "mysite/site.yml"
    address = f"http://{integrator.rack.gateway}:{PORT}"
    file.write_text(file.read_text().replace("\nrepositories:\n", f"\nrepositories:\n  bundle: {address}\n"))  # fmt: skip
    _cut(integrator.rack)
    with _served(integrator.folder / "bundle", integrator.rack):
        done = integrator.type("appliance deploy --site mysite --yes\n")
    assert done.failed == [], done.text
    assert "Deployed. 2 hosts" in done.text
    for host in integrator.rack.hosts:
        sources = (host.root / "etc/apt/sources.list.d").glob("*.sources")
        used = {line for one in sources for line in one.read_text().splitlines() if line.startswith("URIs:")}  # fmt: skip
        assert used
        assert all(line.startswith(f"URIs: {address}/") for line in used)
