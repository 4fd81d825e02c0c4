"""Burn-in: GPUs and fabric loaded at once for hours, heat, power, clocks and errors sampled throughout, judged at the end."""
