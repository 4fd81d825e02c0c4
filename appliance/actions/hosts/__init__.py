"""Verbs of single hosts: their keys, GPUs, ports, and the owners that schedule them."""
