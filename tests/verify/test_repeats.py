"""Two runs of one case that differ: by how much, where most, and whether both are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parity.tensors.bin import encode_batch, encode_tensor
from parity.verify.evaluate import find_differences
from parity.verify.execute import format_rerun_command
from parity.verify.options import VerifyOptions

OLD = np.arange(6, dtype=np.float32).reshape(2, 3)
NEW = OLD.copy()
OLD[1, 2], NEW[1, 2] = 5.1, 5.6
NEW[0, 1] = np.nextafter(np.float32(1), np.float32(2))
END = "within the tolerance; the port is not deterministic (--repeat)"
MEASURED = (
    "2 of 6 elements differ between two runs, by at most 0.5, 1,048,576 ULP; "
    "worst at [1, 2]: 5.1 in run 1, 5.6 in run 2"
)
#: File, content of both runs, and the beginning of the message.
PAIRS: dict[str, tuple[str, bytes, bytes | None, str]] = {
    "a tensor": ("w.bin", encode_tensor(OLD), encode_tensor(NEW), f"w.bin {MEASURED}"),
    "a batch": ("batch_0000.bin", encode_batch([OLD[:, 0], OLD]), encode_batch([OLD[:, 0], NEW]),
        f"batch_0000.bin #1: {MEASURED}"),
    "another shape": ("w.bin", encode_tensor(OLD), encode_tensor(OLD.T.copy()),
        "w.bin differs between run 1 and run 2 of the same case"),
    "no tensor": ("log.txt", b"a", b"b",
        "log.txt differs between run 1 and run 2 of the same case"),
    "in one run": ("w.bin", encode_tensor(OLD), None, "w.bin was written in only one of two runs"),
}  # fmt: skip


VERDICTS = {
    (True, True): "both runs are",
    (True, False): "run 1 is, but run 2 is not,",
    (False, True): "run 2 is, but run 1 is not,",
    (False, False): "neither run is",
}


@pytest.mark.parametrize("right", VERDICTS)
@pytest.mark.parametrize("name", PAIRS)
def test_the_difference_is_measured(name: str, right: tuple[bool, bool], tmp_path: Path) -> None:
    file, first, again, text = PAIRS[name]
    for run, data in (("1", first), ("2", again)):
        (tmp_path / run).mkdir()
        (tmp_path / run / "equal.bin").write_bytes(b"x")
        if data is not None:
            (tmp_path / run / file).write_bytes(data)
    (found,) = find_differences(tmp_path / "1", tmp_path / "2", 2, right)
    assert found.message == f"{text}; {VERDICTS[right]} {END}"
    assert (found.code, found.level) == ("nondeterministic", "error")


def test_timings_in_json_may_differ_and_further_files_are_counted(tmp_path: Path) -> None:
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "time.json").write_text(run)
    assert find_differences(tmp_path / "1", tmp_path / "2", 2, (True, True)) == []
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "1" / name).write_text("x")
    (found,) = find_differences(tmp_path / "1", tmp_path / "2", 2, (True, True))
    assert "a.txt was written in only one of two runs; 2 more files differ;" in found.message


@pytest.mark.parametrize(("repeat", "words"), [(1, []), (3, ["--repeat", "3"])])
def test_the_command_of_a_run_has_its_repeats(repeat: int, words: list[str]) -> None:
    options = VerifyOptions(repo=Path(), lockfile=Path("fixtures.lock.yaml"), repeat=repeat)
    command = format_rerun_command(options).split()
    assert [word for word in command if word in ("--repeat", "3")] == words
