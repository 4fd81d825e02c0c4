"""Keys, users, partitions and host keys, changed as docs/operations.md says: each ends well after one deployment at most."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.lab.spec import load
from appliance.models.result import CheckResult, Status
from tests.integration.deployed import HOSTS, Deployed
from tests.integration.rack import PROGRAM
from tests.integration.test_night import look, until_good

pytestmark = [pytest.mark.rack, pytest.mark.remedies, pytest.mark.slow]

SLURM = "slurm: {ssh_needs_job: false}"
PARTITIONS = "slurm: {{ssh_needs_job: false, partitions: [{}]}}"
KEY_IN_USE = "  private_key: id_ed25519\n"
NEW_KEY = "secrets/new"


@pytest.fixture
def sound(deployed: Deployed) -> Iterator[Deployed]:
    """The rack with nothing wrong and nothing to do; deployed with its own site.yml again at the end."""
    file = deployed.site / "site.yml"
    before = file.read_text()
    until_good(deployed)
    yield deployed
    if file.read_text() != before:
        file.write_text(before)
        ends_well(deployed)


def ends_well(rack: Deployed) -> None:
    """One deployment, PASSED, after which health has no finding."""
    done = rack.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED after" in done.stdout
    until_good(rack)


def changed(rack: Deployed, old: str, new: str) -> None:
    """Changes one place of site.yml."""
    file = rack.site / "site.yml"
    text = file.read_text()
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new))


def digests(rack: Deployed) -> set[str]:
    return {rack.said(host, "sha256sum /etc/munge/munge.key").split()[0] for host in HOSTS}


def test_munge_s_key_is_replaced_on_every_host(sound: Deployed) -> None:
    file = sound.site / "secrets/munge_key"
    (before,) = digests(sound)
    old = file.read_text()
    file.write_text(run(("openssl", "rand", "-hex", "64")).stdout)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text()) >= len(old) // 2
    planned = {c.stage for host in HOSTS for c in sound.plan().by_host(host) if c.action.changes}
    assert planned >= {"base", "slurm", "observe"}
    ends_well(sound)
    (after,) = digests(sound)
    assert after != before
    assert sorted(sound.said("head", "srun -N2 hostname").split()) == ["gpu-1", "gpu-2"]


def over_ssh(rack: Deployed, key: Path, host: str, line: str) -> Completed:
    """A line for root's shell, by that key."""
    found = load(rack.name)
    assert found is not None
    options = (
        f"-o IdentitiesOnly=yes -o UserKnownHostsFile={rack.site}/known_hosts -o BatchMode=yes"
    )
    to = f"root@{found.host(host).address}"
    return run(("ssh", "-F", "none", "-i", str(key), *options.split(), to, line), check=False)


def test_the_program_s_ssh_key_is_exchanged_without_a_deployment(
    sound: Deployed, tmp_path: Path
) -> None:
    old, new = sound.site / "id_ed25519", sound.site / NEW_KEY
    found = load(sound.name)
    assert found is not None
    (tmp_path / ".ssh").mkdir(mode=0o700)
    home = {"HOME": str(tmp_path)}
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(new)))
    try:
        for host in HOSTS:
            options = f"IdentityFile={old}", f"UserKnownHostsFile={sound.site}/known_hosts"
            words = ("-o", options[0], "-o", options[1], f"root@{found.host(host).address}")
            run(("ssh-copy-id", "-f", "-i", f"{new}.pub", *words), env=home)
        changed(sound, KEY_IN_USE, f"  private_key: {NEW_KEY}\n")
        reported = failures(sound, "base.foreign")
        assert {one.host for one in reported} == {*HOSTS}
        for one in reported:
            command = re.match(r"on \S+: (sed -i \S+ \S+?),", one.fix)
            assert command, one.fix
            done = over_ssh(sound, new, str(one.host), command[1])
            assert done.returncode == 0, done.stderr
        until_good(sound)
        assert not sound.plan().changes
        assert over_ssh(sound, old, "gpu-1", "true").returncode == 255
    finally:
        # The other tests log in with the rack's own key.
        own, of_new = (f"{key}.pub" for key in (old, new))
        added = f"cat >> .ssh/authorized_keys; sed -i '\\#{Path(of_new).read_text().split()[1]}#d' .ssh/authorized_keys"
        for host in HOSTS:
            over_ssh(sound, new, host, f"echo '{Path(own).read_text().strip()}' | {added}")
        site = sound.site / "site.yml"
        site.write_text(site.read_text().replace(f"  private_key: {NEW_KEY}\n", KEY_IN_USE))
        new.unlink()
        Path(of_new).unlink()
    until_good(sound)


def failures(rack: Deployed, check: str) -> list[CheckResult]:
    """What health says that a check found."""
    return [r for r in look(rack) if r.id == check and r.status is Status.FAIL]


def test_a_user_comes_and_goes(sound: Deployed) -> None:
    key = " ".join((sound.site / "id_ed25519.pub").read_text().split()[:2])
    before, new = "  users: [", f'{{name: cal, uid: 2002, groups: [vision], keys: ["{key}"]}}, '
    changed(sound, before, before + new)
    ends_well(sound)
    for host in HOSTS:
        assert sound.said(host, "id -u cal").strip() == "2002"
    assert sound.said("head", "runuser -u cal -- srun --chdir=/ -w gpu-1 id -un").strip() == "cal"
    changed(sound, new, "")
    ends_well(sound)
    for host in HOSTS:
        assert sound.said(host, "getent passwd cal").strip().endswith(":/usr/sbin/nologin")
        assert " L " in sound.said(host, "passwd -S cal")
        assert sound.shell(host, "su -s /bin/sh cal -c true").returncode != 0


def test_a_partition_comes_and_is_renamed(sound: Deployed) -> None:
    gpu = "{name: gpu, default: true}"
    steps = (
        (f"{gpu}, {{name: night}}", {"gpu", "night"}),
        # Renamed: the new one stands next to the old one until that has no job.
        (f"{gpu}, {{name: night}}, {{name: late}}", {"gpu", "night", "late"}),
        (f"{gpu}, {{name: late}}", {"gpu", "late"}),
    )
    listed = SLURM
    for partitions, names in steps:
        text = PARTITIONS.format(partitions)
        changed(sound, listed, text)
        listed = text
        ends_well(sound)
        found = sound.said("head", "sinfo --noheader --format=%R").split()
        assert set(found) == names


def test_a_host_s_key_is_pinned_again_without_a_deployment(sound: Deployed) -> None:
    new = "rm /etc/ssh/ssh_host_*; ssh-keygen -qA >&2; systemctl restart ssh; cat /etc/ssh/ssh_host_ed25519_key.pub"
    key = sound.said("gpu-1", new).split()[1]
    (found,) = failures(sound, "host.reachable")
    assert "appliance trust" in found.fix
    argv = ("trust", "--site", str(sound.site), "--hosts", "gpu-1")
    done = run((PROGRAM, *argv), input="y\n", check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert key in (sound.site / "known_hosts").read_text()
    until_good(sound)
    assert not sound.plan().changes
