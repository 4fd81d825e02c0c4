"""Ids of the checks of stage mig, spelled here and nowhere else."""

MIG = "gpu.mig"
ON_DEMAND = "mig.on_demand"
