"""Turn errors into one line each and an exit code; no other module exits."""

from __future__ import annotations

import os
import signal
import sys

#: A fault of this program (sysexits' EX_SOFTWARE); no verdict has this code.
FAULT = 70
_INTERRUPTED = 130
#: The reader of our output has gone (`… | head`): the verdict was not printed completely.
_BROKEN_PIPE = 141
_MAX_LENGTH = 2000


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A log in another encoding must not lose the verdict.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # real streams
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # children are stopped as for Ctrl-C
            signal.signal(getattr(signal, name), _interrupt)
    args = sys.argv[1:]
    if not _asks_for_help(args):
        from parity.port import process

        process.claim_orphans()
    sys.exit(run_command_line(args))


def _asks_for_help(args: list[str]) -> bool:
    return args in (["-h"], ["--help"])


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def run_command_line(args: list[str]) -> int:
    """Return the exit code of one command line; only argparse's own exits are raised."""
    if _asks_for_help(args):
        from parity.cli.usage import format_help

        print(format_help(), end="")  # noqa: T201 - this is what prints
        return 0
    return _run_guarded(args)


def _run_guarded(args: list[str]) -> int:
    from parity.cli.parser import run
    from parity.errors import ParityError

    try:
        return run(args)
    except ParityError as error:
        from parity.reports.console import print_error

        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201 - this is what prints
        return _INTERRUPTED
    except BrokenPipeError:
        # Else the interpreter would complain once more while it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:
        from parity.text import sanitize

        prefix = f"{error.filename}: " if error.filename else ""
        text = sanitize(f"error[system] {prefix}{error.strerror or error}", _MAX_LENGTH)
        print(text, file=sys.stderr)  # noqa: T201 - this is what prints
        return 2
    except Exception as error:  # noqa: BLE001 - the boundary
        return _report_missing_library(error) if _is_missing_library(error) else _report_fault()


def _is_missing_library(error: Exception) -> bool:
    """Return whether a third-party library is not installed."""
    name = getattr(error, "name", None) or "parity"
    return isinstance(error, ModuleNotFoundError) and name.split(".")[0] != "parity"


def _report_missing_library(error: Exception) -> int:
    text = f"error[missing-library] {error}: `pip install .` in a clone of parity-action"
    print(f"{text} installs everything that `parity` needs", file=sys.stderr)  # noqa: T201 - this is what prints
    return 2


def _report_fault() -> int:
    import traceback

    from parity.text import sanitize

    lines = traceback.format_exc().splitlines()
    lines += ["this is a bug in parity-action; please report it with the lines above"]
    for line in lines:
        # An exception's message may be foreign text.
        print(sanitize(line, _MAX_LENGTH), file=sys.stderr)  # noqa: T201 - this is what prints
    return FAULT


if __name__ == "__main__":
    main()
