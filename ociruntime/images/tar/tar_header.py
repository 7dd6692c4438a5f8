"""Parse tar headers and pax records.

Names are bytes, as in the archive.  Every function raises ImageError for damaged input; the caller
adds the name of the archive to the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ociruntime.base.errors import ImageError

BLOCK = 512
LONGEST_NAME = 4095  # bytes: PATH_MAX without the final NUL

REGULAR = b"0"
HARD_LINK = b"1"
SYMLINK = b"2"
CHARACTER_DEVICE = b"3"
BLOCK_DEVICE = b"4"
DIRECTORY = b"5"
FIFO = b"6"
PAX = b"x"
PAX_GLOBAL = b"g"
GNU_LONG_NAME = b"L"
GNU_LONG_LINK = b"K"
GNU_SPARSE = b"S"

_OTHER_REGULAR = (b"\0", b"7")  # regular files of V7 archives, and "contiguous files"
_SOLARIS_PAX = b"X"
_XATTR = b"SCHILY.xattr."
_LAST_ID = (1 << 32) - 2  # the next id, -1, means "leave unchanged" in chown(2)
_LATEST = 1 << 40  # seconds since the epoch; times are limited to what the kernel accepts

Record = tuple[bytes, bytes]


@dataclass
class Header:
    """The header of a tar member; ``type`` is REGULAR, DIRECTORY or another of these constants.

    ``size`` is the size of the file in bytes, ``stored`` the number of its bytes in the archive.
    They differ only for a sparse file, for which ``pieces`` lists (offset, length) of each stored
    part.  ``link`` is the target of a link.  ``mtime`` is in nanoseconds.  ``user`` and ``group``
    are names, which unpacking ignores.
    """

    name: bytes
    type: bytes
    mode: int
    uid: int
    gid: int
    size: int
    stored: int
    mtime: int
    link: bytes = b""
    user: bytes = b""
    group: bytes = b""
    major: int = 0
    minor: int = 0
    xattrs: dict[str, bytes] = field(default_factory=dict)
    pieces: list[tuple[int, int]] | None = None

    def shown(self) -> str:
        """Return the member's name for an error message, with invalid UTF-8 escaped."""
        return self.name.decode("utf-8", "backslashreplace")


def parse_header(block: bytes) -> Header:
    """Parse a tar header block of BLOCK bytes, without applying pax records.

    Raises ImageError for a wrong checksum or an invalid field.
    """
    _check_sum(block)
    type = block[156:157]
    if type == _SOLARIS_PAX:
        type = PAX
    name = _text(block[0:100])
    magic = block[257:263]
    if magic == b"ustar\0":
        # In archives of star, the prefix is shorter, and times follow it.
        prefix = _text(block[345:476] if block[508:512] == b"tar\0" else block[345:500])
        if prefix:
            name = prefix + b"/" + name
    if type in _OTHER_REGULAR:
        type = DIRECTORY if name.endswith(b"/") and type == b"\0" else REGULAR
    size = number(block[124:136])
    if size < 0:
        raise ImageError(f"{quoted(name)}: negative size {size}")
    header = Header(
        name=name,
        type=type,
        mode=number(block[100:108]) & 0o7777,
        uid=number(block[108:116]),
        gid=number(block[116:124]),
        size=size,
        stored=size,
        mtime=number(block[136:148]) * 1_000_000_000,
        link=_text(block[157:257]),
        user=_text(block[265:297]),
        group=_text(block[297:329]),
    )
    if type in (CHARACTER_DEVICE, BLOCK_DEVICE):
        header.major, header.minor = number(block[329:337]), number(block[337:345])
    return header


def number(digits: bytes) -> int:
    """Parse a number in a tar header: octal digits or, if the first bit is set, base-256.

    Raises ImageError if the field contains other characters.
    """
    if digits[0] & 0x80:
        bits = 8 * len(digits) - 1
        value = int.from_bytes(digits, "big") - (1 << bits)
        return value - (1 << bits) if digits[0] & 0x40 else value
    text = digits.strip(b" \0").partition(b"\0")[0].strip()
    if not text:
        return 0
    if text.strip(b"01234567"):
        raise ImageError(f"invalid octal number {quoted(text)} in a tar header")
    return int(text, 8)


def parse_records(data: bytes) -> list[Record]:
    """Parse the records in a pax header, lines ``LENGTH KEY=VALUE``; return [(key, value)]."""
    records = []
    at = 0
    while at < len(data):
        blank = data.find(b" ", at, at + 12)
        digits = data[at:blank] if blank > 0 else b""
        end = at + int(digits) if digits.isdigit() else 0
        record = data[blank + 1 : end - 1]
        if not blank < end <= len(data) or data[end - 1 : end] != b"\n" or b"=" not in record:
            raise ImageError(f"invalid record at offset {at} of a pax header")
        key, _, value = record.partition(b"=")
        records.append((key, value))
        at = end
    return records


def apply_records(header: Header, records: list[Record]) -> None:
    """Override the values in a tar header with the values in its pax records, in order."""
    for key, value in records:
        if key.startswith(_XATTR):
            name = key[len(_XATTR) :].decode("utf-8", "surrogateescape")
            if "\0" in name or not name:
                raise ImageError(
                    f'"{header.shown()}": invalid extended attribute name {name[:99]!r}'
                )
            header.xattrs[name] = value
        elif not value:
            continue  # an empty value only revokes a global record
        elif key == b"path":
            header.name = whole(value)
        elif key == b"linkpath":
            header.link = whole(value)
        elif key == b"size":
            header.size = header.stored = _decimal(header, key, value)
        elif key == b"uid":
            header.uid = _decimal(header, key, value)
        elif key == b"gid":
            header.gid = _decimal(header, key, value)
        elif key == b"uname":
            header.user = value
        elif key == b"gname":
            header.group = value
        elif key == b"mtime":
            header.mtime = _nanoseconds(header, key, value)


def check_values(header: Header) -> None:
    """Clamp the mtime; raise ImageError for an owner or device number that Linux cannot store."""
    if not (0 <= header.uid <= _LAST_ID and 0 <= header.gid <= _LAST_ID):
        raise ImageError(f'"{header.shown()}": invalid owner {header.uid}:{header.gid}')
    if not (0 <= header.major < 1 << 12 and 0 <= header.minor < 1 << 20):
        raise ImageError(f'"{header.shown()}": invalid device number {header.major}:{header.minor}')
    header.mtime = min(max(header.mtime, -_LATEST * 1_000_000_000), _LATEST * 1_000_000_000)


def _check_sum(block: bytes) -> None:
    """Raise ImageError if a tar header's checksum is wrong.

    The checksum is the sum of all bytes of the header, with blanks in the checksum field itself.
    The sum of signed bytes, which some old archives contain, is also accepted.
    """
    other_bytes = block[:148] + block[156:]
    actual = sum(other_bytes) + 8 * 0x20
    try:
        expected = number(block[148:156])
    except ImageError:
        expected = -1
    if expected != actual and expected != actual - 256 * sum(byte > 127 for byte in other_bytes):
        hint = "the file is damaged, or not a tar archive"
        raise ImageError("wrong checksum in a tar header", hint)


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def whole(value: bytes) -> bytes:
    """Return ``value``, a name in a pax header; raise ImageError if it contains NUL."""
    if b"\0" in value:
        raise ImageError(f"NUL byte in the name {quoted(value)}")
    return value


def quoted(value: bytes) -> str:
    """Format a value from a tar archive for an error message: quoted, escaped and shortened."""
    return repr(value[:99])[1:]


def _decimal(header: Header, key: bytes, value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise _invalid(header, key, value)
    return int(value)


def _nanoseconds(header: Header, key: bytes, value: bytes) -> int:
    """Convert a time in a pax header (decimal seconds) to nanoseconds, without using a float.

    A float would cause rounding errors.
    """
    seconds, _, fraction = value.partition(b".")
    digits = seconds.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > 18 or (fraction and not fraction.isdigit()):
        raise _invalid(header, key, value)
    total = int(digits) * 1_000_000_000 + int(fraction[:9].ljust(9, b"0"))
    return -total if seconds.startswith(b"-") else total


def _invalid(header: Header, key: bytes, value: bytes) -> ImageError:
    """Return an ImageError for an invalid value of the pax record ``key``."""
    shown = f'invalid "{key.decode()}" {quoted(value)} in a pax header'
    return ImageError(f'"{header.shown()}": {shown}')
