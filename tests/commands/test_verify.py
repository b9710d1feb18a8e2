"""`parity verify` from the words typed to exit code and report, on dumps that lie ready."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.batches import ORDER, SET, LoaderSpec, make_row, make_run
from tests.support.bench import Bench

posix = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


#: What happens in a repo, or the words of a run.
Step = Callable[[Bench], object] | tuple[str, ...]


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


def known(text: str) -> Step:
    return more(f"known-failures: {{{text}}}")


def more(text: str, bundle: str = "loaders") -> Step:
    """Add a key to the entry of a bundle."""
    return lambda bench: setattr(bench.entries[bundle], "more", f"    {text}\n")


def lock(text: str) -> Step:
    return lambda bench: setattr(bench.entries["loaders"], "locked", text)


def dump(case: str, *batches: Iterable[int]) -> Step:
    return lambda bench: bench.write_dump("loaders", case, make_run(*batches))


def damage(path: str, change: Callable[[bytes], bytes]) -> Step:
    """Change a file of the repo; an archive's size is locked as it was."""

    def step(bench: Bench) -> None:
        file = bench.root / path
        if file.suffix == ".tar":
            bench.entries["loaders"].locked = f", size: {file.stat().st_size}"
        file.write_bytes(change(file.read_bytes()))

    return step


def remove(*paths: str) -> Step:
    return lambda bench: [(bench.root / path).unlink() for path in paths].clear()


def pack(name: str, files: Mapping[str, str] | None = None) -> Step:
    """Pack a bundle again, with these files in it."""

    def step(bench: Bench) -> None:
        tree = bench.root / "trees" / name
        tree.mkdir(exist_ok=True)
        for path, text in (files or {}).items():
            (tree / path).write_text(text)
        bench.pack_bundle(name)

    return step


def move_off(bench: Bench) -> None:
    bench.entries["loaders"].source = "https://example.invalid/loaders.tar"


def spoil_labels(bench: Bench) -> None:
    bench.entries.clear()
    bench.add_bundle("loaders", {"ordered": ORDER}, full_dataset_labels=[0] * 10)


def expect_nothing(bench: Bench) -> None:
    """Make a case of zero batches: a ready dump cannot say that it wrote none on purpose."""
    few = {"full_dataset_features": [[1.0]] * 3, "full_dataset_labels": [0, 1, 2]}
    bench.entries.clear()
    bench.add_bundle("none", {"few": LoaderSpec("ORDER", (), drop_last=True)}, **few)


def dump_nan(bench: Bench) -> None:
    spoiled = ORDER.make_run()
    for each in (each for rows in spoiled for each in rows):
        each.features = [float("nan")] * 4
    bench.write_dump("loaders", "ordered", spoiled)


def dump_beside(bench: Bench) -> None:
    beside = ORDER.make_run()
    beside[0][0].features[1] = 1.0000001
    bench.write_dump("loaders", "ordered", beside)


def dump_wild(bench: Bench) -> None:
    wild = ORDER.make_run()
    wild[0][0].features = [float("inf"), float("-inf"), float("nan"), 3e38]
    wild[0][1].label = float("inf")
    wild[1][0].features = [3e38] * 4
    bench.write_dump("loaders", "ordered", wild)


def use_two(bench: Bench) -> None:
    bench.add_bundle("others", {"ordered": ORDER, "mixed": SET})


def lose_bundle(bench: Bench) -> None:
    bench.entries["gone"] = bench.entries["loaders"].__class__("gone.tar", "0" * 64)


UNSHUFFLED = dump("part", (0, 1, 2, 3), (4, 5, 6, 8))
BATCH = "dumps/loaders/ordered/batch_0001.bin"
BATCHES = [f"dumps/loaders/ordered/batch_000{number}.bin" for number in range(3)]
HUGE = struct.pack("<2I", 2, 0xFFFFFFFF) + bytes(64)
OVERFLOW = struct.pack("<5I", 2, 3, 2**31, 2**31, 16)
ZERO_TREE = f', tree: "h1:{"0" * 64}"'
#: Runs over the bundle `loaders`, whose dumps are right until a step changes one.
SCENES: dict[str, tuple[Step, ...]] = {
    "all cases pass": ((),),
    "a warning": (UNSHUFFLED, (), ("--fail-on", "warning")),
    "a dump that differs": (spoil, ()),
    "NaN everywhere": (dump_nan, ()),
    "a bound that the lockfile tightens": (
        dump_beside, (), more("bounds: {ordered: {max_abs: 1e-8}}"), (),
        more("bounds: {ordered: {exact: true}}"), ()),
    "a known failure": (spoil, known('"ordered": "sampler: 12"'), ()),
    "one code of a known failure": (spoil, known('"ordered:item-twice": "sampler"'), ()),
    "a known failure that passes": (known('"ordered": "sampler"'), ()),
    "a known failure that no case shows": (known('"*:label": "labels"'), ()),
    "known failures that name nothing": (
        known('"ordred": "x"'), (), known('"ordered:no-such-code": "x"'), ()),
    "a dump error that is known": (
        damage(BATCHES[0], lambda _: b""), known('"ordered:truncated": "the writer dies"'), ()),
    "a suspect reference that is known": (spoil_labels, known('"*": "all of it"'), ()),
    "globs of nothing": (
        ("--case", "nothing/*"), ("--case", "loaders/nothing"), ("--case", "!loaders/nothing")),
    "a bundle that is not listed": (("--bundle", "readers"),),
    "a bound that the lockfile loosens": (more("bounds: {ordered: {max_abs: 0.1}}"), ()),
    "a bound of no case": (more("bounds: {orderd: {max_abs: 1e-9}}"), ()),
    "an option that the suite lacks": (more("options: {order: free}"), ()),
    "a source that is not there": (remove("loaders.tar"), ()),
    "offline, in the store and not": (
        move_off, ("--offline",), lambda bench: setattr(bench.entries["loaders"], "source",
        "loaders.tar"), (), remove("loaders.tar"), move_off, ("--offline",)),
    "an archive that is changed": (
        damage("loaders.tar", lambda data: bytes([data[0] ^ 1]) + data[1:]), ()),
    "an archive that is cut": (damage("loaders.tar", lambda data: data[:-512]), ()),
    "an archive that is too long": (damage("loaders.tar", lambda data: data + bytes(512)), ()),
    # A warm store must not hide it.
    "a tree that is not the locked one": (lock(ZERO_TREE), (), lock(""), (), lock(ZERO_TREE), ()),
    "a dump file that is empty": (damage(BATCH, lambda _: b""), ()),
    "a dump file that is cut": (damage(BATCH, lambda data: data[:-1]), ()),
    "a dump file that is too long": (damage(BATCH, lambda data: data + b"\0"), ()),
    "a dump file of 4 billion dimensions": (damage(BATCH, lambda _: HUGE), ()),
    "a dump file that overflows": (damage(BATCH, lambda _: OVERFLOW), ()),
    "no dump of a case": (
        remove(*BATCHES), (), lambda bench: (bench.dumps / "loaders/ordered").rmdir(), ()),
    "fewer cases than are requested": (("--min-cases", "3"), ("--min-cases", "4")),
    "a case that cannot be judged does not count": (
        damage(BATCH, lambda _: b""), ("--min-cases", "3")),
    "all cases excluded": (("--case", "!loaders/*"),),
    "a bundle without a case": (pack("bare", {"provenance.json": "{}"}), ("--bundle", "bare")),
    "a meta.json that cannot be read": (pack("loaders", {"ordered/meta.json": "{"}), ()),
    "a case whose batches contradict it": (
        remove("trees/loaders/ordered/batch_0002.bin"), pack("loaders"), ()),
    "a case of no batch": (expect_nothing, ()),
    "an error of one bundle of two": (use_two, remove("loaders.tar"), ()),
    "a wrong option of one bundle of two": (use_two, more("options: {order: free}"), ()),
    # 1, 5, 7, 3, 4, 2: from what a run merely lacks to what makes it worthless.
    "the most severe decides": (
        use_two, lambda bench: spoil(bench, "others"), ("--min-cases", "9"),
        damage("dumps/others/mixed/batch_0000.bin", lambda _: b""), (),
        remove("trees/loaders/part/batch_0001.bin"), pack("loaders"), (), lose_bundle, (),
        lambda bench: setattr(bench.entries["others"], "sha256", "1" * 64), (),
        more("options: {order: free}"), ()),
    "only what is requested is fetched": (
        use_two, remove("loaders.tar"), ("--bundle", "others"), ("--case", "others/*"),
        ("--case", "loaders/ordered")),
    "globs choose and exclude": (
        use_two, ("--case", "loaders/ordered"), ("--case", "ordered"), ("--case", "*/m*"),
        ("--case", "loaders/*", "--case", "!*/mixed"), ("--case", "!loaders/*"),
        ("--case", "!ordered", "--case", "!part")),
    "a file in place of the report's folder": (
        lambda bench: bench.report.write_text("a file"), ()),
    "an earlier report is replaced": (
        spoil, (), lambda bench: bench.write_dump("loaders", "ordered", ORDER.make_run()), ()),
    "a port's wildest values": (dump_wild, dump("mixed", [0], [0]), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_a_run_ends_with_its_exit_code_and_findings(
    name: str, bench: Bench, golden: Callable[..., None]
) -> None:
    text = ""
    for step in SCENES[name]:
        if not isinstance(step, tuple):
            step(bench)
            continue
        ran = bench.verify(*step)
        text += f"$ parity verify {' '.join(step)}".rstrip() + f"  # exit code {ran.code}\n"
        text += ran.err
        if not ran.report:
            continue
        assert ran.report["exit_code"] == ran.code
        text += f"{ran.out.splitlines()[-1]}; failure kind {ran.report['failure_kind']}\n"
        places = ["", *(one["id"] for one in ran.report["bundles"]), *ran.verdicts]
        for place in places:
            text += f"{place}: {ran.verdicts[place]}\n" if place in ran.verdicts else ""
            text += "".join(
                f"  {place or 'the run'}: {one['level']}[{one['code']}] {one['message']}\n"
                for one in ran.list_findings(place)
            )
        (bench.report / "report.json").unlink()
    golden(text.replace(bench.root.as_posix(), "REPO"))


def test_a_foreign_folder_of_dumps_is_not_cleared(bench: Bench) -> None:
    (bench.report / "dumps").mkdir(parents=True)
    (bench.report / "dumps" / "precious").write_text("mine")
    assert bench.verify().code == 2
    assert (bench.report / "dumps" / "precious").read_text() == "mine"


def test_a_second_run_finds_the_bundle_in_the_store(bench: Bench) -> None:
    assert "loaders: downloaded, checked, unpacked" in bench.verify("-v").out
    assert "loaders: in the store" in bench.verify("-v").out


def test_report_json_has_the_whole_story(bench: Bench) -> None:
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


def test_without_a_lockfile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, capsys)
    bench.write_lockfile = lambda: None  # type: ignore[method-assign]  # there is none
    ran = bench.verify()
    assert (ran.code, ran.report) == (2, {})
    assert "error[lockfile-absent] the lockfile" in ran.err


def test_an_entry_that_is_not_locked(bench: Bench) -> None:
    bench.write_lockfile()
    text = bench.lockfile.read_text()
    bench.lockfile.write_text("".join(text.partition("    locked:")[:1]))
    bench.write_lockfile = lambda: None  # type: ignore[method-assign]  # keep this one
    ran = bench.verify()
    assert ran.code == 2
    assert f"`parity bump --repo {bench.root} loaders`" in ran.err


@posix
@pytest.mark.parametrize("whole", [True, False], ids=["folder", "files"])
def test_links_to_the_reference_prove_nothing(bench: Bench, *, whole: bool) -> None:
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
def test_hard_links_to_a_reference_prove_nothing(bench: Bench, name: str) -> None:
    bench.verify()
    (tree,) = (bench.root / "store").rglob(name)
    path = bench.dumps / "loaders" / "ordered" / "batch_0001.bin"
    path.unlink()
    path.hardlink_to(tree / path.name)
    ran = bench.verify()
    assert (ran.code, ran.list_codes("loaders/ordered")) == (5, ["dump-borrowed"])


def test_ready_dumps_are_not_copied(bench: Bench) -> None:
    spoil(bench)
    bench.verify()
    assert sorted(path.name for path in bench.report.iterdir()) == ["report.json"]
