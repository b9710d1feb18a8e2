"""The environment of a step of the action: its inputs, its event, and what may be cached in it."""

from __future__ import annotations

import os

from parity.github import INPUT_PREFIX, is_on_github

#: Annotations of one level that GitHub keeps for a step; a composite action is one step.
MAX_ANNOTATIONS = 10
#: Events whose results others receive: such runs never read a cache.
_UNCACHED_EVENTS = ("release", "pull_request_target", "workflow_run")
_SAVING_EVENTS = ("push", "schedule", "workflow_dispatch")


def get_base_revision() -> str | None:
    """Return the base branch of a pull request's run, else None."""
    name = os.environ.get("GITHUB_BASE_REF")
    return f"origin/{name}" if is_on_github() and name else None


def read_inputs() -> dict[str, str]:
    """Return the action's inputs by name, unparsed; inputs without a variable are missing."""
    return {
        name.removeprefix(INPUT_PREFIX).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(INPUT_PREFIX)
    }


def is_cache_readable() -> bool:
    """Return whether this run may read a cache: not if others receive its results."""
    event, kind = os.environ.get("GITHUB_EVENT_NAME"), os.environ.get("GITHUB_REF_TYPE")
    return event not in _UNCACHED_EVENTS and kind != "tag"


def is_cache_writable() -> bool:
    """Return whether this run may write a cache: never in a pull request, which evicts others."""
    return is_cache_readable() and os.environ.get("GITHUB_EVENT_NAME") in _SAVING_EVENTS
