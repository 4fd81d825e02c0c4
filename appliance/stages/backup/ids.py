"""Ids of the checks of stage backup, spelled here and nowhere else."""

AGE = "backup.age"
TARGET = "backup.target"
