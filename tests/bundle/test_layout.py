"""Read the files of bundles, and reject inconsistent references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parity.bundle import layout
from parity.errors import ReferenceSuspectError

META: dict[str, Any] = {
    "equality_mode": "ORDER",
    "batch_size": 3,
    "shuffle": False,
    "drop_last": True,
    "seed": 42,
    "batch_sizes": [3, 2],
}


def written(folder: Path, meta: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    data = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
    (folder / "meta.json").write_bytes(data)
    return folder


def rejected(folder: Path) -> str:
    with pytest.raises(ReferenceSuspectError) as caught:
        layout.read_loader_case(folder)
    assert caught.value.exit_code == 7
    return str(caught.value)


def test_folders_with_a_meta_json_are_cases_by_name(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        written(tmp_path / name, META)
    (tmp_path / "no-case").mkdir()
    written(tmp_path / "deep" / "deeper", META)
    (tmp_path / "meta.json").write_text("{}", encoding="utf-8")
    assert [path.name for path in layout.find_case_folders(tmp_path)] == ["a", "b", "c"]


def test_bundle_without_a_case_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ReferenceSuspectError) as caught:
        layout.find_case_folders(tmp_path)
    assert str(caught.value) == (
        "[no-cases] the bundle has no case: no folder in it has a meta.json"
    )


def test_a_loader_case_is_read(tmp_path: Path) -> None:
    case = layout.read_loader_case(written(tmp_path / "sequential", META))
    assert (case.name, case.folder) == ("sequential", tmp_path / "sequential")
    assert (case.mode, case.batch_size, case.seed) == ("ORDER", 3, 42)
    assert (case.shuffle, case.drop_last) == (False, True)
    assert case.batch_sizes == (3, 2)
    assert (case.features, case.labels) == (None, None)


def test_full_data_set_is_read(tmp_path: Path) -> None:
    full = {"full_dataset_features": [[1.0], [2.0]], "full_dataset_labels": [0, 1]}
    case = layout.read_loader_case(written(tmp_path / "x", META | full))
    assert (case.features, case.labels) == ([[1.0], [2.0]], [0, 1])


@pytest.mark.parametrize("mode", layout.MODES)
def test_each_mode_is_known(tmp_path: Path, mode: str) -> None:
    case = layout.read_loader_case(written(tmp_path / "x", META | {"equality_mode": mode}))
    assert case.mode == mode


@pytest.mark.parametrize(
    "meta", [META | {"seed": None}, {k: v for k, v in META.items() if k != "seed"}]
)
def test_a_case_may_have_no_seed(tmp_path: Path, meta: dict[str, Any]) -> None:
    assert layout.read_loader_case(written(tmp_path / "x", meta)).seed is None


WRONG: dict[str, tuple[Any, str]] = {
    "mode unknown": (
        {"equality_mode": "order"},
        "equality_mode is 'order'; known: ORDER, SET, SUBSET",
    ),
    "mode a number": ({"equality_mode": 1}, "equality_mode must be str, not 1"),
    "size a boolean": ({"batch_size": True}, "batch_size must be int, not True"),
    "size a float": ({"batch_size": 3.0}, "batch_size must be int, not 3.0"),
    "shuffle a number": ({"shuffle": 0}, "shuffle must be bool, not 0"),
    "drop_last absent": ({"drop_last": None}, "drop_last must be bool, not None"),
    "seed a string": ({"seed": "42"}, "seed must be int, not '42'"),
    "sizes a number": ({"batch_sizes": 3}, "batch_sizes must be list, not 3"),
    "sizes zero": ({"batch_sizes": [3, 0]}, "batch_sizes are not all positive whole numbers"),
    "sizes negative": ({"batch_sizes": [-1]}, "batch_sizes are not all positive whole numbers"),
    "sizes fractions": ({"batch_sizes": [1.5]}, "batch_sizes are not all positive whole numbers"),
    "long": ({"seed": "x" * 1000}, "seed must be int, not '" + "x" * 59),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_meta_json_without_a_required_key_is_rejected(tmp_path: Path, name: str) -> None:
    change, message = WRONG[name]
    folder = written(tmp_path / "x", META | change)
    assert rejected(folder) == f"[reference-malformed] x/meta.json: {message}"


def test_case_without_a_meta_json_is_rejected(tmp_path: Path) -> None:
    assert rejected(tmp_path).startswith("[reference-malformed] ")
    assert "meta.json: cannot be read: " in rejected(tmp_path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not JSON: "),
        (b"{", "is not JSON: "),
        (b"\xff\xfe", "is not JSON: "),
        (b"[" * 100_000, "is not JSON: "),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON: "),
        (b"[]", "contains list, not an object"),
        (b"null", "contains NoneType, not an object"),
    ],
    ids=["empty", "cut", "not-text", "deep", "digits", "list", "null"],
)
def test_meta_json_that_is_not_an_object_is_rejected(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    message = rejected(written(tmp_path / "x", data))
    assert message.startswith(f"[reference-malformed] x/meta.json: {reason}")


def test_a_meta_json_of_any_size_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MAX_JSON", 10)
    assert rejected(written(tmp_path / "x", META)).endswith("meta.json: larger than 10 bytes")


def test_batch_files_are_found_by_number(tmp_path: Path) -> None:
    for name in ("batch_0010.bin", "batch_0002.bin", "batch_123456.bin"):
        (tmp_path / name).touch()
    assert list(layout.find_batch_files(tmp_path)) == [2, 10, 123456]
    assert layout.find_batch_files(tmp_path)[2] == tmp_path / "batch_0002.bin"


@pytest.mark.parametrize(
    "name",
    ["batch_1.bin", "batch_0001.bin.tmp", "Batch_0001.bin", "batch_-001.bin", "xbatch_0001.bin",
     "batch_0001", "batch_1234567890.bin", "batch_\u0660\u0660\u0660\u0661.bin"],
)  # fmt: skip
def test_other_names_are_not_batch_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert layout.find_batch_files(tmp_path) == {}


def test_folder_is_not_a_batch_file(tmp_path: Path) -> None:
    (tmp_path / "batch_0000.bin").mkdir()
    assert layout.find_batch_files(tmp_path) == {}
    assert list(layout.find_misnamed_batches(tmp_path).values()) == [0]


@pytest.mark.parametrize(
    "name",
    ["batch_1.bin", "batch_001.bin", "batch_00001.bin", "Batch_0001.bin", "batch_0001.BIN",
     "batch-0001.bin", "batch0001.bin", "batch 1.bin", "batch.1.bin", "batch_-001.bin"],
)  # fmt: skip
def test_misnamed_batch_file_is_reported_with_its_number(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (tmp_path / "batch_0000.bin").touch()
    assert layout.find_misnamed_batches(tmp_path) == {tmp_path / name: 1}


@pytest.mark.parametrize(
    "name",
    ["batch_0001.bin", "batch_12345.bin", "batch_0001.bin.tmp", "xbatch_0001.bin", "batch_0001",
     "batch_0001.json", "batch_0001_labels.bin", "batch.bin", "README", ".DS_Store", "meta.json",
     "batches.bin", "batch_0001 (copy).bin", ".batch_0001.bin.swp"],
)  # fmt: skip
def test_other_names_are_not_misnamed_batch_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert layout.find_misnamed_batches(tmp_path) == {}
