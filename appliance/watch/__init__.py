"""The program on GPU hosts that judges for the scheduler whether the host is fit for work, and if not, why."""
