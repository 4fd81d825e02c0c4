"""Verbs that examine a deployed site: health and baseline."""
