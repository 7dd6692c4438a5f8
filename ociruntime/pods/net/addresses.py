"""IP addresses and networks as numbers.

The standard library's ``ipaddress`` is not used: importing it takes longer than setting up a pod's
default network.
"""

from __future__ import annotations

from _socket import AF_INET, AF_INET6, inet_ntop, inet_pton


class Address:
    """An IP address: ``family`` is AF_INET or AF_INET6, ``number`` has 32 or 128 bits."""

    __slots__ = ("family", "number")

    def __init__(self, family: int, number: int) -> None:
        self.family = family
        self.number = number

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Address)
            and other.family == self.family
            and other.number == self.number
        )

    def __hash__(self) -> int:
        return hash((self.family, self.number))

    def __str__(self) -> str:
        return inet_ntop(self.family, self.packed)

    @property
    def bits(self) -> int:
        """The length of the address in bits, 32 or 128."""
        return 32 if self.family == AF_INET else 128

    @property
    def packed(self) -> bytes:
        """The address as bytes in network byte order."""
        return self.number.to_bytes(self.bits // 8, "big")

    def offset(self, count: int) -> Address:
        """Return the address that is ``count`` higher than this one."""
        return Address(self.family, self.number + count)


class Network:
    """An IP address with a prefix length, such as 10.0.0.7/24; its host bits need not be 0."""

    __slots__ = ("address", "prefix")

    def __init__(self, address: Address, prefix: int) -> None:
        self.address = address
        self.prefix = prefix

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"

    def __contains__(self, address: Address) -> bool:
        return (
            address.family == self.address.family
            and self.first.number <= address.number <= self.last.number
        )

    @property
    def family(self) -> int:
        """The address family, AF_INET or AF_INET6."""
        return self.address.family

    @property
    def first(self) -> Address:
        """The lowest address of the network, with all host bits 0."""
        behind = self.address.bits - self.prefix
        return Address(self.family, self.address.number >> behind << behind)

    @property
    def last(self) -> Address:
        """The highest address of the network; for IPv4 this is the broadcast address."""
        return self.first.offset((1 << (self.address.bits - self.prefix)) - 1)

    @property
    def subnet(self) -> Network:
        """This network with all host bits 0, such as 10.0.0.0/24 for 10.0.0.7/24."""
        return Network(self.first, self.prefix)


def parse_address(text: str) -> Address:
    """Parse ``text``, an IPv4 or IPv6 address; raise ValueError if it is invalid."""
    family = AF_INET6 if ":" in text else AF_INET
    try:
        return Address(family, int.from_bytes(inet_pton(family, text), "big"))
    except (OSError, ValueError):
        raise ValueError(f'invalid IP address "{text}"') from None


def parse_network(text: str) -> Network:
    """Parse ``text``, ``ADDRESS/PREFIX_LENGTH``; host bits need not be 0.

    Raises ValueError if ``text`` is invalid.
    """
    address, slash, length = text.partition("/")
    parsed = parse_address(address)
    if not slash or not length.isascii() or not length.isdigit() or int(length) > parsed.bits:
        raise ValueError(f'invalid network "{text}": must be ADDRESS/LENGTH')
    return Network(parsed, int(length))
