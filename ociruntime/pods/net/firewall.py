"""Apply and remove the packet filter rules of pods: masquerading, isolation, port forwarding.

Rules with the same tag are changed in one transaction and removed together.  With nft, the tag is
the name of their table.  With iptables, the names of their chains are derived from the tag, and the
rules that jump to these chains are removed with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ociruntime.base.errors import NetworkError
from ociruntime.base.files import is_there
from ociruntime.base.host_programs import find_program
from ociruntime.pods.net import iptables_rules, nft_rules
from ociruntime.pods.net.firewall_rules import Rules
from ociruntime.pods.net.run_program import run_program

NFT = "nft"
IPTABLES = "iptables"
IPV6 = "/proc/sys/net/ipv6"
TIMEOUT = 30.0
LONGEST_ARGUMENT = 100_000  # bytes; the kernel allows 128 KiB (MAX_ARG_STRLEN)
WAIT = "10"  # seconds for iptables to wait for its lock (xtables.lock)


def find_tool() -> str:
    """Return the installed packet filter tool, "nft" or "iptables", or "" if there is none."""
    if find_program("nft"):
        return NFT
    if find_program("iptables-restore") and find_program("iptables-save"):
        return IPTABLES
    return ""


def apply(tool: str, rules: Sequence[Rules]) -> None:
    """Add ``rules`` to the packet filter; they replace existing rules with the same tags.

    ``tool`` is "nft", "iptables", or "" if neither is installed.  Raises NetworkError if the tool
    is missing or fails.
    """
    if not rules:
        return
    if tool == NFT:
        # An interrupted run may have left a table.  Always replacing the table would take longer.
        try:
            _run_nft("".join(nft_rules.script(ruleset, False) for ruleset in rules))
        except NetworkError:
            _run_nft("".join(nft_rules.script(ruleset, True) for ruleset in rules))
    elif tool == IPTABLES:
        for family in (4, 6):
            ours = [ruleset for ruleset in rules if ruleset.family == family]
            saved = _saved(family) if ours else ""
            text = "".join(iptables_rules.removal(ruleset.tag, saved) for ruleset in ours)
            text += "".join(iptables_rules.script(ruleset) for ruleset in ours)
            if text:
                _run(_restore(family), ["--noflush", "-w", WAIT], text)
    else:
        raise NetworkError(
            "add packet filter rules: neither nft nor iptables is installed", "install nftables"
        )


def remove(tool: str, tags: Sequence[tuple[str, int]]) -> None:
    """Remove the packet filter rules with the given ``tags``, pairs (tag, IP family 4 or 6).

    ``tool`` is "nft", "iptables" or "".  Does nothing if it is "" or has been uninstalled.  Raises
    NetworkError if the tool fails.
    """
    if tool == NFT and tags and find_program("nft"):
        _run_nft("".join(nft_rules.removal(*one) for one in tags))
    if tool != IPTABLES:
        return
    for family in (4, 6):
        ours = [tag for tag, its_family in tags if its_family == family]
        if ours and find_program(_restore(family)):
            saved = _saved(family)
            text = "".join(iptables_rules.removal(tag, saved) for tag in ours)
            if text:
                _run(_restore(family), ["--noflush", "-w", WAIT], text)


def _run_nft(script: str) -> None:
    """Let nft carry out ``script``.  Raises NetworkError.

    A short script is passed as an argument: if nft cannot read a file, it takes that for the file's
    end and reports success.
    """
    if len(script.encode()) < LONGEST_ARGUMENT:
        _run(NFT, [script], "")
    else:
        _run(NFT, ["-f", "-"], script)


def _restore(family: int) -> str:
    return "iptables-restore" if family == 4 else "ip6tables-restore"


def _saved(family: int) -> str:
    return _run("iptables-save" if family == 4 else "ip6tables-save", [], "")


def _run(name: str, arguments: list[str], text: str) -> str:
    path = find_program(name)
    if not path:
        hint = "install nftables" if name == NFT else "install iptables"
        raise NetworkError(f"change packet filter rules: {name} is not installed", hint)
    code, output, errors = run_program([path, *arguments], text.encode(), TIMEOUT)
    if code:
        reason = " ".join(errors.decode(errors="replace").split())
        raise NetworkError(f"change packet filter rules: {name}: {reason or f'exit status {code}'}")
    return output.decode(errors="replace")


def usable_families(tool: str) -> list[int]:
    """Return the IP families whose packets ``tool`` can filter on this host: [4] or [4, 6]."""
    six = is_there(IPV6) and (tool != IPTABLES or find_program(_restore(6)))
    return [4, 6] if six else [4]


def families(result: dict[str, Any]) -> list[int]:
    """Return the IP families (4, 6) of the addresses in ``result``, a CNI result.

    Returns [4, 6] if it has no addresses.
    """
    ips = result.get("ips") or ()
    present_families = {6 if ":" in str(ip.get("address")) else 4 for ip in ips}
    return sorted(present_families) or [4, 6]


def present(tool: str, tag: str, family: int) -> bool:
    """Return whether the packet filter has rules of the IP ``family`` (4 or 6) with ``tag``.

    ``tool`` is "nft" or "iptables".  Raises NetworkError if the tool fails.
    """
    if tool == NFT:
        tables = _run(NFT, ["list", "tables"], "").splitlines()
        return f"table {nft_rules.IP[family]} {tag}" in tables
    return bool(iptables_rules.removal(tag, _saved(family)))
