"""The suite ``tensors``: any tensors with a reference each."""
