"""Lay what `show` prints side by side, one module a bundle kind."""
