"""`parity verify` with ports that are run: the demo port by cargo, others by a command."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from parity.lockfile import load
from tests.support.batches import ORDER, LoaderSpec, make_row
from tests.support.bench import Bench, RunResult

ROOT = Path(__file__).parents[2]
BUNDLE = "dataloader-batches-v1"
CASES = (
    "batch_size_3",
    "sequential",
    "sequential_droplast",
    "shuffled_droplast",
    "shuffled_seeded",
)


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


@pytest.mark.cargo
@pytest.mark.slow
class TestDemoPort:
    """The repo's own lockfile, copied, with the repo as the one under test."""

    @pytest.fixture(autouse=True)
    def _copied(self, bench: Bench) -> None:
        shutil.copy(ROOT / "fixtures.lock.yaml", bench.lockfile)
        source = next(b.source for b in load(bench.lockfile).bundles if b.id == BUNDLE)
        (bench.root / source).parent.mkdir(parents=True)
        shutil.copy(ROOT / source, bench.root / source)
        bench.write_lockfile = lambda: None  # type: ignore[method-assign]  # keep this one

    def verify(self, bench: Bench, *words: str) -> RunResult:
        places = ["--repo", str(ROOT), "--lockfile", str(bench.lockfile), "--bundle", BUNDLE]
        return bench.verify(*places, *words, "--offline", ready=False)

    def test_all_five_cases_pass(self, bench: Bench) -> None:
        ran = self.verify(bench)
        assert ran.verdicts == {f"{BUNDLE}/{case}": "pass" for case in CASES}, ran.out
        assert ran.code == 0
        (bundle,) = ran.report["bundles"]
        assert bundle["port"]["package"].startswith("demo-data")
        gaps = {case["id"]: case["measures"]["max_abs"] for case in bundle["cases"]}
        # f32(9) * 0.1 is one ULP beside f32(9 * 0.1): item 9 differs, and is right.
        assert 1.1e-7 < gaps["sequential"] < 1.2e-7
        assert gaps["sequential_droplast"] == 0
        assert not (bench.report / "dumps").exists(), "dumps that pass are not kept"

    def test_the_runs_of_a_case_agree(self, bench: Bench) -> None:
        ran = self.verify(bench, "--repeat", "2", "--case", "shuffled*")
        assert (ran.code, set(ran.verdicts.values())) == (0, {"pass"}), ran.out
        assert len(ran.verdicts) == 2

    def test_an_example_that_is_not_there(self, bench: Bench) -> None:
        text = bench.lockfile.read_text(encoding="utf-8")
        changed = text.replace("example: dataloader_iterate_dump", "example: dataloader_dump")
        assert changed != text
        bench.lockfile.write_text(changed, encoding="utf-8")
        ran = self.verify(bench)
        assert ran.code == 5
        assert set(ran.verdicts.values()) == {"error"}
        for case in CASES:
            (finding,) = ran.list_findings(f"{BUNDLE}/{case}")
            assert finding["code"] == "no-example"
            assert "dataloader_iterate_dump" in json.dumps(finding), "those there are, are told"
            assert finding["where"]["line"] is not None


#: A port that copies the dump that lies ready, and may do more or less than that.
PORT = """
import json, os, pathlib, shutil, sys
case, seed, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
ready = pathlib.Path("dumps") / "loaders" / case
shutil.copytree(ready, out, dirs_exist_ok=True)
"""


@pytest.mark.process
class TestCommand:
    def port(self, bench: Bench, *more: str, cases: dict[str, LoaderSpec] | None = None) -> None:
        bench.add_bundle("loaders", cases)
        code = PORT + "\n".join(textwrap.dedent(part) for part in more)
        (bench.root / "port.py").write_text(code, encoding="utf-8")
        words = json.dumps([sys.executable, "port.py", "{case}", "{seed}", "{output_dir}"])
        bench.entries["loaders"].dump = f"{{command: {words}}}"

    def test_a_port_that_cargo_does_not_build(self, bench: Bench) -> None:
        self.port(bench, 'print(json.dumps({"num_batches": len(list(out.iterdir()))}))')
        ran = bench.verify(ready=False)
        assert (ran.code, set(ran.verdicts.values())) == (0, {"pass"}), ran.out
        assert "port.py" in ran.report["bundles"][0]["port"]["command"]

    def test_the_words_of_the_suite_reach_it(self, bench: Bench) -> None:
        self.port(bench, "print(json.dumps({'num_batches': int(seed)}))")
        ran = bench.verify(ready=False)
        assert ran.code == 1
        (finding,) = ran.list_findings("loaders/mixed")
        assert finding["message"] == "stdout states num_batches = 42, the files have 3"

    @pytest.mark.parametrize("line", ["{", "[1, 2]", "null", "num_batches = 7", ""])
    def test_a_last_line_that_is_no_object_says_nothing(self, bench: Bench, line: str) -> None:
        self.port(bench, f"print({line!r})", cases={"ordered": ORDER})
        assert bench.verify(ready=False).code == 0

    def test_failed_dumps_are_kept_beside_the_report_and_no_others(self, bench: Bench) -> None:
        self.port(bench)
        spoiled = ORDER.make_run()
        spoiled[1][0] = make_row(2)
        bench.write_dump("loaders", "ordered", spoiled)
        ran = bench.verify(ready=False)
        assert ran.code == 1
        kept = bench.report / "dumps"
        assert [path.relative_to(kept).as_posix() for path in sorted(kept.rglob("*.bin"))] == [
            f"loaders/ordered/batch_000{number}.bin" for number in range(3)
        ]
        bench.write_dump("loaders", "ordered", ORDER.make_run())
        assert bench.verify(ready=False).code == 0
        assert not kept.exists(), "those of an earlier run are gone"

    @pytest.mark.skipif(os.name == "nt", reason="there are no pipes in folders")
    def test_what_a_port_leaves_beside_files_does_not_cost_the_report(self, bench: Bench) -> None:
        self.port(
            bench,
            """
            os.mkfifo(out / "pipe")
            (out / "batch_0000.bin").write_bytes(b"")
            with open(out / "huge", "wb") as file:
                file.truncate(2**33)
            (out / "more").mkdir()
            (out / "more" / "log").write_text("x")
            """,
            cases={"ordered": ORDER},
        )
        ran = bench.verify(ready=False)
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["file-unread", "truncated"])
        kept = bench.report / "dumps" / "loaders" / "ordered"
        names = {path.relative_to(kept).as_posix() for path in kept.rglob("*")}
        assert names >= {"batch_0000.bin", "batch_0001.bin", "more/log"}
        assert not names & {"pipe", "huge"}

    @pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
    def test_links_that_a_port_leaves_are_no_dump_and_are_not_followed(self, bench: Bench) -> None:
        self.port(
            bench,
            """
            (out / "batch_0000.bin").unlink()
            (out / "batch_0000.bin").symlink_to(ready.resolve() / "batch_0000.bin")
            (out / "loop").symlink_to(out)
            """,
            cases={"ordered": ORDER},
        )
        ran = bench.verify(ready=False)
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-borrowed"])
        kept = bench.report / "dumps" / "loaders" / "ordered"
        assert sorted(path.name for path in kept.iterdir()) == ["batch_0001.bin", "batch_0002.bin"]

    def test_two_runs_that_differ(self, bench: Bench) -> None:
        """Both are right, an order is not owed, but the port's is not its own twice."""
        self.port(
            bench,
            """
            seen = pathlib.Path("seen-" + case)
            if case == "mixed" and seen.exists():
                (out / "batch_0000.bin").rename(out / "x")
                (out / "batch_0001.bin").rename(out / "batch_0000.bin")
                (out / "x").rename(out / "batch_0001.bin")
            seen.touch()
            """,
        )
        ran = bench.verify("--repeat", "2", "--jobs", "1", ready=False)
        assert ran.code == 1
        assert ran.list_codes("loaders/mixed") == ["nondeterministic"]
        assert "--repeat 2 --case loaders/mixed" in ran.out
        assert ran.verdicts["loaders/ordered"] == "pass"

    def test_two_runs_that_differ_where_the_first_is_wrong(self, bench: Bench) -> None:
        self.port(
            bench,
            """
            seen = pathlib.Path("seen-" + case)
            if case == "ordered" and not seen.exists():
                data = bytearray((out / "batch_0000.bin").read_bytes())
                data[-1] ^= 0x40
                (out / "batch_0000.bin").write_bytes(data)
            seen.touch()
            """,
        )
        ran = bench.verify("--repeat", "3", "--jobs", "1", ready=False)
        found = [
            one["message"]
            for one in ran.list_findings("loaders/ordered")
            if one["code"] == "nondeterministic"
        ]
        (message,) = found
        assert "run 2 is, but run 1 is not, within the tolerance" in message

    def test_a_program_that_is_not_there(self, bench: Bench) -> None:
        self.port(bench, cases={"ordered": ORDER})
        bench.entries["loaders"].dump = '{command: ["no-such-program-xyz", "{case}"]}'
        ran = bench.verify(ready=False)
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-not-started"])

    def test_one_case_that_crashes_leaves_the_others_alone(self, bench: Bench) -> None:
        self.port(bench, 'assert case != "ordered", "boom"')
        ran = bench.verify(ready=False)
        assert ran.code == 5
        assert ran.list_codes("loaders/ordered") == ["dump-exit"]
        assert "AssertionError: boom" in ran.list_findings("loaders/ordered")[0]["message"]
        assert ran.verdicts["loaders/mixed"] == "pass"

    def test_zero_batches_that_the_port_says(self, bench: Bench) -> None:
        few = {"full_dataset_features": [[1.0]] * 3, "full_dataset_labels": [0, 1, 2]}
        self.port(bench, 'print(json.dumps({"num_batches": 0}))')
        bench.add_bundle("none", {"few": LoaderSpec("ORDER", (), drop_last=True)}, **few)
        (bench.dumps / "loaders" / "few").mkdir()
        bench.entries["none"].dump = bench.entries["loaders"].dump
        assert bench.verify("--bundle", "none", ready=False).verdicts == {"none/few": "pass"}
        self.port(bench)
        ran = bench.verify("--bundle", "none", ready=False)
        assert (ran.code, ran.list_codes("none/few")) == (5, ["dump-empty"])
