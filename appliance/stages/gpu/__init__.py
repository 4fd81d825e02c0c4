"""Stage gpu: NVIDIA driver, fabric manager, container toolkit, DCGM; and the GPUs themselves."""
