"""What a deployment would do: variables, fingerprints, and one cell per stage and host."""
