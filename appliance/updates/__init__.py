"""Updates of packages in waves, and the way back."""
