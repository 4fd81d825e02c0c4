"""nccl-tests: collectives in a host, over its own fabric, in groups of hosts and over all of them."""
