"""Provisioning, proof and hand-over of GPU appliances."""

__version__ = "0.2.0rc1"
