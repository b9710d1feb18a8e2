"""Build examples of the repo under test, or of a published crate, with cargo."""

from parity.port.cargo.build import build_program, make_build_key, read_commit
from parity.port.cargo.call import Program

__all__ = ["Program", "build_program", "make_build_key", "read_commit"]
