"""Matrix products and memory of each GPU by itself, by PyTorch of the host: what it reaches, and whether it is right."""
