"""IP addresses, networks and ranges as numbers.

The standard library's ``ipaddress`` takes longer to import than a pod's default network takes to
be made.
"""

from __future__ import annotations

from _socket import AF_INET, AF_INET6, inet_ntop, inet_pton


class Address:
    """``number`` is the address in network order, 32 bits of AF_INET or 128 of AF_INET6."""

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
        """How long an address of this family is."""
        return 32 if self.family == AF_INET else 128

    @property
    def packed(self) -> bytes:
        """As the kernel takes it."""
        return self.number.to_bytes(self.bits // 8, "big")

    def offset(self, count: int) -> Address:
        """The address ``count`` further on."""
        return Address(self.family, self.number + count)


class Network:
    """An address with the length of its prefix; bits behind the prefix are kept."""

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
        """AF_INET or AF_INET6."""
        return self.address.family

    @property
    def first(self) -> Address:
        """The lowest address, which stands for the network."""
        behind = self.address.bits - self.prefix
        return Address(self.family, self.address.number >> behind << behind)

    @property
    def last(self) -> Address:
        """The highest address, on IPv4 the one for broadcasts."""
        return self.first.offset((1 << (self.address.bits - self.prefix)) - 1)

    @property
    def subnet(self) -> Network:
        """Without the bits behind the prefix."""
        return Network(self.first, self.prefix)


def parse_address(text: str) -> Address:
    """Raises ValueError."""
    family = AF_INET6 if ":" in text else AF_INET
    try:
        return Address(family, int.from_bytes(inet_pton(family, text), "big"))
    except (OSError, ValueError):
        raise ValueError(f'"{text}" is no IP address') from None


def parse_network(text: str) -> Network:
    """``ADDRESS/LENGTH``.  Raises ValueError."""
    address, slash, length = text.partition("/")
    found = parse_address(address)
    if not slash or not length.isascii() or not length.isdigit() or int(length) > found.bits:
        raise ValueError(f'"{text}" is no network: ADDRESS/LENGTH')
    return Network(found, int(length))
