"""The alert rules on the rack: promtool raises each by its fault and by nothing else, and links lead somewhere."""

import json

import pytest

from appliance.alerts import ALERTS
from tests.integration.alert_cases import promtool_tests
from tests.integration.deployed import USER, Deployed

pytestmark = pytest.mark.rack

RULES = "/etc/prometheus/rules/appliance.yml"


def test_each_rule_fires_with_its_fault_and_keeps_silent_without(deployed: Deployed) -> None:
    cases = json.dumps(promtool_tests(RULES))
    script = f"cat > /run/cases.yml; promtool check rules {RULES} && promtool test rules /run/cases.yml; e=$?; rm /run/cases.yml; exit $e"
    done = deployed.shell("head", script, input=cases)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.parametrize(
    ("host", "to"),
    [
        *(("head", "127.0.0.1/9090"), ("head", "head/9090"), ("head", "head/9100")),
        *(("head", "gpu-1/9100"), ("gpu-1", "gpu-1/9100")),
    ],
)
def test_root_asks_what_has_no_login_and_a_user_does_not(
    deployed: Deployed, host: str, to: str
) -> None:
    connect = f"bash -c 'exec 3<>/dev/tcp/{to}'"
    deployed.said(host, connect)
    refused = deployed.shell(host, f"setpriv --reuid {USER} --clear-groups {connect}")
    assert refused.returncode != 0
    assert "Connection refused" in refused.stderr


def test_runbook_links_lead_to_the_page_of_checks(deployed: Deployed) -> None:
    asked = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9090/user/checks.html').read().decode())"
    page = deployed.said("head", f'python3 -c "{asked}"')
    assert '<section id="gpu.ecc">' in page
