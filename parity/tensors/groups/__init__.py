"""Measures of whole tensors, as plug-ins of one shape: settings in, numbers and a verdict out."""
