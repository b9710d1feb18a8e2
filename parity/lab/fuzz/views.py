"""Take a checkpoint of each format apart into parts and named fields.

A file that cannot be parsed, such as most cases that must be rejected, has only its bytes.
"""

from __future__ import annotations

import contextlib
import io
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence

from parity.checkpoints.gguf_header import PARSE_ERRORS
from parity.lab.fuzz.mutant import Base, Field, View
from parity.lab.zoo.pth_builder import build_zip

#: What fails on a file that is damaged.
_ERRORS = (*PARSE_ERRORS, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError)
#: Kind of a metadata value of GGUF, by its type; 8 is a text, 9 an array.
_GGUF_KINDS = {0: "u1", 1: "u1", 2: "u2", 3: "u2", 4: "u4", 5: "u4", 6: "u4", 7: "u1"}
_GGUF_KINDS |= {10: "u8", 11: "u8", 12: "u8"}
_TEXT, _ARRAY = 8, 9
_MAX_MEMBER = 2**20  # Bytes of a member of an archive; more inflates from a small file
_MAX_LISTED = 8  # Elements of an array in the metadata that are fields
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?|-?\d+')
_INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG"}
_TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_MEMOS = {"BINPUT", "BINGET"}


def make_base(name: str, group: str, content: bytes) -> Base:
    """Make the base of a case, with the views of its format."""
    views = [_view_bytes(group, content)]
    with contextlib.suppress(*_ERRORS):
        views += [view for view in [_VIEWS[group](content)] if view.fields]
    return Base(name, group, content, tuple(views))


def _join_all(parts: Sequence[bytes]) -> bytes:
    return b"".join(parts)


def _view_bytes(group: str, content: bytes) -> View:
    """View the file as it is: the fields are its regions."""
    starts = [(0, "bytes of the file")]
    if group == "pth" and (at := content.find(b"PK\x01\x02")) > 0:
        starts = [(0, "bytes of a member"), (at, "bytes of the zip directory")]
    if group == "safetensors" and len(content) > 8:  # noqa: PLR2004 - the length's bytes
        size = 8 + int.from_bytes(content[:8], "little")
        starts = [(0, "header length"), (8, "bytes of the header"), (size, "bytes of the data")]
    if group == "gguf":
        with contextlib.suppress(*_ERRORS):
            size = len(_parse_gguf(content)[0])
            starts = [(0, "bytes of the header"), (size, "bytes of the data")]
    stops = [*(start for start, _ in starts[1:]), len(content)]
    fields = [
        Field(0, start, min(stop, len(content)), "bytes", name)
        for (start, name), stop in zip(starts, stops, strict=True)
        if start <= len(content)
    ]
    return View((content,), tuple(fields), _join_all)


def _view_safetensors(content: bytes) -> View:
    """View header and data; the length before the header is always that of the header."""
    size = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + size], content[8 + size :]
    if len(header) != size:
        raise ValueError(size)
    fields = [*_list_json(header), Field(1, 0, len(data), "bytes", "data")]

    def join(parts: Sequence[bytes]) -> bytes:
        return len(parts[0]).to_bytes(8, "little") + parts[0] + parts[1]

    return View((header, data), tuple(fields), join)


def _list_json(header: bytes) -> Iterator[Field]:
    """Yield the texts and numbers of a header; a number is named by the key before it."""
    key = ""
    for token in _JSON_TOKEN.finditer(header):
        text = token[0]
        if token[1]:
            end = token.end() - len(token[1])
            key = text[1 : end - token.start() - 1].decode("utf-8", "replace")
            is_own = key in ("dtype", "shape", "data_offsets")
            yield Field(0, token.start() + 1, end - 1, "json", f"key {key}" if is_own else "name")
        elif text[:1] == b'"':
            kind, name = ("dtype", "dtype") if key == "dtype" else ("json", "metadata")
            yield Field(0, token.start() + 1, token.end() - 1, kind, name)
        else:
            yield Field(0, token.start(), token.end(), "digits", key)


def _view_gguf(content: bytes) -> View:
    """View header and data; the padding between them is made anew."""
    header, fields, alignment = _parse_gguf(content)
    data = content[_align(len(header), alignment) :]
    fields = [*fields, Field(1, 0, len(data), "bytes", "data")]

    def join(parts: Sequence[bytes]) -> bytes:
        return parts[0].ljust(_align(len(parts[0]), alignment), b"\0") + parts[1]

    return View((header, data), tuple(fields), join)


def _align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _GgufWalker:
    """Walks a header, and lists its fields."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at, self.fields = content, 0, list[Field]()

    def read(self, kind: str, name: str) -> int:
        """Read an unsigned integer."""
        size = int(kind[1]) if kind[0] == "u" else 4
        value = int.from_bytes(self.content[self.at : self.at + size], "little")
        self.add(size, kind, name)
        return value

    def add(self, size: int, kind: str, name: str) -> None:
        """List a field of ``size`` bytes, and pass over it."""
        if size > len(self.content) - self.at:
            raise ValueError(size)
        self.fields.append(Field(0, self.at, self.at + size, kind, name))
        self.at += size

    def read_text(self, name: str) -> bytes:
        """Read a text: one field with its length, and one of the length alone."""
        length = self.read("u8", f"length of {name}")
        self.add(length, "bytes", name)
        self.fields.append(Field(0, self.at - length - 8, self.at, "text8", name))
        return self.content[self.at - length : self.at]

    def read_value(self, kind: int, depth: int = 0) -> int:
        """Read a value of the metadata; return it if it is a number."""
        if kind == _TEXT:
            self.read_text("metadata value")
        elif kind != _ARRAY:
            return self.read(_GGUF_KINDS[kind], "metadata value")
        else:
            inner = self.read("u4", "type of array elements")
            count, listed = self.read("u8", "length of array"), len(self.fields)
            if depth > _MAX_LISTED:
                raise ValueError(depth)
            for _ in range(count):
                self.read_value(inner, depth + 1)
            del self.fields[listed + _MAX_LISTED :]
        return 0


def _parse_gguf(content: bytes) -> tuple[bytes, list[Field], int]:
    """Parse a header; return its bytes, fields and alignment."""
    walker, alignment = _GgufWalker(content), 32
    walker.add(4, "bytes", "magic")
    version = walker.read("u4", "version")
    tensors, pairs = walker.read("u8", "tensor count"), walker.read("u8", "metadata count")
    if content[:4] != b"GGUF" or version not in (2, 3):
        raise ValueError(version)
    for _ in range(pairs):
        key = walker.read_text("metadata key")
        value = walker.read_value(walker.read("u4", "metadata type"))
        alignment = value if key == b"general.alignment" and value else alignment
    for _ in range(tensors):
        walker.read_text("tensor name")
        for _ in range(walker.read("u4", "dimension count")):
            walker.read("u8", "dimension")
        walker.read("type", "tensor type")
        walker.read("u8", "tensor offset")
    if alignment > len(content):  # else a mutant could have 2^31 bytes of padding
        raise ValueError(alignment)
    return content[: walker.at], walker.fields, alignment


def _view_pth(content: bytes) -> View:
    """View the members of an archive, or the pickles of the legacy container."""
    if not content.startswith(b"PK"):
        return View((content,), tuple(_list_legacy(content)), _join_all)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if any(info.file_size > _MAX_MEMBER for info in file.infolist()):
            raise ValueError(content[:4])
        members = [(info.filename, file.read(info)) for info in file.infolist()]
    parts, fields = list[bytes](), list[Field]()
    for name, raw in members:
        parts += [name.encode(), raw]
        part, last = len(parts) - 1, name.rpartition("/")[2]
        fields.append(Field(part - 1, 0, len(parts[-2]), "bytes", "member name"))
        if last.endswith(".pkl"):
            fields += _list_opcodes(raw, part, 0)
        else:
            what = "storage" if "/data/" in name else last
            fields.append(Field(part, 0, len(raw), "bytes", what))

    def join(changed: Sequence[bytes]) -> bytes:
        names = [name.decode("utf-8", "replace") for name in changed[::2]]
        return build_zip(zip(names, changed[1::2], strict=True))

    return View(tuple(parts), tuple(fields), join)


def _list_legacy(content: bytes) -> Iterator[Field]:
    """Yield the fields of the pickles, then the storages behind them as one."""
    at, found = 0, list[Field]()
    while at < len(content):
        try:
            fields = list(_list_opcodes(content[at:], 0, at))
        except _ERRORS:
            break
        found += fields
        at = fields[-1].stop
    if not found:
        raise ValueError(at)
    yield from found
    yield Field(0, at, len(content), "bytes", "storage")


def _list_opcodes(data: bytes, part: int, offset: int) -> Iterator[Field]:
    """Yield the opcodes of a pickle; integers behind a storage are named by their role."""
    opcodes = pickletools.genops(io.BytesIO(data))
    found = [(opcode.name, at or 0) for opcode, _, at in opcodes]
    stops = [*(at for _, at in found[1:]), found[-1][1] + 1]
    roles = _name_integers([name for name, _ in found])
    for (name, at), stop, role in zip(found, stops, roles, strict=True):
        start, end = offset + at, offset + stop
        if name in _INTEGERS:
            yield Field(part, start, end, "pickle-int", role)
        elif name in _TEXTS:
            yield Field(part, start, end, "pickle-text", "pickle text")
        elif name == "GLOBAL":
            yield Field(part, start, end, "pickle-global", "pickle global")
        elif name in _MEMOS:
            yield Field(part, start + 1, end, "u1", "pickle memo")
        yield Field(part, start, end, "opcode", f"opcode {name}")


def _name_integers(opcodes: Sequence[str]) -> list[str]:
    """Name the role of each opcode that pushes an integer: a view follows a persistent id."""
    names, roles = ["pickle integer"] * len(opcodes), list[str]()
    for at, opcode in enumerate(opcodes):
        if opcode == "BINPERSID":
            integers = [one for one in range(at) if opcodes[one] in _INTEGERS]
            names[integers[-1] if integers else at] = "storage length"
            roles = ["storage offset", "size", "stride"]
        elif opcode.startswith(("TUPLE", "EMPTY_TUPLE")) and roles:
            roles.pop(0)
        elif opcode in _INTEGERS and roles:
            names[at] = roles[0]
            if roles[0] == "storage offset":
                roles.pop(0)
    return names


_VIEWS: dict[str, Callable[[bytes], View]] = {
    "pth": _view_pth,
    "safetensors": _view_safetensors,
    "gguf": _view_gguf,
}
