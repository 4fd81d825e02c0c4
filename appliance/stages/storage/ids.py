"""Ids of the checks of stage storage, spelled here and nowhere else."""

SERVER = "storage.server"
EXPORT = "storage.export"
CLIENT = "storage.client"
MOUNT = "storage.mount"
SCRATCH = "storage.scratch"
SCRATCH_SIZE = "storage.scratch_size"
