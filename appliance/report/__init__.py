"""Renders results for the console, JSON, HTML, Nagios and Prometheus."""
