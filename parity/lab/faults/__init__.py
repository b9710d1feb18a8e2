"""Faults that are planted on purpose, to learn what a bundle and the verifier can see.

Each is a way in which ports have gone wrong. ``parity prove`` plants them into copies of a
bundle's own references; nothing here compares or judges.
"""

from __future__ import annotations

from parity.lab.faults.fault import Fault, InjectionResult

__all__ = ["Fault", "InjectionResult"]
