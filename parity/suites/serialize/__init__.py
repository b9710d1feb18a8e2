"""The suite ``serialize``: checkpoints that a port reads, and the ONNX model that it exports."""
