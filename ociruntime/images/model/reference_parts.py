"""What the parts of an image's name may be made of, without regular expressions.

Importing ``re`` takes longer than preparing a pod of an image that is in the store.
"""

from __future__ import annotations

LOWER = "0123456789abcdefghijklmnopqrstuvwxyz"
LETTERS = LOWER + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
HEXADECIMAL = "0123456789abcdef"
FEWEST_DIGITS, MOST_DIGITS = 7, 64  # of an image's id
DOCKER_HUB = "docker.io"
TAGS = "letters, digits, _ . and -, 128 at most, not beginning with . or -"
# What else it answers to, or is called in files of credentials.
_HUB_TOO = ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_USUAL_PORT = 443  # of HTTPS
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


def registry_name(host: str) -> str:
    """The one name of a registry, HOST or HOST:PORT: rules and credentials for it go by that.

    In small letters, without the port that HTTPS has anyway, unless that alone tells the host from
    a repository (``hub:443/web``); Docker Hub has a name of its own.
    """
    host = host.lower()
    name, colon, port = host.rpartition(":")
    if colon and _is_port(port):
        number = int(port)
        left_out = number == _USUAL_PORT and is_host_alone(name)
        host = name if left_out else f"{name}:{number}"
    if host.startswith("["):
        host = _shortened(host)
    return DOCKER_HUB if host in _HUB_TOO else host


def _shortened(host: str) -> str:
    """With the shortest form of the IPv6 address that ``host`` begins with, in brackets."""
    import ipaddress

    address, bracket, rest = host[1:].partition("]")
    try:
        return f"[{ipaddress.IPv6Address(address)}{bracket}{rest}"
    except ValueError:
        return host  # no address: nobody will be found there


def is_host_alone(text: str) -> bool:
    """Whether the first part of a name is a host for all the world, and no part of a repository."""
    return "." in text or ":" in text or text == "localhost"


def prefix_name(prefix: str) -> str:
    """HOST[:PORT][/PATH] with the one name of the registry."""
    host, slash, path = prefix.partition("/")
    return f"{registry_name(host)}{slash}{path}"


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
