"""Provisioning, proof and hand-over of GPU appliances."""

__version__ = "0.1.0"
