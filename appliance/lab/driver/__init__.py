"""Look-alikes of NVIDIA's packages with the same names, versions, programs and units, but simulated functions."""
