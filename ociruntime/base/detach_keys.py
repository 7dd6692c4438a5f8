"""The detach key sequence of an attached terminal."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

DETACH_KEYS = "ctrl-p,ctrl-q"


def parse_keys(text: str) -> bytes:
    """Return the bytes that a terminal sends for ``ctrl-p,ctrl-q``.  Raises UsageError."""
    keys = b""
    for word in text.split(",") if text else ():
        letter = word.removeprefix("ctrl-")
        if len(letter) != 1 or not letter.isascii():
            raise UsageError(
                f'--detach-keys: "{word}" is not a key',
                "use a character, or ctrl- followed by a character",
            )
        code = ord(letter)
        if letter != word:
            if not (letter.isalpha() or letter in "@[\\]^_"):
                raise UsageError(f'--detach-keys: "{word}" is not a key', "use ctrl- and a letter")
            code = ord(letter.upper()) ^ 0x40
        keys += bytes([code])
    return keys


class KeyWatch:
    """A filter that detects the keys in the input; a possible prefix of them is held back."""

    __slots__ = ("_keys", "_seen", "detaching")

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._seen = 0
        self.detaching = False

    def pass_on(self, data: bytes) -> bytes:
        """Return the input to pass to the app; sets ``detaching`` if the keys were in it."""
        if not self._keys:
            return data
        out = b""
        for byte in data:
            one = bytes([byte])
            if self._keys[self._seen : self._seen + 1] != one:
                out += self._keys[: self._seen]
                self._seen = 0
            if self._keys[self._seen : self._seen + 1] == one:
                self._seen += 1
                if self._seen == len(self._keys):
                    self.detaching = True
                    return out
            else:
                out += one
        return out
