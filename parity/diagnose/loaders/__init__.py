"""Find why the items, the order or the values of a loader are wrong."""
