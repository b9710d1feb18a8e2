"""Find and read the file of a manifest: the bundle's own, or one beside the lockfile."""

from __future__ import annotations

from pathlib import Path

from parity.bundle.document import Document, read_json, read_yaml
from parity.bundle.layout import describe_nesting
from parity.errors import ConfigError, Location, Problem, ReferenceSuspectError

NAME = "parity.json"


def read_manifest_file(tree: Path, beside: Path | None) -> Document:
    """Read a bundle's `parity.json`, or the manifest ``beside`` the lockfile.

    Raises:
        ReferenceSuspectError, ConfigError: As ``manifest.read_manifest``.
    """
    path = tree / NAME
    if beside is not None:
        if path.exists():
            message = f"the bundle has a {NAME} of its own; remove the key manifest"
            raise ConfigError(Problem("manifest", message, Location(beside)))
        try:
            return (read_json if beside.suffix == ".json" else read_yaml)(beside, "manifest")
        except FileNotFoundError:
            message = f"the manifest {beside.as_posix()} does not exist"
            raise ConfigError(Problem("manifest", message, Location(beside))) from None
    try:
        return read_json(path, "reference-malformed")
    except FileNotFoundError:
        nesting = describe_nesting(tree) if any(tree.glob(f"*/{NAME}")) else ""
        hint = nesting or (
            "; a bundle of the suite tensors has one at its root; is `suite` the right one?"
        )
        problem = Problem("reference-malformed", f"{NAME} is missing{hint}", Location(path))
        raise ReferenceSuspectError(problem) from None
    except ConfigError as error:
        raise ReferenceSuspectError(*error.problems) from None
