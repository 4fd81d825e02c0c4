"""Matrix products and memory of each GPU separately, by the host's PyTorch: speed and correctness."""
