"""Ids of the checks of stage limits, spelled here and nowhere else."""

RUNNING = "limits.running"
CLUSTER = "limits.cluster"
METRICS = "limits.metrics"
