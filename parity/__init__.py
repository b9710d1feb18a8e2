"""Proves that a port of PyTorch computes what the original computes."""

__version__ = "0.1.0"
