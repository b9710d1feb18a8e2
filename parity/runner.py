"""Where this process runs: the only reader of ``GITHUB_*`` and of Nox's variables."""

from __future__ import annotations

import os


def door() -> str:
    """The words that a person types to run ``verify`` the way this process was started."""
    if os.environ.get("NOX_CURRENT_SESSION"):
        return "nox -s verify --"
    return "python -m parity verify"
