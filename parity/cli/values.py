"""Parsers of the values of arguments; each raises ``ArgumentTypeError`` with what is wrong."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from pathlib import Path

from parity.text import resolve_path
from parity.verify.options import REPORT_FORMATS

#: Limits of numbers on the command line: digits of a count, seconds of a deadline.
_MAX_DIGITS, _MAX_SECONDS = 9, 1e9
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,12})([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_AGE = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_path(text: str) -> Path:
    """Return an absolute path."""
    if not text:
        raise ArgumentTypeError("a path must not be empty")
    return resolve_path(text)


def parse_positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if (value := parse_count(text)) == 0:
        raise ArgumentTypeError("must be at least 1")
    return value


def parse_count(text: str) -> int:
    """Return a whole number: ASCII digits only."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at most {_MAX_DIGITS} digits")
    return int(text)


def parse_formats(text: str) -> tuple[str, ...]:
    """Return the report formats, separated by commas or spaces."""
    names = tuple(text.replace(",", " ").split())
    if unknown := [name for name in names if name not in REPORT_FORMATS]:
        message = f"{', '.join(map(repr, unknown))} is not one of {', '.join(REPORT_FORMATS)}"
        raise ArgumentTypeError(message)
    return names


def parse_seconds(text: str) -> float:
    """Return a positive number of seconds."""
    value = float(text) if _NUMBER.fullmatch(text.strip()) else -1.0
    if not 0 < value < _MAX_SECONDS:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def parse_size(text: str) -> int:
    """Return bytes from a number with K, M, G or T for powers of 1,024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a size such as 500M or 10G")
    return int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))


def parse_age(text: str) -> float:
    """Return seconds from a number with s, m, h, d or w."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not an age such as 12h or 30d")
    return float(match[1]) * _SECONDS[match[2]]
