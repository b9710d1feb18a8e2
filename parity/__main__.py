"""Turn errors into one line each and an exit code; no other module exits."""

from __future__ import annotations

import os
import sys

#: A fault of this program (sysexits' EX_SOFTWARE); no verdict has this code.
FAULT = 70
_INTERRUPTED = 130
#: The reader of our output has gone (`… | head`): the verdict was not printed completely.
_BROKEN_PIPE = 141
_MAX_LENGTH = 2000


def main() -> None:
    """Run the command line of this process."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # A log in another encoding must not lose the verdict.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # real streams
    args = sys.argv[1:]
    if not _asks_for_help(args):
        _prepare_process()
    try:
        code = run_command_line(args)
    except SystemExit as end:  # argparse's own
        code = end.code if isinstance(end.code, int) else 2
    sys.exit(_flush(code))


def _prepare_process() -> None:
    """Set what signals do, and claim the processes that children leave behind."""
    import signal

    from parity.port import process

    # Those that end this program as Ctrl-C does.
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
    ending = [number for name in names if (number := getattr(signal, name, None))]

    def interrupt(_number: int, _frame: object) -> None:
        # Children are stopped within seconds; a second signal must not end that half way.
        for number in ending:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ending:
        signal.signal(number, interrupt)
    if hasattr(signal, "SIGCHLD"):
        # A caller that ignores it would make the system forget how our children ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process.claim_orphans()


def _open_missing_streams() -> None:
    """Replace standard streams that the caller closed, so that no file gets their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - for our life
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - for our life


def _flush(code: int) -> int:
    """Write what is buffered; return ``code``, or another if success cannot be printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            failure = _give_up_output(error, stream.fileno())
            code = code or (failure if stream is sys.stdout else 0)
    return code


def _give_up_output(error: OSError, number: int | None = None) -> int:
    """Discard what cannot be written to a file, by default stdout; return the exit code for it.

    The interpreter would fail once more as it flushes at its end.
    """
    number = sys.stdout.fileno() if number is None else number
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return _BROKEN_PIPE if isinstance(error, BrokenPipeError) else 2


def _print_error(text: str) -> None:
    from contextlib import suppress

    with suppress(OSError):  # no reader, or a full disk; the exit code remains
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is what prints


def _asks_for_help(args: list[str]) -> bool:
    return args in (["-h"], ["--help"])


def run_command_line(args: list[str]) -> int:
    """Return the exit code of one command line; only argparse's own exits are raised."""
    if _asks_for_help(args):
        from parity.cli.usage import format_help

        try:
            sys.stdout.write(format_help())
        except OSError as error:
            return _give_up_output(error)
        return 0
    return _run_guarded(args)


def _run_guarded(args: list[str]) -> int:
    from contextlib import suppress

    from parity.cli.parser import run
    from parity.errors import ParityError

    try:
        return run(args)
    except ParityError as error:
        from parity.reports.console import print_error

        with suppress(OSError):
            print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        _print_error("interrupted")
        return _INTERRUPTED
    except BrokenPipeError as error:
        return _give_up_output(error)
    except OSError as error:
        from parity.text import sanitize

        prefix = f"{error.filename}: " if error.filename else ""
        _print_error(sanitize(f"error[system] {prefix}{error.strerror or error}", _MAX_LENGTH))
        return 2
    except Exception as error:  # noqa: BLE001 - the boundary
        return _report_fault(error)


def _report_fault(error: Exception) -> int:
    name = getattr(error, "name", None) or "parity"
    if isinstance(error, ModuleNotFoundError) and name.split(".")[0] != "parity":
        text = f"error[missing-library] {error}: `pip install .` in a clone of parity-action"
        _print_error(f"{text} installs everything that `parity` needs")
        return 2
    import traceback

    from parity.text import sanitize

    for line in traceback.format_exc().splitlines():
        # An exception's message may be foreign text.
        _print_error(sanitize(line, _MAX_LENGTH))
    _print_error("this is a bug in parity-action; please report it with the lines above")
    return FAULT


if __name__ == "__main__":
    main()
