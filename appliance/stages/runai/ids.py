"""Ids of the checks of stage runai, spelled here and nowhere else."""

RELEASES = "runai.releases"
CONNECTED = "runai.connected"
CERTIFICATE = "runai.certificate"
