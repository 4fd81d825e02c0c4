"""Outside judges of a deployed rack: ssh-audit of what sshd offers, lynis of the host; and our own check beside them."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from appliance.models.plan import Action
from tests.integration.deployed import ADMIN, HOSTS, NAME, USER, Deployed, appliance
from tests.support.audits import bad

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
awk '/Performing test ID/ { sub(/.*Performing test ID /, ""); test = $1 }
    /Hardening: assigned/ { points = $0; sub(/.*Currently having /, "", points) }
    /assigned partial number/ { match($0, /[(][0-9]+ of [0-9]+[)]/); split(substr($0, RSTART + 1, RLENGTH - 2), of, " ")
                                lost[test] += of[3] - of[1] }
    END { print "points=" points; for (test in lost) print "lost[]=" test " " lost[test] }' /var/log/lynis.log | sort
"""
STRANGER = "mallory"
KEY_OF_STRANGER = f"install -d -o {STRANGER} -m 700 ~{STRANGER}/.ssh && cat >~{STRANGER}/.ssh/authorized_keys && chown -R {STRANGER} ~{STRANGER}"
UNDONE = """sha256sum /etc/login.defs /etc/ssh/sshd_config.d/00-appliance.conf /etc/systemd/system/appliance-weekly.service
ls /etc/modprobe.d /etc/profile.d /etc/security/limits.d
ls /etc/aide/aide.conf /usr/local/sbin/appliance-integrity /etc/security/pwquality.conf.d/* 2>/dev/null
su -l -s /bin/sh nobody -c umask
findmnt -no OPTIONS /dev/shm
"""
TARGET, LEAST, STRICT = 80, 66, 80
"""What lynis is to say, and what no change may fall below, by default and of a strict site; docs/security.md says what lies between."""
ASKED = """
  strict: true
  banner:
    - This system is private. Only authorised persons may access it.
    - Connections are monitored and recorded; evidence of criminal use goes to the law.
  logs:
    to: head
    port: 10514
    ca: |
"""
RECEIVED = "/run/received"
RECEIVER = f"""
import socketserver, ssl, sys
class Keep(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            with open("{RECEIVED}", "ab") as file:
                file.write(line)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    def get_request(self):
        connection, address = super().get_request()
        connection.settimeout(600)
        return context.wrap_socket(connection, server_side=True), address
Server(("", 10514), Keep).serve_forever()
"""
"""Takes logs by TLS, as a site's log server does."""


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
    """Its index, told with its suggestions; it warns of nothing that is the site's."""
    said = appliance("lab", "shell", "--name", NAME, "head", "--", LYNIS, timeout=900)
    rack.shell("head", "apt-get purge -qq lynis >/dev/null; rm -f /var/log/lynis*")
    assert said.returncode == 0, said.stderr
    (score,) = map(int, re.findall(r"^hardening_index=(\d+)$", said.stdout, re.MULTILINE))
    tell(f"lynis, head, {title}: hardening index {score}, the target is {TARGET}")
    tell(said.stdout)
    warnings = re.findall(r"^warning\[\]=([^|]+)", said.stdout, re.MULTILINE)
    # What Debian mended since the rack's image was made is told by that one alone.
    assert set(warnings) <= {"PKGS-7392"}
    return score


def test_lynis_says_no_less_than_it_did(audited: Deployed) -> None:
    assert lynis(audited, "by default") >= LEAST


def certificate(folder: Path, name: str) -> str:
    """A certificate for a host of that name, and its key."""
    key, made = folder / f"{name}.key", folder / f"{name}.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    run(("openssl", "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(made)))
    return made.read_text() + key.read_text()


def receive(rack: Deployed, pem: str) -> None:
    """Have head take logs, with this certificate."""
    rack.shell("head", "cat >/root/receiver.py", input=RECEIVER)
    rack.shell("head", "cat >/root/receiver.pem", input=pem)
    start = "systemd-run --quiet --unit receiver python3 /root/receiver.py /root/receiver.pem"
    rack.said("head", f"systemctl stop receiver; systemctl reset-failed receiver; {start}")


def arrives(rack: Deployed, host: str, word: str, seconds: int = 45) -> bool:
    """Whether head takes what is logged there."""
    rack.said(host, f"logger {word}")
    wait = f"for i in $(seq {seconds}); do grep -s {word} {RECEIVED} && exit; sleep 1; done; exit 9"
    return f" {host} " in rack.shell("head", wait).stdout


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Certificates and keys of the log server and of another host, each its own authority."""
    folder = tmp_path_factory.mktemp("logs")
    return {name: certificate(folder, name) for name in ("head", "another")}


@pytest.fixture(scope="module")
def strict(audited: Deployed, servers: dict[str, str]) -> Iterator[Deployed]:
    """A strict site, with an account on head that somebody made by hand, for whom the site's own key opens; and all of it undone."""
    before = audited.said("head", UNDONE)
    audited.said("head", f"useradd -m -s /bin/bash {STRANGER}")
    key = (audited.site / "id_ed25519.pub").read_text()
    done = audited.shell("head", KEY_OF_STRANGER, input=key)
    assert done.returncode == 0, done.stderr
    assert login(audited, STRANGER)
    receive(audited, servers["head"])
    file = audited.site / "site.yml"
    text = file.read_text()
    authorities = "".join(pem.partition("-----BEGIN PRIVATE")[0] for pem in servers.values())
    asked = ASKED + "".join(f"      {line}\n" for line in authorities.splitlines())
    assert "\nbase:\n" in text
    file.write_text(text.replace("\nbase:", f"\nbase:{asked.rstrip()}"))
    try:
        done = audited.deploy("--stage", "base")
        assert done.returncode == 0, done.stdout
        yield audited
    finally:
        file.write_text(text)
        done = audited.deploy("--stage", "base")
    try:
        assert done.returncode == 0, done.stdout
        assert login(audited, STRANGER)
        assert audited.said("head", UNDONE) == before
        receive(audited, servers["head"])
        assert not arrives(audited, "gpu-1", "nobody-takes-this", seconds=15)
    finally:
        audited.said("head", f"systemctl stop receiver; rm -f /root/receiver.* {RECEIVED}")
        audited.said("head", f"userdel -r {STRANGER} 2>/dev/null; true")


def login(rack: Deployed, account: str) -> bool:
    """Whether head lets this account in by the site's key."""
    address = rack.said("head", "hostname -I").split()[0]
    known, key = rack.site / "known_hosts", rack.site / "id_ed25519"
    options = ("-n", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={known}", "-i", str(key))
    return run(("ssh", *options, f"{account}@{address}", "true"), check=False).returncode == 0


def needed(rack: Deployed) -> dict[str, str]:
    """By host, why stage base would run there."""
    return {c.host: c.why for c in rack.plan().by_stage("base") if c.action is not Action.SKIP}


def test_lynis_says_more_of_a_strict_site(strict: Deployed) -> None:
    # An AIDE that has not looked yet is a warning.
    strict.said("head", "systemctl start appliance-weekly.service")
    assert lynis(strict, "strict") >= STRICT
    strict.said("head", "su -l -s /bin/sh nobody -c 'test $(umask) = 0027 -a $(ulimit -Hc) = 0'")


def test_only_the_sites_accounts_are_let_in(strict: Deployed) -> None:
    found = {account: login(strict, account) for account in ("root", ADMIN, USER, STRANGER)}
    assert found == {"root": True, ADMIN: True, USER: True, STRANGER: False}


def test_a_weak_password_is_refused_and_ages_are_those_of_new_accounts_alone(
    strict: Deployed,
) -> None:
    weak, strong = (
        strict.shell("head", "chpasswd", input=f"{STRANGER}:{word}\n").returncode
        for word in ("Passw0rd", "four-Plain words of 28 marks")
    )
    assert (weak != 0, strong) == (True, 0)
    strict.said("head", "useradd -M newcomer")
    try:
        assert "365" in strict.said("head", "chage -l newcomer | grep ^Maximum")
    finally:
        strict.said("head", "userdel newcomer")
    for account in (ADMIN, USER, "root"):
        assert "99999" in strict.said("head", f"chage -l {account} | grep ^Maximum")


def test_logs_arrive_by_tls_and_only_where_the_name_is_right(
    strict: Deployed, servers: dict[str, str]
) -> None:
    for host in HOSTS:
        assert arrives(strict, host, f"from-{host}-it-went")
    receive(strict, servers["another"])
    assert not arrives(strict, "gpu-1", "not-for-another", seconds=15)
    receive(strict, servers["head"])
    assert arrives(strict, "gpu-1", "again-for-the-right-one")
    assert "not-for-another" in strict.said("head", f"cat {RECEIVED}"), "what waited is lost"


def test_nothing_is_started_from_shared_memory(strict: Deployed) -> None:
    started = "cp /bin/true /dev/shm/planted; /dev/shm/planted; e=$?; rm /dev/shm/planted; exit $e"
    assert strict.shell("gpu-1", started).returncode == 126
    strict.said("gpu-1", "mount -o remount,exec /dev/shm")
    assert "mount options /dev/shm" in needed(strict)["gpu-1"]


def test_aide_tells_what_is_another_than_at_the_look_before(strict: Deployed) -> None:
    strict.said("head", "systemctl start appliance-weekly.service")
    strict.said("head", "touch /usr/bin/planted")
    try:
        said = strict.said("head", "appliance-integrity; echo ended with $?")
        assert "/usr/bin/planted" in said
        assert "ended with 0" in said
    finally:
        strict.said("head", "rm /usr/bin/planted")
    assert "/usr/bin/planted" in strict.said("head", "appliance-integrity")
    assert "/usr/bin/planted" not in strict.said("head", "appliance-integrity")


def test_a_strict_rack_has_nothing_to_do_and_a_looser_one_is_named(strict: Deployed) -> None:
    done = strict.deploy("--stage", "base")
    assert done.returncode == 0, done.stdout
    assert needed(strict) == {}
    for change, why in (
        ("sed -i 's/^UMASK.*/UMASK 022/' /etc/login.defs", "keyword /etc/login.defs UMASK"),
        ("rm /etc/security/pwquality.conf.d/50-appliance.conf", "50-appliance.conf"),
        ("apt-get purge -qq aide >/dev/null", "package aide"),
    ):
        strict.said("gpu-1", change)
        cell = strict.plan().cell("base", "gpu-1")
        assert cell is not None
        assert why in cell.why
    done = strict.deploy("--stage", "base")
    assert done.returncode == 0, done.stdout
    assert needed(strict) == {}


def test_twenty_looks_at_a_strict_rack_find_nothing(strict: Deployed) -> None:
    assert bad(strict) == set()
