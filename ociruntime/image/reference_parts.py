"""What the parts of an image's name may be made of, without regular expressions.

Importing ``re`` takes longer than preparing a pod of an image that is in the store.
"""

from __future__ import annotations

LOWER = "0123456789abcdefghijklmnopqrstuvwxyz"
LETTERS = LOWER + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
HEXADECIMAL = "0123456789abcdef"
FEWEST_DIGITS, MOST_DIGITS = 7, 64  # of an image's id
_LONGEST_TAG = 128
_LONGEST_PORT = 5


def consists_of(text: str, characters: str) -> bool:
    """Whether ``text`` has no others; an empty one has none."""
    return not text.strip(characters)


def is_id_digits(text: str) -> bool:
    """The digits of an id or of its beginning."""
    return FEWEST_DIGITS <= len(text) <= MOST_DIGITS and consists_of(text, HEXADECIMAL)


def is_tag(text: str) -> bool:
    """Letters, digits, ``_``, and behind the first character ``.`` and ``-``."""
    fits = 0 < len(text) <= _LONGEST_TAG and text[0] not in ".-"
    return fits and consists_of(text, LETTERS + "_.-")


def is_repository(text: str) -> bool:
    """Components with slashes between them."""
    return all(_is_component(part) for part in text.split("/"))


def is_host(text: str) -> bool:
    """A name or an address, IPv6 in brackets, and perhaps ``:PORT``."""
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        named = bool(bracket and address) and consists_of(address, HEXADECIMAL + "ABCDEF:")
        host, colon, port = rest.partition(":")
        named = named and not host
    else:
        host, colon, port = text.partition(":")
        named = all(_is_label(label) for label in host.split("."))
    return named and (not colon or _is_port(port))


def _is_port(text: str) -> bool:
    fits = 0 < len(text) <= _LONGEST_PORT and consists_of(text, DIGITS)
    return fits and 0 < int(text) < 65536


def _is_label(text: str) -> bool:
    """Of a host's name: letters and digits, dashes between them."""
    return text.strip("-") == text != "" and consists_of(text, LETTERS + "-")


def _is_component(text: str) -> bool:
    """Small letters and digits; between them a dot, one or two ``_``, or any number of dashes."""
    if text.strip("._-") != text or not text or not consists_of(text, LOWER + "._-"):
        return False
    between = "".join(letter if letter in "._-" else " " for letter in text).split()
    return all(run in (".", "_", "__") or consists_of(run, "-") for run in between)
