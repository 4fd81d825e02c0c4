"""Stage validate: the short benchmarks, and every check once more."""
