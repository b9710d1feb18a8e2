"""Faults that are planted on purpose, to learn what a bundle and the verifier can see.

Each is a way in which ports have gone wrong. ``parity prove`` plants them into copies of a
bundle's own references; nothing here compares or judges.
"""

from __future__ import annotations

from parity.faults.fault import Fault, Planted

__all__ = ["Fault", "Planted"]
