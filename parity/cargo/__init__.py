"""Cargo's part: examples of a repo, or of a published crate, become programs to run."""

from parity.cargo.build import build, build_key, commit
from parity.cargo.call import Program

__all__ = ["Program", "build", "build_key", "commit"]
