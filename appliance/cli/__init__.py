"""Turns flags into actions and results into exit codes; one file per verb."""
