"""`parity verify` from the words typed to exit code and report, on dumps that lie ready."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.batches import ORDER, SET, LoaderSpec, make_row, make_run, write_case
from tests.support.bench import Bench

posix = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    made = Bench(tmp_path, capsys)
    made.add_bundle("loaders")
    return made


def spoil(bench: Bench, bundle: str = "loaders") -> None:
    """Item 2 comes twice, item 4 never."""
    spoiled = ORDER.make_run()
    spoiled[1][0] = make_row(2)
    bench.write_dump(bundle, "ordered", spoiled)


class TestGreen:
    def test_all_cases_pass(self, bench: Bench) -> None:
        ran = bench.verify()
        assert ran.code == 0
        assert ran.verdicts == dict.fromkeys(
            ("loaders/mixed", "loaders/ordered", "loaders/part"), "pass"
        )
        assert ran.out.splitlines()[-1] == "3 cases: 3 pass (exit 0)"

    def test_a_second_run_finds_the_bundle_in_the_store(self, bench: Bench) -> None:
        assert "loaders: downloaded, checked, unpacked" in bench.verify("-v").out
        assert "loaders: in the store" in bench.verify("-v").out

    def test_report_json_has_the_whole_story(self, bench: Bench) -> None:
        report = bench.verify().report
        assert set(report) == {
            "schema",
            "tool",
            "exit_code",
            "failure_kind",
            "lockfile",
            "environment",
            "seconds",
            "findings",
            "bundles",
        }
        assert (report["schema"], report["exit_code"], report["failure_kind"]) == (1, 0, None)
        assert report["environment"].keys() >= {"python", "numpy", "system", "machine"}
        (bundle,) = report["bundles"]
        assert bundle["sha256"] == bench.entries["loaders"].sha256
        assert len(bundle["tree"]) == 64
        assert bundle["port"] == {"dumps": bench.dumps.as_posix()}
        case = bundle["cases"][1]
        assert (case["id"], case["verdict"], case["compared"]) == ("ordered", "pass", 50)
        assert case["measures"] == {"batches": 3, "items": 10, "max_abs": 0.0}
        assert case["seconds"].keys() >= {"compare", "dump"}
        assert f"--dumps {bench.dumps.as_posix()}" in case["command"]
        assert case["command"].endswith("--case loaders/ordered")

    def test_a_warning_is_green(self, bench: Bench) -> None:
        bench.write_dump("loaders", "part", make_run((0, 1, 2, 3), (4, 5, 6, 8)))
        ran = bench.verify()
        assert (ran.code, ran.verdicts["loaders/part"]) == (0, "pass")
        assert ran.list_codes("loaders/part") == ["not-shuffled"]


class TestExitOne:
    def test_a_dump_that_differs(self, bench: Bench) -> None:
        spoil(bench)
        ran = bench.verify()
        assert (ran.code, ran.report["failure_kind"]) == (1, "mismatch")
        assert ran.verdicts == {
            "loaders/mixed": "pass",
            "loaders/ordered": "fail",
            "loaders/part": "pass",
        }
        assert ran.list_codes("loaders/ordered") == ["item-twice", "item-missing"]
        assert "item 4 was not delivered (expected in batch 1 row 0)" in ran.out

    def test_nan_everywhere(self, bench: Bench) -> None:
        spoiled = ORDER.make_run()
        for each in (each for rows in spoiled for each in rows):
            each.features = [float("nan")] * 4
        bench.write_dump("loaders", "ordered", spoiled)
        assert bench.verify().code == 1

    def test_a_warning_where_warnings_fail(self, bench: Bench) -> None:
        bench.write_dump("loaders", "part", make_run((0, 1, 2, 3), (4, 5, 6, 8)))
        ran = bench.verify("--fail-on", "warning")
        assert ran.code == 1
        assert "warnings fail this run" in ran.out

    def test_a_bound_that_the_lockfile_tightens(self, bench: Bench) -> None:
        beside = ORDER.make_run()
        beside[0][0].features[1] = 1.0000001
        bench.write_dump("loaders", "ordered", beside)
        assert bench.verify().code == 0
        bench.entries["loaders"].more = "    bounds: {ordered: {max_abs: 1e-8}}\n"
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders/ordered")) == (1, ["values"])
        bench.entries["loaders"].more = "    bounds: {ordered: {exact: true}}\n"
        assert bench.verify().code == 1


class TestKnownFailures:
    def known(self, bench: Bench, text: str) -> None:
        bench.entries["loaders"].more = f"    known-failures: {{{text}}}\n"

    def test_what_is_known_is_green_and_reported(self, bench: Bench) -> None:
        spoil(bench)
        self.known(bench, '"ordered": "sampler: 12"')
        ran = bench.verify()
        assert (ran.code, ran.verdicts["loaders/ordered"]) == (0, "known-failure")
        assert {f["level"] for f in ran.list_findings("loaders/ordered")} == {"notice"}
        assert "sampler: 12" in ran.out

    def test_one_code_allows_that_code_alone(self, bench: Bench) -> None:
        spoil(bench)
        self.known(bench, '"ordered:item-twice": "sampler"')
        assert bench.verify().code == 1

    def test_what_passes_is_red(self, bench: Bench) -> None:
        self.known(bench, '"ordered": "sampler"')
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders/ordered")) == (1, ["known-failure-passes"])

    def test_a_star_that_shows_nowhere_is_red(self, bench: Bench) -> None:
        self.known(bench, '"*:label": "labels"')
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders")) == (1, ["known-failure-passes"])

    @pytest.mark.parametrize("text", ['"ordred": "x"', '"ordered:no-such-code": "x"'])
    def test_what_names_nothing_ends_with_2(self, bench: Bench, text: str) -> None:
        self.known(bench, text)
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders")) == (2, ["names-nothing"])

    def test_dump_errors_are_covered(self, bench: Bench) -> None:
        (bench.dumps / "loaders" / "ordered" / "batch_0000.bin").write_bytes(b"")
        self.known(bench, '"ordered:truncated": "the writer dies"')
        assert bench.verify().code == 0

    def test_a_suspect_reference_is_never_allowed(self, bench: Bench) -> None:
        bench.entries.clear()
        bench.add_bundle("loaders", {"ordered": ORDER}, full_dataset_labels=[0] * 10)
        self.known(bench, '"*": "all of it"')
        assert bench.verify().code == 7


class TestExitTwo:
    def test_without_a_lockfile(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        bench = Bench(tmp_path, capsys)
        bench.write_lockfile = lambda: None  # type: ignore[method-assign]  # there is none
        ran = bench.verify()
        assert (ran.code, ran.report) == (2, {})
        assert "error[lockfile-absent] the lockfile" in ran.err

    def test_an_entry_that_is_not_locked(self, bench: Bench) -> None:
        bench.write_lockfile()
        text = bench.lockfile.read_text()
        bench.lockfile.write_text("".join(text.partition("    locked:")[:1]))
        bench.write_lockfile = lambda: None  # type: ignore[method-assign]  # keep this one
        ran = bench.verify()
        assert ran.code == 2
        assert f"`parity bump --repo {bench.root} loaders`" in ran.err

    @pytest.mark.parametrize("glob", ["nothing/*", "loaders/nothing", "!loaders/nothing"])
    def test_a_glob_that_matches_nothing(self, bench: Bench, glob: str) -> None:
        ran = bench.verify("--case", glob)
        assert ran.code == 2
        assert repr(glob) in ran.err

    def test_a_bundle_that_is_not_listed(self, bench: Bench) -> None:
        ran = bench.verify("--bundle", "readers")
        assert ran.code == 2
        assert "unknown bundle 'readers'" in ran.err

    def test_a_bound_that_the_lockfile_loosens(self, bench: Bench) -> None:
        bench.entries["loaders"].more = "    bounds: {ordered: {max_abs: 0.1}}\n"
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders")) == (2, ["bounds-loosened"])
        assert "max_abs 0.1 is looser than 1e-06" in ran.list_findings("loaders")[0]["message"]

    def test_bounds_of_a_case_that_is_not_there(self, bench: Bench) -> None:
        bench.entries["loaders"].more = "    bounds: {orderd: {max_abs: 1e-9}}\n"
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders")) == (2, ["names-nothing"])

    def test_an_option_that_the_suite_lacks(self, bench: Bench) -> None:
        bench.entries["loaders"].more = "    options: {order: free}\n"
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders")) == (2, ["no-such-option"])


class TestExitThree:
    def test_a_source_that_is_not_there(self, bench: Bench) -> None:
        (bench.root / "loaders.tar").unlink()
        ran = bench.verify()
        assert (ran.code, ran.report["failure_kind"]) == (3, "fetch")
        assert ran.verdicts == {}
        (finding,) = ran.list_findings("loaders")
        assert "loaders.tar" in " ".join([finding["message"], *finding["details"]])

    def test_offline_and_not_in_the_store(self, bench: Bench) -> None:
        bench.entries["loaders"].source = "https://example.invalid/loaders.tar"
        assert bench.verify("--offline").code == 3

    def test_offline_and_in_the_store(self, bench: Bench) -> None:
        assert bench.verify().code == 0
        (bench.root / "loaders.tar").unlink()
        bench.entries["loaders"].source = "https://example.invalid/loaders.tar"
        assert bench.verify("--offline").code == 0


class TestExitFour:
    def kept(self, bench: Bench, change: Callable[[bytes], bytes]) -> tuple[int, list[str]]:
        tar = bench.root / "loaders.tar"
        size = tar.stat().st_size
        bench.entries["loaders"].locked = f", size: {size}"
        tar.write_bytes(change(tar.read_bytes()))
        ran = bench.verify()
        assert ran.report["failure_kind"] == "integrity"
        assert ran.verdicts == {}
        return ran.code, ran.list_codes("loaders")

    def test_one_bit_of_another_kind(self, bench: Bench) -> None:
        code, _ = self.kept(bench, lambda data: bytes([data[0] ^ 1]) + data[1:])
        assert code == 4

    def test_a_tar_cut_short(self, bench: Bench) -> None:
        assert self.kept(bench, lambda data: data[:-512])[0] == 4

    def test_a_tar_too_long(self, bench: Bench) -> None:
        assert self.kept(bench, lambda data: data + bytes(512))[0] == 4

    def test_a_tree_that_is_not_the_locked_one(self, bench: Bench) -> None:
        bench.entries["loaders"].locked = f', tree: "h1:{"0" * 64}"'
        assert bench.verify().code == 4
        bench.entries["loaders"].locked = ""
        assert bench.verify().code == 0
        bench.entries["loaders"].locked = f', tree: "h1:{"0" * 64}"'
        assert bench.verify().code == 4, "a warm store must not hide it"


HUGE = struct.pack("<2I", 2, 0xFFFFFFFF) + bytes(64)


class TestExitFive:
    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (lambda _: b"", "truncated"),
            (lambda data: data[:-1], "truncated"),
            (lambda data: data + b"\0", "trailing-bytes"),
            (lambda _: HUGE, "bad-header"),
            (lambda _: struct.pack("<5I", 2, 3, 2**31, 2**31, 16), "bad-header"),
        ],
        ids=["empty", "cut short", "trailing bytes", "4 billion dims", "overflow"],
    )
    def test_a_dump_file_that_cannot_be_read(
        self, bench: Bench, change: Callable[[bytes], bytes], code: str
    ) -> None:
        path = bench.dumps / "loaders" / "ordered" / "batch_0001.bin"
        path.write_bytes(change(path.read_bytes()))
        ran = bench.verify()
        assert (ran.code, ran.report["failure_kind"]) == (5, "dump")
        assert ran.verdicts["loaders/ordered"] == "error"
        assert ran.list_codes("loaders/ordered") == [code]

    def test_no_dump_of_a_case(self, bench: Bench) -> None:
        for path in (folder := bench.dumps / "loaders" / "ordered").iterdir():
            path.unlink()
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-empty"])
        folder.rmdir()
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-missing"])

    @posix
    @pytest.mark.parametrize("whole", [True, False], ids=["folder", "files"])
    def test_links_to_the_reference_prove_nothing(self, bench: Bench, *, whole: bool) -> None:
        reference = bench.root / "trees" / "loaders" / "ordered"
        folder = bench.dumps / "loaders" / "ordered"
        for path in folder.iterdir():
            path.unlink()
            if not whole:
                path.symlink_to(reference / path.name)
        if whole:
            folder.rmdir()
            # The store's own tree, found by the digest that a first run reports.
            store = bench.root / "store"
            bench.verify()
            (tree,) = store.rglob("ordered")
            folder.symlink_to(tree, target_is_directory=True)
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-borrowed"])

    @posix
    @pytest.mark.parametrize("name", ["ordered", "mixed"])
    def test_hard_links_to_a_reference_prove_nothing(self, bench: Bench, name: str) -> None:
        bench.verify()
        (tree,) = (bench.root / "store").rglob(name)
        path = bench.dumps / "loaders" / "ordered" / "batch_0001.bin"
        path.unlink()
        path.hardlink_to(tree / path.name)
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-borrowed"])


class TestExitSix:
    def test_fewer_cases_than_are_requested(self, bench: Bench) -> None:
        assert bench.verify("--min-cases", "3").code == 0
        ran = bench.verify("--min-cases", "4")
        assert (ran.code, ran.report["failure_kind"]) == (6, "empty")
        assert ran.list_codes() == ["nothing-verified"]
        assert "3 cases were verified, fewer than 4 (--min-cases)" in ran.out

    def test_cases_that_cannot_be_judged_do_not_count(self, bench: Bench) -> None:
        (bench.dumps / "loaders" / "ordered" / "batch_0001.bin").write_bytes(b"")
        ran = bench.verify("--min-cases", "3")
        assert ran.code == 5
        assert ran.list_codes() == ["nothing-verified"]

    def test_all_cases_excluded(self, bench: Bench) -> None:
        assert bench.verify("--case", "!loaders/*").code == 6


class TestExitSeven:
    def test_a_bundle_without_a_case(self, bench: Bench) -> None:
        tree = bench.root / "trees" / "bare"
        tree.mkdir()
        (tree / "provenance.json").write_text("{}")
        bench.pack_bundle("bare")
        ran = bench.verify("--bundle", "bare")
        assert (ran.code, ran.report["failure_kind"]) == (7, "reference")
        assert ran.list_codes("bare") == ["no-cases"]

    def test_a_meta_json_that_cannot_be_read(self, bench: Bench) -> None:
        write_case(bench.root / "trees" / "loaders" / "ordered", ORDER)
        (bench.root / "trees" / "loaders" / "ordered" / "meta.json").write_text("{")
        bench.pack_bundle("loaders")
        ran = bench.verify()
        assert (ran.code, ran.list_codes("loaders")) == (7, ["reference-malformed"])
        assert ran.verdicts == {}

    def test_a_case_whose_batches_contradict_it_leaves_the_others_alone(self, bench: Bench) -> None:
        (bench.root / "trees" / "loaders" / "ordered" / "batch_0002.bin").unlink()
        bench.pack_bundle("loaders")
        ran = bench.verify()
        assert ran.code == 7
        assert ran.verdicts == {
            "loaders/mixed": "pass",
            "loaders/ordered": "error",
            "loaders/part": "pass",
        }


class TestNothingDue:
    """A case of zero batches: a ready dump cannot say that it wrote none on purpose."""

    def test_an_empty_ready_dump_proves_nothing(self, bench: Bench) -> None:
        empty = LoaderSpec("ORDER", (), drop_last=True)
        few = {"full_dataset_features": [[1.0]] * 3, "full_dataset_labels": [0, 1, 2]}
        bench.entries.clear()
        bench.add_bundle("none", {"few": empty}, **few)
        ran = bench.verify()
        assert (ran.code, ran.list_codes("none/few")) == (5, ["dump-empty"])
        assert '"num_batches": 0' in ran.list_findings("none/few")[0]["message"]


class TestSeveralBundles:
    @pytest.fixture
    def two(self, bench: Bench) -> Bench:
        bench.add_bundle("others", {"ordered": ORDER, "mixed": SET})
        return bench

    def test_error_of_one_does_not_stop_the_other(self, two: Bench) -> None:
        (two.root / "loaders.tar").unlink()
        ran = two.verify()
        assert ran.code == 3
        assert ran.verdicts == {"others/mixed": "pass", "others/ordered": "pass"}

    def test_a_wrong_option_of_one_does_not_stop_the_other(self, two: Bench) -> None:
        two.entries["loaders"].more = "    options: {order: free}\n"
        ran = two.verify()
        assert (ran.code, len(ran.verdicts)) == (2, 2)

    def test_the_most_severe_decides(self, two: Bench) -> None:
        """2, 4, 3, 7, 5, 1, 6: from what makes a run worthless to what it merely lacks."""
        spoil(two, "others")
        assert two.verify("--min-cases", "9").code == 1
        (two.dumps / "others" / "mixed" / "batch_0000.bin").write_bytes(b"")
        assert two.verify().code == 5
        (two.root / "trees" / "loaders" / "part" / "batch_0001.bin").unlink()
        two.pack_bundle("loaders")
        assert two.verify().code == 7
        two.entries["gone"] = two.entries["loaders"].__class__("gone.tar", "0" * 64)
        assert two.verify().code == 3
        two.entries["others"].sha256 = "1" * 64
        assert two.verify().code == 4
        two.entries["loaders"].more = "    options: {order: free}\n"
        assert two.verify().code == 2

    def test_only_what_is_requested_is_fetched(self, two: Bench) -> None:
        (two.root / "loaders.tar").unlink()
        assert two.verify("--bundle", "others").code == 0
        assert two.verify("--case", "others/*").code == 0
        assert two.verify("--case", "loaders/ordered").code == 3

    @pytest.mark.parametrize(
        ("globs", "chosen"),
        [
            (["loaders/ordered"], {"loaders/ordered"}),
            (["ordered"], {"loaders/ordered", "others/ordered"}),
            (["*/m*"], {"loaders/mixed", "others/mixed"}),
            (["loaders/*", "!*/mixed"], {"loaders/ordered", "loaders/part"}),
            (["!loaders/*"], {"others/ordered", "others/mixed"}),
            (["!ordered", "!part"], {"loaders/mixed", "others/mixed"}),
        ],
    )
    def test_globs_choose_and_exclude(self, two: Bench, globs: list[str], chosen: set[str]) -> None:
        ran = two.verify(*(word for glob in globs for word in ("--case", glob)))
        assert (ran.code, set(ran.verdicts)) == (0, chosen)


class TestReportDir:
    def test_a_foreign_folder_of_dumps_is_not_cleared(self, bench: Bench) -> None:
        (bench.report / "dumps").mkdir(parents=True)
        (bench.report / "dumps" / "precious").write_text("mine")
        ran = bench.verify()
        assert ran.code == 2
        assert "error[report-dir]" in ran.err
        assert (bench.report / "dumps" / "precious").read_text() == "mine"

    def test_a_file_in_its_place(self, bench: Bench) -> None:
        bench.report.write_text("a file")
        ran = bench.verify()
        assert ran.code == 2
        assert "error[report-dir]" in ran.err

    def test_ready_dumps_are_not_copied(self, bench: Bench) -> None:
        spoil(bench)
        bench.verify()
        assert sorted(path.name for path in bench.report.iterdir()) == ["report.json"]

    def test_an_earlier_report_is_replaced(self, bench: Bench) -> None:
        spoil(bench)
        assert bench.verify().report["exit_code"] == 1
        bench.write_dump("loaders", "ordered", ORDER.make_run())
        assert bench.verify().report["exit_code"] == 0


def test_a_port_s_wildest_values_do_not_break_the_report(bench: Bench) -> None:
    wild = ORDER.make_run()
    wild[0][0].features = [float("inf"), float("-inf"), float("nan"), 3e38]
    wild[0][1].label = float("inf")
    wild[1][0].features = [3e38] * 4
    bench.write_dump("loaders", "ordered", wild)
    bench.write_dump("loaders", "mixed", make_run([0], [0]))
    ran = bench.verify()
    assert ran.code == 1
    assert ran.list_codes("loaders/ordered") == ["nan", "values", "label"]
