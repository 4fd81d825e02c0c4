"""Judgements of facts against expectations; one file per area."""
