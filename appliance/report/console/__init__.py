"""Output for people, on a terminal or in a pipe."""

from appliance.report.console.findings import findings_list, health_view
from appliance.report.console.plan import plan_table
from appliance.report.console.summary import run_summary

__all__ = ["findings_list", "health_view", "plan_table", "run_summary"]
