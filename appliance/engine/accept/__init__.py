"""Acceptance of a site: evidence, gates, waivers, and the hand-over baseline."""
