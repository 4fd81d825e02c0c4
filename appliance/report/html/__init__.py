"""The report a customer signs: one file that needs nothing else."""

from appliance.report.html.page import render

__all__ = ["render"]
