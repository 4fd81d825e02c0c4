"""The report a customer signs: one file that needs nothing else."""

from appliance.report.html.page import read_templates, render

__all__ = ["read_templates", "render"]
