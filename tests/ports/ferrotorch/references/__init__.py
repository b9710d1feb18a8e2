"""References for ferrotorch's dump examples, in the layout of its own bundles.

A module a bundle; its ``make()`` returns the bundle's files by path, as arrays and JSON values.
"""
