"""Alerts reach who the site names, and who refuses them is named: trials, and a rule of Prometheus, by Alertmanager.

Part of make fresh: it deploys its rack again, and tests of the shared one compare with its first deployment.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.deployed import USER, Deployed

pytestmark = pytest.mark.fresh

OWN = "/etc/prometheus/rules/of-this-test.yml"
CONFIG = "/etc/prometheus/alertmanager.yml"
UNIT = "prometheus-alertmanager.service"
HOOK = "http://127.0.0.1:9911/token-of-oncall"
ILL, GONE = "http://127.0.0.1:9911/token-of-ill", "http://127.0.0.1:9911/token-of-gone"
ANSWERS = """
import asyncore, http.server as h, smtpd, threading
def keep(line):
    with open("/run/told", "a") as told:
        told.write(line + "\\n")
class Mail(smtpd.SMTPServer):
    def process_message(self, peer, sender, to, data, **_):
        keep(f"mail from {sender} to {to} {data!r}")
class Hook(h.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keep(self.path + " " + body)
        self.send_response({"ill": 500, "gone": 404}.get(self.path.rpartition("-")[2], 200))
        self.end_headers()
    def log_message(self, *_):
        pass
Mail(("127.0.0.1", 9925), None)
threading.Thread(target=asyncore.loop, daemon=True).start()
h.HTTPServer(("127.0.0.1", 9911), Hook).serve_forever()
"""
"""Somebody else's servers for posts and mails: they keep what they get, and refuse two addresses, one of them for ever."""
MAIL = {"server": "127.0.0.1", "port": 9925, "sender": "appliance@example.com", "tls": False}
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def told(deployed: Deployed) -> Iterator[Deployed]:
    """The rack's site with four receivers, two of whom refuse; without them again at the end."""
    site = deployed.site / "site.yml"
    before = site.read_text()
    assert "\nobserve:" not in before
    # Those that refuse come first: one is tried again and again while the next gets its trial.
    urls = {"ill": ILL, "gone": GONE, "oncall": HOOK}
    listed = [_receiver(deployed.site, name, url) for name, url in urls.items()]
    listed.append({"name": "boss", "email": "boss@example.com", "severity": "critical"})
    observe = {"receivers": listed, "mail": MAIL}
    site.write_text(f"{before.rstrip()}\nobserve: {json.dumps(observe)}\n")
    deployed.shell("head", "cat > /run/hook.py", input=ANSWERS)
    deployed.said("head", "systemd-run --quiet --unit of-this-test python3 /run/hook.py")
    try:
        done = deployed.deploy("--stage", "observe")
        assert done.returncode == 0, done.stdout
        yield deployed
    finally:
        site.write_text(before)
        deployed.said("head", f"rm -f {OWN}; systemctl reload prometheus")
        # The whole of it: after a stage alone the site is to be measured anew, and others have this rack next.
        again = deployed.deploy()
        deployed.said("head", "systemctl stop of-this-test; rm -f /run/hook.py /run/told")
    assert again.returncode == 0, again.stdout
    state = deployed.said(
        "head", f"ls {CONFIG}; systemctl is-active {UNIT}; systemctl is-enabled {UNIT}; :"
    )
    assert state.split() == ["inactive", "disabled"]
    planned = deployed.program("plan")
    assert deployed.plan().changes == 0, planned.stdout
    until(lambda: "AlertsUndelivered" not in deployed.program("health").stdout)


def _receiver(folder: Path, name: str, url: str) -> dict[str, object]:
    secret = folder / f"secrets/{name}"
    secret.touch(mode=0o600)
    secret.write_text(url + "\n")
    return {"name": name, "webhook": {"file": f"secrets/{name}"}}


def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, "not within two minutes"
        time.sleep(2)


def test_a_trial_says_who_was_told_and_who_was_not_and_why(told: Deployed) -> None:
    done = told.program("validate", "alerts", "--json")
    listed = json.loads(done.stdout)["results"]
    results = {r["target"]: r for r in listed if r["id"] == "alerts.delivery"}
    assert (done.returncode, len(results)) == (1, 4)
    assert results["cluster/to oncall"]["status"] == "pass"
    assert results["cluster/to boss"]["status"] == "pass"
    for name, code in (("ill", "500"), ("gone", "404")):
        refused = results[f"cluster/to {name}"]
        assert (refused["status"], code in refused["cause"]) == ("fail", True), refused
        assert "token-of" not in done.stdout
    told.said(
        "head",
        "grep 'mail from appliance@example.com .*boss@example.com.*ApplianceTrial' /run/told",
    )
    trial = next(
        line
        for line in told.said("head", "cat /run/told").splitlines()
        if "token-of-oncall" in line
    )
    assert '"alertname":"ApplianceTrial"' in trial
    assert "nothing is wrong" in trial


def test_an_alert_of_prometheus_reaches_its_receiver(told: Deployed) -> None:
    rule = {"alert": "OfThisTest", "expr": "vector(1)", "labels": {"severity": "warning"}}
    told.shell(
        "head", f"cat > {OWN}", input=json.dumps({"groups": [{"name": "own", "rules": [rule]}]})
    )
    told.said("head", "systemctl reload prometheus")
    until(lambda: "OfThisTest" in told.said("head", "grep token-of-oncall /run/told"))


def test_what_could_not_be_delivered_is_seen_by_health(told: Deployed) -> None:
    until(lambda: "Alertmanager cannot deliver" in told.program("health").stdout)


def test_addresses_of_receivers_are_for_alertmanager_alone(told: Deployed) -> None:
    mode = told.said("head", f"stat -c '%a %U %G' {CONFIG}")
    assert mode.split() == ["640", "root", "prometheus"]
    # Alertmanager's own journal names an address that refused; root and the group adm may read it.
    small = "find /var/lib/appliance /etc -type f -size -256M"
    found = told.said("head", f"{small} -exec grep -la token-of- {{}} + | grep -vx {CONFIG}; :")
    assert found == ""
    ours = told.site / "runs"
    assert not [f for f in ours.rglob("*") if f.is_file() and b"token-of-" in f.read_bytes()]


def test_a_user_of_the_control_host_reads_no_address_and_silences_nothing(told: Deployed) -> None:
    connect = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9093'"
    told.said("head", connect)
    refused = told.shell("head", f"setpriv --reuid {USER} --clear-groups {connect}")
    assert refused.returncode != 0
    assert "Connection refused" in refused.stderr


def test_a_silence_of_everything_is_named_until_its_command_ends_it(told: Deployed) -> None:
    add = "amtool silence add 'alertname=~.+' --duration=1h --comment=x --alertmanager.url=http://127.0.0.1:9093"
    number = told.said("head", add).strip()
    try:
        (found,) = silences(told)
        assert (found["status"], found["target"]) == ("fail", f"cluster/silence {number}")
        command = found["fix"].removeprefix("on head: ")
    finally:
        expire = f"amtool silence expire {number} --alertmanager.url=http://127.0.0.1:9093"
        told.said("head", expire)
    assert command == expire
    (found,) = silences(told)
    assert found["status"] == "pass"


def silences(told: Deployed) -> list[dict[str, str]]:
    """What health says of them."""
    done = told.program("health", "--check", "observe.silences", "--json")
    return [r for r in json.loads(done.stdout)["results"] if r["id"] == "observe.silences"]
