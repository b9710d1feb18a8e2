"""The lockfile: which bundles to verify, where they come from, how the port dumps its side.

The form is documented in ``docs/lockfile.md``; ``fixtures.lock.schema.json`` states
it for editors.
"""

from parity.lockfile.contents import Bundle, Dump, Locked, Lockfile
from parity.lockfile.parse import load, parse

__all__ = ["Bundle", "Dump", "Locked", "Lockfile", "load", "parse"]
