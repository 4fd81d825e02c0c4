"""The probe's readers of this stage."""
