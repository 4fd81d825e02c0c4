"""DCGM's diagnostics, levels 1 to 4: NVIDIA's own tests of a host's GPUs, with NVIDIA's own limits by product."""
