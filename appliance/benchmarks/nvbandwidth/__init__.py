"""nvbandwidth: copies between each GPU and its host, and between each pair of GPUs."""
