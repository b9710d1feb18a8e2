"""The only place that exits: errors become a line each and an exit code."""

from __future__ import annotations

import os
import signal
import sys

#: A fault of this program (sysexits' EX_SOFTWARE), told apart from every verdict.
FAULT = 70
_INTERRUPTED = 130
#: Whoever read our output has gone (`… | head`); the verdict was not told to its end.
_UNHEARD = 141
_LONGEST = 2000


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A log of another encoding must not cost the verdict.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # real streams
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # children are ended as for Ctrl-C
            signal.signal(getattr(signal, name), _interrupt)
    sys.exit(code_of(sys.argv[1:]))


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def code_of(words: list[str]) -> int:
    """Exit code of one command line; nothing but argparse's own exits is raised."""
    if words in (["-h"], ["--help"]):
        from parity.usage import help_text

        print(help_text(), end="")  # noqa: T201 - this is what prints
        return 0
    return _carried_out(words)


def _carried_out(words: list[str]) -> int:
    from parity.cli import run
    from parity.errors import ParityError

    try:
        return run(words)
    except ParityError as error:
        from parity.reports.console import tell_error

        tell_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201 - this is what prints
        return _INTERRUPTED
    except BrokenPipeError:
        # Else the interpreter would complain once more while it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNHEARD
    except OSError as error:
        from parity.safetext import safe

        place = f"{error.filename}: " if error.filename else ""
        text = safe(f"error[system] {place}{error.strerror or error}", _LONGEST)
        print(text, file=sys.stderr)  # noqa: T201
        return 2
    except Exception as error:  # noqa: BLE001 - the boundary
        return _missing(error) if _is_missing(error) else _fault()


def _is_missing(error: Exception) -> bool:
    """Whether a library of others is not installed."""
    name = getattr(error, "name", None) or "parity"
    return isinstance(error, ModuleNotFoundError) and name.split(".")[0] != "parity"


def _missing(error: Exception) -> int:
    text = f"error[missing-library] {error}: `pip install .` in a clone of parity-action"
    print(f"{text} brings all that `parity` needs", file=sys.stderr)  # noqa: T201
    return 2


def _fault() -> int:
    import traceback

    from parity.safetext import safe

    lines = traceback.format_exc().splitlines()
    lines += ["this is a fault of parity-action, please report it with the lines above"]
    for line in lines:
        # What an exception says may be foreign text.
        print(safe(line, _LONGEST), file=sys.stderr)  # noqa: T201 - this is what prints
    return FAULT


if __name__ == "__main__":
    main()
