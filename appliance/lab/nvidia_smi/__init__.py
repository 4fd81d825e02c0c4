"""nvidia-smi of a rack host: the simulated GPUs, read through the simulated NVML."""
