"""Console output for a terminal: moving progress, colours, and lines wrapped at words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from parity.reports.console import RunConsole
from parity.text import sanitize_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import ProgressColumn
    from rich.status import Status

_MIN_WIDTH = 40  # A narrower terminal gets no indentation
_SPINNER = 2  # Columns of a spinner before its text


class TerminalConsole(RunConsole):
    """Console with progress bars and colours; it prints what its base prints."""

    def __init__(self, verbosity: int = 1, console: Console | None = None) -> None:
        super().__init__(verbosity)
        self._console = console or Console(highlight=False)
        self._moving: Progress | Status | None = None

    def print_line(self, text: str = "", style: str = "", styled: str = "") -> None:
        """Print one line above the moving output, its continuations indented as it is."""
        body = text.lstrip(" ")
        indent = len(text) - len(body) if self._console.width >= _MIN_WIDTH else 0
        line = Text(body if indent else text)
        start = max(0, line.plain.find(styled))
        line.stylize(style, start, start + len(styled) if styled else len(line))
        for part in line.wrap(self._console, self._console.width - indent) or [Text()]:
            part.rstrip()
            self._console.print(Text(" " * indent) + part)

    def print_command(self, text: str) -> None:
        """Print a line that the terminal breaks itself, so that it can be copied."""
        self._console.print(Text(text), soft_wrap=True)

    def show_download(self, name: str) -> Callable[[int, int | None], None]:
        """Show a progress bar in bytes, and return its callback."""
        bar = self._make_bar(DownloadColumn())
        task = bar.add_task(f"downloading {sanitize_message(name)}", total=None)

        def progress(done: int, total: int | None) -> None:
            bar.start()
            bar.update(task, completed=done, total=total)

        return progress

    def show_build(self, what: str) -> Callable[[str], None]:
        """Show a spinner with cargo's last message, and return its callback."""
        self.close()
        name = sanitize_message(what)
        status = self._moving = self._console.status(Text(f"building {name}"))
        status.start()
        room = max(self._console.width - len(f"building {name}: ") - _SPINNER, 0)
        return lambda text: status.update(
            Text(f"building {name}: {sanitize_message(text.strip())[:room]}")
        )

    def show_cases(self, name: str, count: int) -> Callable[[], None]:
        """Show a bar that counts programs that have ended, and return its callback."""
        bar = self._make_bar(MofNCompleteColumn())
        bar.start()
        task = bar.add_task(f"running {sanitize_message(name)}", total=count)
        return lambda: bar.advance(task)

    def _make_bar(self, count: ProgressColumn) -> Progress:
        self.close()
        description = TextColumn("{task.description}", markup=False)
        bar = Progress(description, BarColumn(), count, console=self._console, transient=True)
        self._moving = bar
        return bar

    def close(self) -> None:
        """Remove moving output."""
        if self._moving is not None:
            self._moving.stop()
        self._moving = None
