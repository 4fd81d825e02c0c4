"""Ids of the checks of stage observe, spelled here and nowhere else."""

TARGETS = "observe.targets"
RULES = "observe.rules"
EXPORTER = "observe.exporter"
SERVER = "observe.server"
RECEIVERS = "observe.receivers"
SILENCES = "observe.silences"
ALERTS = "observe.alerts"
