"""The ordered stages of a deployment; one file per stage."""
