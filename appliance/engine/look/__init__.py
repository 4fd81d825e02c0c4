"""Gathers, keeps and judges facts about a site."""
