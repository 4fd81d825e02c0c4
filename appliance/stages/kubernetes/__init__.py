"""Stage kubernetes: containerd and a cluster over control and GPU hosts."""
