"""Run parity from this folder's own sources, whatever the caller's PYTHONPATH says."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from parity.__main__ import main

if __name__ == "__main__":
    main()
