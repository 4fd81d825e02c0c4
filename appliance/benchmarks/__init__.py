"""Measured workloads: prepare, submit, read logs, judge."""
