"""The syntax of image references, without regular expressions.

Importing ``re`` takes longer than preparing a pod from an image in the store.
"""

from __future__ import annotations

LOWER = "0123456789abcdefghijklmnopqrstuvwxyz"
LETTERS = LOWER + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
HEXADECIMAL = "0123456789abcdef"
FEWEST_DIGITS, MOST_DIGITS = 7, 64  # of an image id
DOCKER_HUB = "docker.io"
TAGS = "letters, digits, _ . and -, 128 at most, not beginning with . or -"
# Aliases of Docker Hub, as a host or in credential files.
_HUB_TOO = ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_USUAL_PORT = 443  # HTTPS
_LONGEST_TAG = 128
_LONGEST_PORT = 5


def consists_of(text: str, characters: str) -> bool:
    """Return whether ``text`` is not empty and has only these characters."""
    return not text.strip(characters)


def is_id_digits(text: str) -> bool:
    """Return whether ``text`` consists of the digits of an id or of a prefix of one."""
    return FEWEST_DIGITS <= len(text) <= MOST_DIGITS and consists_of(text, HEXADECIMAL)


def is_tag(text: str) -> bool:
    """Return whether ``text`` has letters, digits, ``_`` and, not first, ``.`` and ``-``."""
    fits = 0 < len(text) <= _LONGEST_TAG and text[0] not in ".-"
    return fits and consists_of(text, LETTERS + "_.-")


def is_repository(text: str) -> bool:
    """Return whether ``text`` has valid components separated by slashes."""
    return all(_is_component(part) for part in text.split("/"))


def is_host(text: str) -> bool:
    """Return whether ``text`` is a hostname or address (IPv6 in brackets), with optional port."""
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
    """Normalise HOST or HOST:PORT to the registry's canonical name, for rules and credentials.

    It is lower case, without the port 443, unless only that distinguishes the host from a
    repository
    (``hub:443/web``); aliases of Docker Hub become docker.io.
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
    """Shorten the IPv6 address in brackets that ``host`` starts with."""
    import ipaddress

    address, bracket, rest = host[1:].partition("]")
    try:
        return f"[{ipaddress.IPv6Address(address)}{bracket}{rest}"
    except ValueError:
        return host  # not a valid address: connecting will fail


def is_host_alone(text: str) -> bool:
    """Return whether the first component of a name is a host, and not part of a repository."""
    return "." in text or ":" in text or text == "localhost"


def prefix_name(prefix: str) -> str:
    """Normalise the registry in HOST[:PORT][/PATH]."""
    host, slash, path = prefix.partition("/")
    return f"{registry_name(host)}{slash}{path}"


def _is_port(text: str) -> bool:
    fits = 0 < len(text) <= _LONGEST_PORT and consists_of(text, DIGITS)
    return fits and 0 < int(text) < 65536


def _is_label(text: str) -> bool:
    """Return whether ``text`` is a label of a hostname: letters, digits, inner dashes."""
    return text.strip("-") == text != "" and consists_of(text, LETTERS + "-")


def _is_component(text: str) -> bool:
    """Return whether ``text`` is lower-case words joined by ``.``, ``_``, ``__`` or dashes."""
    if text.strip("._-") != text or not text or not consists_of(text, LOWER + "._-"):
        return False
    between = "".join(letter if letter in "._-" else " " for letter in text).split()
    return all(run in (".", "_", "__") or consists_of(run, "-") for run in between)
