"""Ids of the checks of stage scheduler, spelled here and nowhere else."""

RELEASES = "scheduler.releases"
PODS = "scheduler.pods"
RDMA = "scheduler.rdma"
TREES = "scheduler.trees"
MEMBERS = "scheduler.members"
