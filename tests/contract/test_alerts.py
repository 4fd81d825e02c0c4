"""Alerts: each leads to a check there is, and each is tested with promtool."""

import re
from collections import Counter

from appliance.alerts import ALERTS
from appliance.stages.catalog import CHECKS
from tests.integration.alert_cases import CASES
from tools.published import RUNBOOK, built


def test_every_alert_bears_its_own_name_and_leads_to_a_check_there_is() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)
    known = {check.id for check in CHECKS} | {"{{ $labels.id }}"}
    assert [alert.name for alert in ALERTS if alert.check not in known] == []


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert [a.name for a in ALERTS if not a.summary or len(a.remedy) < 20] == []


def test_every_alert_is_tested_with_its_fault_and_without() -> None:
    assert {case.alert for case in CASES} == {alert.name for alert in ALERTS}
    assert Counter(alert.name for alert in ALERTS).most_common(1)[0][1] == 1


def test_a_text_names_only_labels_the_alert_has() -> None:
    alerts = {alert.name: alert for alert in ALERTS}
    for case in CASES:
        alert = alerts[case.alert]
        named = set(re.findall(r"\$labels\.(\w+)", f"{alert.summary} {alert.remedy} {alert.check}"))
        assert named <= set(case.labels), alert.name


def test_the_runbook_has_an_anchor_for_every_check() -> None:
    page = built()[RUNBOOK]
    assert [check.id for check in CHECKS if f'<section id="{check.id}">' not in page] == []
