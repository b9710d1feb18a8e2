"""Fuzz every target for a while, each in a process of its own that may not grow.

`python -m tests.fuzz.run --seconds 120 --target npy`; without atheris, mutation without
coverage takes its place. An input that goes wrong is left under `fuzz-findings/`;
mended, it is kept in `tests/fuzz/found/TARGET/`, which `tests/test_fuzz.py` runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from time import monotonic

try:
    import atheris
except ImportError:
    atheris = None

#: Bytes that a target may map beyond what the interpreter has: nothing is allocated by a
#: number from a header.
ROOM = 512 * 2**20
HANG = 10


def main() -> int:
    """Run one target here, or each of several in a process of its own."""
    words = _words()
    if words.inside:
        return _fuzz(words.target[0], words.seconds, words.out, words.inside)
    names = words.target or _names()
    if unknown := set(names) - set(_names()):
        _say(f"no such target: {', '.join(unknown)}; known: {', '.join(_names())}")
        return 2
    failed = [name for name in names if _child(name, words.seconds, words.out)]
    _say(f"{len(names)} targets, {words.seconds} s each; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", action="append", help="one of them; repeatable")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _names() -> list[str]:
    # Not inside: what is imported before it is instrumented shows no coverage.
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - after atheris instruments imports

    return list(TARGETS)


def _child(name: str, seconds: int, out: Path) -> int:
    _say(f"{name}: {'atheris' if atheris else 'mutation without coverage'}")
    # Atheris ends its process at once, so that the folder is removed from here.
    with tempfile.TemporaryDirectory(prefix="parity-fuzz-", dir=_fast()) as folder:
        command = [sys.executable, "-m", "tests.fuzz.run", "--inside", folder, "--target", name]
        command += ["--seconds", str(seconds), "--out", str(out)]
        try:
            # What hangs where no alarm reaches it is ended from here, too.
            return subprocess.run(command, timeout=seconds + 60, check=False).returncode
        except subprocess.TimeoutExpired:
            _say(f"{name}: did not come to an end")
            return 1


def _fuzz(name: str, seconds: int, out: Path, folder: Path) -> int:
    if atheris is not None:
        with atheris.instrument_imports(include=["parity", "yaml"]):
            from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - after atheris instruments imports
    else:
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - after atheris instruments imports

    (out / name).mkdir(parents=True, exist_ok=True)
    _bound_memory()
    warnings.simplefilter("error")  # a number that overflows unseen is a finding, too
    (place := folder / "case").mkdir()
    how = _mutated if atheris is None else _covered
    return how(TARGETS[name].run, TARGETS[name].inputs(name), place, seconds, out / name)


def _fast() -> str | None:
    """A folder in memory, where there is one: every input is written to a file."""
    return next((one for one in ("/dev/shm",) if Path(one).is_dir()), None)  # noqa: S108 - in memory


def _bound_memory() -> None:
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc").is_dir() else 0
    if pages:
        most = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _covered(run, inputs, place, seconds, out):  # noqa: ANN001, ANN202 - see targets
    corpus = place.parent / "corpus"
    corpus.mkdir()
    for number, data in enumerate(inputs):
        (corpus / f"{number:04}").write_bytes(data)
    flags = [f"-max_total_time={seconds}", f"-timeout={HANG}", "-max_len=16384", "-rss_limit_mb=0"]
    flags += [f"-artifact_prefix={out}/", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], lambda data: run(data, place))
    atheris.Fuzz()
    return 0


def _mutated(run, inputs, place, seconds, out):  # noqa: ANN001, ANN202 - see targets
    from tests.fuzz.mutate import mutants  # noqa: PLC0415 - only without atheris

    end = monotonic() + seconds
    for tries, data in enumerate(mutants(inputs, seconds)):
        started = monotonic()
        try:
            run(data, place)
        except Exception:  # noqa: BLE001 - each is a finding
            traceback.print_exc()
            (out / f"crash-{tries}").write_bytes(data)
            return 1
        if monotonic() - started > HANG:
            (out / f"slow-{tries}").write_bytes(data)
            return 1
        if monotonic() > end:
            _say(f"{tries:,} inputs")
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
