"""One file per area; each reads the facts of one part of a host."""
