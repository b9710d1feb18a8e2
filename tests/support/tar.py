"""Make tar archives, member by member, as no packer would write them."""

from __future__ import annotations

BLOCK = 512
END = bytes(2 * BLOCK)


def make_header(
    name: bytes | str = b"a",
    *,
    size: int | bytes = 0,
    flag: bytes = b"0",
    mode: int | bytes = 0o644,
    prefix: bytes = b"",
    magic: bytes = b"ustar\x0000",
    link: bytes = b"",
    checksum: bytes | None = None,
) -> bytes:
    """Return one block; numbers given as bytes are written unchanged."""
    name = name.encode() if isinstance(name, str) else name
    mode = b"%07o\0" % mode if isinstance(mode, int) else mode
    size = b"%011o\0" % size if isinstance(size, int) else size
    fields = [
        (name, 100),
        (mode, 8),
        (b"0000000\0", 8),
        (b"0000000\0", 8),
        (size, 12),
        (b"00000000000\0", 12),
        (b" " * 8, 8),
        (flag, 1),
        (link, 100),
        (magic, 8),
        (b"root", 32),
        (b"root", 32),
        (b"", 8),
        (b"", 8),
        (prefix, 155),
    ]
    block = b"".join(value.ljust(width, b"\0") for value, width in fields).ljust(BLOCK, b"\0")
    assert len(block) == BLOCK
    return add_checksum(block) if checksum is None else block[:148] + checksum + block[156:]


def add_checksum(block: bytes) -> bytes:
    total = sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def make_member(name: bytes | str, data: bytes = b"", **fields: object) -> bytes:
    return make_header(name, size=len(data), **fields) + pad(data)  # type: ignore[arg-type]


def make_folder(name: bytes | str) -> bytes:
    return make_header(name, flag=b"5", mode=0o755)


def make_record(key: str, value: str | bytes) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def make_pax(*records: bytes) -> bytes:
    return make_member("PaxHeaders/x", b"".join(records), flag=b"x")


def make_tar(*members: bytes) -> bytes:
    return b"".join(members) + END
