"""Stage mig: GPUs divided as declared (MIG)."""
