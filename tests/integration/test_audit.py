"""Outside judges of a deployed rack: ssh-audit of what sshd offers, lynis of the host; and our own check beside them."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from tests.integration.deployed import HOSTS, NAME, Deployed, appliance

pytestmark = [pytest.mark.audit, pytest.mark.rack, pytest.mark.slow]

SSH_AUDIT = str(Path(sys.executable).parent / "ssh-audit")
PLANTED = "/etc/ssh/sshd_config.d/00-a.conf"
RELOAD = "systemctl reload ssh"
KEYS = "/etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_rsa_key"
LYNIS = """set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update >/dev/null
apt-get install -qq --no-install-recommends lynis >/dev/null
lynis audit system --quick --no-colors >/dev/null
grep -E '^(hardening_index|suggestion|warning)' /var/log/lynis-report.dat
"""
TARGET, LEAST, STRICT = 80, 65, 70
"""What lynis is to say one day, and what no change may fall below, also of a strict site; docs/security.md says what lies between."""
ASKED = """
  strict: true
  banner:
    - This system is private. Only authorised persons may access it.
    - Connections are monitored and recorded; evidence of criminal use goes to the law.
"""


@pytest.fixture(scope="module")
def audited(deployed: Deployed) -> Iterator[Deployed]:
    """Hosts with a key of each kind, as an installer leaves them; a rack's have Ed25519 alone."""
    assert deployed.first.returncode == 0, deployed.first.stdout
    for host in HOSTS:
        deployed.said(host, f"rm -f {KEYS}; ssh-keygen -A; systemctl restart ssh")
    yield deployed
    for host in HOSTS:
        deployed.said(host, f"rm -f {KEYS} {PLANTED}; systemctl restart ssh")


def tell(*lines: str) -> None:
    """For whoever runs make audit."""
    sys.stdout.write("\n" + "\n".join(lines) + "\n")


def judged(rack: Deployed, host: str) -> dict[str, list[str]]:
    """By level, what ssh-audit says of each algorithm the host offers."""
    address = rack.said(host, "hostname -I").split()[0]
    done = run((SSH_AUDIT, "--json", "--skip-rate-test", address), timeout=120, check=False)
    said: dict[str, Any] = json.loads(done.stdout)
    found: dict[str, list[str]] = {"fail": [], "warn": []}
    for kind in ("kex", "key", "enc", "mac"):
        assert said[kind], f"{host} offers no {kind}"
        for algorithm in said[kind]:
            for level, words in found.items():
                words += [
                    f"{algorithm['algorithm']}: {why}" for why in algorithm["notes"].get(level, ())
                ]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_ssh_audit_finds_no_failure(audited: Deployed, host: str) -> None:
    found = judged(audited, host)
    tell(f"ssh-audit, {host}: {len(found['fail'])} failures, {len(found['warn'])} warnings")
    tell(*(f"  {line}" for line in found["warn"]))
    assert found["fail"] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("MACs hmac-sha1,hmac-sha2-256-etm@openssh.com", "sshd weak macs (none → hmac-sha1)"),
        ("KexAlgorithms +ecdh-sha2-nistp256", "sshd weak kexalgorithms (none → "),
        ("HostKeyAlgorithms +ecdsa-sha2-nistp256", "sshd nist hostkeyalgorithms (none → "),
    ],
)
def test_what_opens_it_again_is_named_by_the_plan_and_by_ssh_audit(
    audited: Deployed, line: str, why: str
) -> None:
    audited.said("gpu-1", f"echo '{line}' > {PLANTED}; {RELOAD}")
    try:
        cell = audited.plan().cell("base", "gpu-1")
        assert cell is not None
        assert why in cell.why
        assert judged(audited, "gpu-1")["fail"]
    finally:
        audited.said("gpu-1", f"rm {PLANTED}; {RELOAD}")
    cell = audited.plan().cell("base", "gpu-1")
    assert cell is not None
    assert cell.why == ""


def lynis(rack: Deployed, title: str) -> int:
    """Its index, told with its suggestions; it has no warning."""
    said = appliance("lab", "shell", "--name", NAME, "head", "--", LYNIS, timeout=900)
    rack.shell("head", "apt-get purge -qq lynis >/dev/null; rm -f /var/log/lynis*")
    assert said.returncode == 0, said.stderr
    (score,) = map(int, re.findall(r"^hardening_index=(\d+)$", said.stdout, re.MULTILINE))
    tell(f"lynis, head, {title}: hardening index {score}, the target is {TARGET}")
    tell(said.stdout)
    assert "warning[]" not in said.stdout
    return score


def test_lynis_says_no_less_than_it_did(audited: Deployed) -> None:
    assert lynis(audited, "by default") >= LEAST


def test_lynis_says_more_of_a_strict_site_and_that_ends_with_it(audited: Deployed) -> None:
    file = audited.site / "site.yml"
    text = file.read_text()
    file.write_text(text.rstrip() + ASKED if "\nbase:\n" in text else f"{text}\nbase:{ASKED}")
    try:
        done = audited.deploy("--stage", "base")
        assert done.returncode == 0, done.stdout
        assert lynis(audited, "strict") >= STRICT
        audited.said(
            "head", "su -l -s /bin/sh nobody -c 'test $(umask) = 0027 -a $(ulimit -Hc) = 0'"
        )
    finally:
        file.write_text(text)
    done = audited.deploy("--stage", "base")
    assert done.returncode == 0, done.stdout
    assert "0022" in audited.said("head", "su -l -s /bin/sh nobody -c umask")
