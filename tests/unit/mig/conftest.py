"""A host with simulated GPUs that can be divided, driven in this process and by the program a host keeps."""

from tests.support.mig_host import host, layer

__all__ = ["host", "layer"]
