"""Cargo's part: examples of a repo, or of a published crate, become programs to run."""

from parity.port.cargo.build import build_program, make_build_key, read_commit
from parity.port.cargo.call import Program

__all__ = ["Program", "build_program", "make_build_key", "read_commit"]
