"""The report a customer signs: one self-contained file."""

from appliance.report.html.page import read_templates, render

__all__ = ["read_templates", "render"]
