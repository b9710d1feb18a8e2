"""Copy a case's files under the names that a port's unchanged example opens.

Upstream's dump examples open fixed names such as `resnet18-f37072fd.pth`. The
option ``checkpoint-names`` states that name by suffix; the case's checkpoint is then
copied under it into its own folder, which replaces ``{fixture_dir}``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parity.errors import ConfigError, Problem
from parity.lockfile import Bundle
from parity.suites.base import Case

OPTION = "checkpoint-names"
MAX_BYTES = 16 * 2**20  # Larger checkpoints need a bundle whose own file names fit


@contextmanager
def open_alias_folder(bundle: Bundle) -> Iterator[Path | None]:
    """Make a folder for the copies, if the bundle's entry has the option."""
    if OPTION not in bundle.options:
        yield None
        return
    with TemporaryDirectory(prefix="parity-fixtures-", ignore_cleanup_errors=True) as path:
        yield Path(path).resolve()


def build_placeholders(bundle: Bundle, case: Case, alias_folder: Path | None) -> dict[str, str]:
    """Return the values of ``{fixture_dir}`` and ``{checkpoint}`` if they are copies.

    Raises:
        ConfigError: The checkpoint is too large to be copied.
    """
    checkpoint = Path(case.placeholders.get("checkpoint", ""))
    aliases: Mapping[str, Any] = bundle.options.get(OPTION, {})
    if alias_folder is None or checkpoint.suffix not in aliases:
        return {}
    target = alias_folder / case.id / aliases[checkpoint.suffix]
    if not target.exists():
        if (size := checkpoint.stat().st_size) > MAX_BYTES:
            message = (
                f"{OPTION} of {bundle.id!r} copies checkpoints of at most {MAX_BYTES:,} bytes, "
                f"{checkpoint.name} has {size:,}"
            )
            raise ConfigError(Problem("too-large", message, bundle.where.get("options")))
        target.parent.mkdir(parents=True)
        shutil.copyfile(checkpoint, target)
        if checkpoint.suffix == ".gguf":  # the tensors that a port must produce
            from parity.suites.tensors.rules import read_references
            from parity.suites.tensors.suite import NAMES_FILE

            detail = case.detail
            names = detail.names if detail.reference is None else read_references(detail)
            text = json.dumps(list(names))
            (target.parent / NAMES_FILE).write_text(text, encoding="utf-8")
    return {"fixture_dir": str(target.parent), "checkpoint": str(target)}
