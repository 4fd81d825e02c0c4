"""Stage backup: control hosts save their data off the host."""
