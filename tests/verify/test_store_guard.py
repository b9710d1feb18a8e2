"""A port that changes the references is told on; one that leaves them alone is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.verify import store_guard

if TYPE_CHECKING:
    from pathlib import Path


def tree(root: Path) -> Path:
    (root / "case").mkdir(parents=True)
    (root / "case" / "w.bin").write_bytes(b"right")
    return root


def test_an_untouched_tree_is_no_finding(tmp_path: Path) -> None:
    root = tree(tmp_path)
    assert store_guard.find_changes(store_guard.read_state(root), root) is None


def test_a_changed_a_new_and_a_lost_file_are_found(tmp_path: Path) -> None:
    root = tree(tmp_path)
    before = store_guard.read_state(root)
    (root / "case" / "w.bin").write_bytes(b"wrong")
    found = store_guard.find_changes(before, root)
    assert found is not None
    assert (found.code, found.kind) == ("reference-touched", "integrity")
    assert "first case/w.bin; no verdict of this run counts" in found.message
    before = store_guard.read_state(root)
    (root / "more").write_bytes(b"")
    assert store_guard.find_changes(before, root) is not None
    before = store_guard.read_state(root)
    (root / "more").unlink()
    assert store_guard.find_changes(before, root) is not None
