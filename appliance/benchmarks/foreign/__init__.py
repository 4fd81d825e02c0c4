"""Audits of a site by other programs: shown next to ours, without effect on gates."""
