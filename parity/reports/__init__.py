"""Reports: one module for each output format."""
