"""Alerts: their files are current, each leads to a check there is, and each is tested with promtool."""

import re
from collections import Counter

from appliance.actions.published import generated
from appliance.alerts import ALERTS
from appliance.config import data
from appliance.stages.catalog import CHECKS
from tests.integration.alert_cases import CASES


def test_the_rules_and_the_runbook_are_current() -> None:
    for name, text in generated().items():
        assert (data.root() / name).read_text() == text, "run: make published"


def test_every_alert_bears_its_own_name_and_leads_to_a_check_there_is() -> None:
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)
    known = {check.id for check in CHECKS} | {"{{ $labels.id }}"}
    assert [alert.name for alert in ALERTS if alert.check not in known] == []


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert [a.name for a in ALERTS if not a.summary or len(a.remedy) < 20] == []


def test_every_alert_is_tested_with_its_fault_and_without() -> None:
    assert Counter(case.alert for case in CASES) == Counter(alert.name for alert in ALERTS)


def test_a_text_names_only_labels_the_alert_has() -> None:
    cases = {case.alert: case for case in CASES}
    for alert in ALERTS:
        named = set(re.findall(r"\$labels\.(\w+)", f"{alert.summary} {alert.remedy} {alert.check}"))
        assert named <= set(cases[alert.name].labels), alert.name


def test_the_runbook_has_an_anchor_for_every_check() -> None:
    (page,) = (text for name, text in generated().items() if name.endswith(".html"))
    assert [check.id for check in CHECKS if f'<section id="{check.id}">' not in page] == []
