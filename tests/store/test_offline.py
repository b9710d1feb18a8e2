"""Without a network, a run lists all missing bundles at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.__main__ import run_command_line
from parity.store import disk
from parity.store.fetch import describe_misses
from parity.store.store import Store
from tests.support.bundles import write_lockfile
from tests.support.fetching import DATA, compute_sha256, make_bundle


def lockfile(folder: Path) -> Path:
    (folder / "b.tar").write_bytes(DATA)
    locked = {"sha256": f"sha256:{compute_sha256(DATA)}"}
    one, two, three = ({"sha256": f"sha256:{str(n) * 64}"} for n in (1, 2, 3))
    mirrors = ["https://m.org/{sha256}"]
    return write_lockfile(folder, {
        "gone-one": {"source": "https://x.org/a?sig=canary", "mirrors": mirrors,
            "locked": {**one, "size": 1000}},
        "here": {"source": "b.tar", "locked": locked},
        "gone-two": {"source": "hf://o/r@main/b", "locked": {**two, "size": 234}},
        "gone-three": {"source": "https://x.org/c", "locked": three},
    })  # fmt: skip


WANTED = f"""\
3 of 4 bundles not cached, and --offline is set; 1,234 bytes, and \
1 bundle without a locked size, would be downloaded
  gone-one  1,000 bytes
    https://x.org/a
    https://m.org/{"1" * 64}
  gone-two  234 bytes
    hf://o/r@main/b
  gone-three  size not locked
    https://x.org/c
"""


@pytest.mark.usefixtures("store")
def test_fetch_lists_all_missing_bundles_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["fetch", "--offline", "--lockfile", str(lockfile(tmp_path))]) == 3

    said = capsys.readouterr()
    assert said.out.startswith(WANTED)
    assert "here: downloaded, checked, unpacked" in said.out
    assert said.err.count("error[offline-miss]") == 3


@pytest.mark.usefixtures("store")
def test_verify_lists_all_missing_bundles_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "--offline", "--lockfile", str(lockfile(tmp_path)), "--dumps", str(tmp_path)]

    code = run_command_line(words)

    assert WANTED in capsys.readouterr().out
    assert code != 0


def test_no_misses_without_a_missing_bundle(store: Store, tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(DATA)
    web = make_bundle("https://x.org/b.tar")
    local = make_bundle("b.tar")

    assert describe_misses(store.paths, [web, local])[0].startswith("1 of 2 bundles not cached")
    store.fetch_tree(local, lockfile_dir=tmp_path)
    assert describe_misses(store.paths, [web, local]) == []
    disk.remove(store.paths.locate_blob(compute_sha256(DATA)))
    assert describe_misses(store.paths, [web, local]) == []  # its tree is there
    disk.remove(store.paths.locate_record(compute_sha256(DATA)))
    assert len(describe_misses(store.paths, [web, local])) == 3
