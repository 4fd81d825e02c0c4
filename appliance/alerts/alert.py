"""An alert: a condition on metrics, the check that explains it, and the remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Critical: jobs fail or will soon. Warning: an operator should look during the day."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True)
class Alert:
    """One alert rule.

    ``expr`` is PromQL and must hold for ``minutes``. ``summary`` and ``remedy`` may use Prometheus's own templates
    ("{{ $labels.instance }}"). ``check`` is the id of the check whose entry on the page of checks is the runbook.
    """

    name: str
    area: str
    expr: str
    minutes: int
    severity: Severity
    summary: str
    remedy: str
    check: str
