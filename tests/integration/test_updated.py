"""A site that was deployed before the distribution's last updates and took them: nothing is wrong with it, and nothing to do."""

import sys
from collections.abc import Iterator

import pytest

from appliance.lab.spec import load
from tests.integration.deployed import HOSTS, Deployed, add_people, appliance
from tests.integration.rack import own_name
from tests.support.audits import bad

pytestmark = [pytest.mark.audit, pytest.mark.rack, pytest.mark.slow]

NAME = own_name("updated")
PINNED = "/etc/apt/preferences.d/before"
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; apt-get -qq dist-upgrade"
AGED = f"""set -e
printf 'Package: *\\nPin: release l=Debian\\nPin-Priority: 1001\\n' > {PINNED}
{APT} --allow-downgrades >/dev/null
"""
"""All packages, also those that a deployment installs, as the last point release has them: without what was mended since."""
UPDATED = f"""set -e
rm {PINNED}
dpkg-query -W > /root/was
{APT} >/dev/null
dpkg-query -W | grep -vxFf /root/was | cut -f1
rm /root/was
"""
MANAGED = """
import glob, json
for file in glob.glob("/var/lib/appliance/receipts/*"):
    print(*(r["name"] for r in json.load(open(file))["resources"] if r["kind"] == "package"))
"""


@pytest.fixture(scope="module")
def aged() -> Iterator[Deployed]:
    """Hosts from before the updates, deployed."""
    appliance("lab", "down", "--name", NAME)
    try:
        up = appliance("lab", "up", "--name", NAME, "--count", str(len(HOSTS)), timeout=600)
        assert up.returncode == 0, up.stderr
        for host in HOSTS:
            lines_of(host, AGED)
        found = load(NAME)
        assert found is not None
        add_people(found.site_dir)
        argv = ("deploy", "--site", str(found.site_dir), "--yes", "--json")
        yield Deployed(found.site_dir, appliance(*argv, timeout=900), NAME)
    finally:
        down = appliance("lab", "down", "--name", NAME)
    assert down.returncode == 0, down.stderr


def lines_of(host: str, script: str) -> list[str]:
    """What a script of minutes prints."""
    said = appliance("lab", "shell", "--name", NAME, host, "--", script, timeout=900)
    assert said.returncode == 0, said.stderr
    return said.stdout.split()


def test_a_site_that_took_the_distributions_updates_is_sound(aged: Deployed) -> None:
    assert aged.first.returncode == 0, aged.first.stdout
    assert bad(aged) == set()
    updated = {host: set(lines_of(host, UPDATED)) for host in HOSTS}
    if not any(updated.values()):
        pytest.skip("the archive has no update since its last point release")
    for host, names in updated.items():
        managed = names & set(aged.shell(host, "python3 -", input=MANAGED).stdout.split())
        few = ", ".join(sorted(managed))
        sys.stdout.write(f"\n{host}: {len(names)} packages updated, of stages {few or 'none'}")
    assert bad(aged) == set()
    assert [c for c in aged.plan().cells if c.action.changes] == []
