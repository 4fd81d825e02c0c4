"""Ids of the checks of stage scheduler, spelled here and nowhere else."""

RELEASES = "scheduler.releases"
PODS = "scheduler.pods"
GPUS = "scheduler.gpus"
RDMA = "scheduler.rdma"
TREES = "scheduler.trees"
