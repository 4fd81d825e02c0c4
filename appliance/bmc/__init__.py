"""BMCs: their inventory, the expected inventory, and power."""
