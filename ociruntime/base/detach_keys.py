"""The key sequence that detaches a client from a terminal (``--detach-keys``, as in docker)."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

DETACH_KEYS = "ctrl-p,ctrl-q"


def parse_keys(text: str) -> bytes:
    """Convert keys such as ``ctrl-p,ctrl-q`` to the bytes that a terminal sends for them.

    Raises UsageError for an invalid key.
    """
    keys = b""
    for word in text.split(",") if text else ():
        letter = word.removeprefix("ctrl-")
        if len(letter) != 1 or not letter.isascii():
            raise UsageError(
                f'--detach-keys: "{word}" is not a key',
                "use a character, or ctrl- followed by a letter",
            )
        code = ord(letter)
        if letter != word:
            if not (letter.isalpha() or letter in "@[\\]^_"):
                raise UsageError(
                    f'--detach-keys: "{word}" is not a key', "use ctrl- followed by a letter"
                )
            code = ord(letter.upper()) ^ 0x40
        keys += bytes([code])
    return keys


class KeyWatch:
    """A filter for a terminal's input that detects the detach keys.

    Keys that may begin the sequence are held back until the next key shows whether it continues.
    """

    __slots__ = ("_keys", "_seen", "detaching")

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._seen = 0
        self.detaching = False

    def pass_on(self, data: bytes) -> bytes:
        """Return the input to send to the app; set ``detaching`` when the sequence is complete.

        ``data`` is the new input from the terminal.
        """
        if not self._keys:
            return data
        out = b""
        for byte in data:
            key = bytes([byte])
            if self._keys[self._seen : self._seen + 1] != key:
                out += self._keys[: self._seen]
                self._seen = 0
            if self._keys[self._seen : self._seen + 1] == key:
                self._seen += 1
                if self._seen == len(self._keys):
                    self.detaching = True
                    return out
            else:
                out += key
        return out
