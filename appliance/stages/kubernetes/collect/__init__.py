"""What the probe asks of this stage's area."""
