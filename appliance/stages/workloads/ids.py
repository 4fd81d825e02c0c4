"""Ids of the checks of stage workloads, spelled here and nowhere else."""

RELEASES = "workloads.releases"
PODS = "workloads.pods"
STORAGE_CLASS = "workloads.storage_class"
POLICIES = "workloads.policies"
NETWORK = "workloads.network"
