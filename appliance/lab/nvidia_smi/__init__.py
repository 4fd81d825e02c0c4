"""What people on a rack host call nvidia-smi: the simulated GPUs, read through the simulated NVML."""
