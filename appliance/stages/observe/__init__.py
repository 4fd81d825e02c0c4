"""Stage observe: exporters, Prometheus, alert rules."""
