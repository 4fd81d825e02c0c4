"""An alert: a condition on metrics, the check that explains it, and the remedy."""

from dataclasses import dataclass
from enum import StrEnum

MOST = 100
"""Alerts of one rule about one host."""
OF_SITE = ("slurm_", "appliance_check_")
"""Series of all hosts by one exporter, which Prometheus takes from control hosts only (role observe)."""


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

    @property
    def bounded(self) -> str:
        """``expr`` with at most ``MOST`` results for each host.

        An exporter may have 100,000 series. As many alerts delay Prometheus's answers about all hosts by seconds (seen, 2.42).
        """
        if self.expr.startswith(OF_SITE):
            return self.expr
        return f"topk by (instance) ({MOST}, {self.expr})"
