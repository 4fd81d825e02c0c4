"""Tells kubelet of the rack's simulated GPUs, in place of the GPU Operator's device plugin. Runs on the rack's hosts."""
