"""Convert a pod's packet filter rules to input for ``iptables-restore --noflush``."""

from __future__ import annotations

from collections.abc import Iterator

from ociruntime.pods.net.firewall_rules import DIGITS, Rules

MULTICAST = {4: "224.0.0.0/4", 6: "ff00::/8"}
LOOPBACK = {4: "127.0.0.0/8", 6: "::1/128"}
_UUID = 36  # characters
LOCAL = "-m addrtype --dst-type LOCAL"


def chains(tag: str) -> tuple[str, str]:
    """Return the names of the iptables chains for the rules with ``tag``.

    The result is (chain for incoming packets, chain for outgoing packets).  The names have at most
    28 characters, the limit of iptables, so they contain only the first 8 digits of the pod's UUID.
    These are unique among pods with networks.
    """
    rest = tag.removeprefix("ocipod-")
    short = f"OCIPOD-{rest[:DIGITS]}{rest[_UUID:]}"
    return f"{short}-D", f"{short}-S"


def script(rules: Rules) -> str:
    """Return input for ``iptables-restore`` that creates the pod's chains and the jumps to them."""
    incoming, leaving = chains(rules.tag)
    lines = _translations(rules, incoming, leaving) if rules.forwards or rules.masquerade else []
    if rules.forwards and rules.link and rules.family == 4:
        drop = f"-A {incoming} -i {rules.link} -d {LOOPBACK[4]} -j DROP"
        lines += ["*raw", f":{incoming} - [0:0]", f"-A PREROUTING -j {incoming}", drop, "COMMIT"]
    if rules.bridge:
        lines += ["*filter", f":{incoming} - [0:0]", f"-I FORWARD -j {incoming}"]
        lines += [*_passing(rules, incoming), "COMMIT"]
    return "\n".join([*lines, ""])


def _translations(rules: Rules, incoming: str, leaving: str) -> list[str]:
    """Return lines of ``iptables-restore`` input for the pod's chains in the table nat.

    ``incoming`` and ``leaving`` are the names of the chains.
    """
    lines = ["*nat", f":{incoming} - [0:0]", f":{leaving} - [0:0]"]
    if rules.forwards:
        # Insert at the top: a dead pod that is not cleaned up yet may have rules for the same port.
        lines += [f"-I PREROUTING {LOCAL} -j {incoming}", f"-I OUTPUT {LOCAL} -j {incoming}"]
    lines.append(f"-A POSTROUTING -j {leaving}")
    address = rules.address
    target = address if rules.family == 4 else f"[{address}]"
    for one in rules.forwards:
        where = f" -d {one.host_ip}" if one.host_ip else ""
        lines.append(
            f"-A {incoming}{where} -p {one.protocol} --dport {one.host_port} "
            f"-j DNAT --to-destination {target}:{one.pod_port}"
        )
        for source in (address, LOOPBACK[rules.family]):
            lines.append(
                f"-A {leaving} -s {source} -d {address} -p {one.protocol} "
                f"--dport {one.pod_port} -j MASQUERADE"
            )
    if rules.masquerade:
        lines += [
            f"-A {leaving} -d {rules.masquerade} -j RETURN",
            f"-A {leaving} -s {address} ! -d {MULTICAST[rules.family]} -j MASQUERADE",
        ]
    return [*lines, "COMMIT"]


def _passing(rules: Rules, chain: str) -> list[str]:
    """Return lines of ``iptables-restore`` input that isolate the bridge ``rules.bridge``.

    Connections from other networks to the bridge are dropped, except to forwarded ports.  With
    ``rules.internal``, connections from the bridge to other networks are dropped, too.
    """
    other = f"-A {chain} ! -i {rules.bridge} -o {rules.bridge}"
    known = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
    lines = [
        f"{other} {known}",
        f"{other} -m conntrack --ctstate DNAT -j RETURN",
        f"{other} -j DROP",
    ]
    if rules.internal:
        out = f"-A {chain} -i {rules.bridge} ! -o {rules.bridge}"
        lines += [f"{out} {known}", f"{out} -j DROP"]
    return lines


def removal(tag: str, saved: str) -> str:
    """Return input for ``iptables-restore`` that removes the rules with ``tag``.

    ``saved`` is the output of ``iptables-save``.  Returns "" if there are no rules with ``tag``.
    """
    return "".join(_table_removal(set(chains(tag)), *table) for table in _tables(saved))


def _tables(saved: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (name, chains, rules) of each table in ``saved``, the output of ``iptables-save``."""
    name = ""
    chains: list[str] = []
    rules: list[str] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            name, chains, rules = line[1:].strip(), [], []
        elif line.startswith(":"):
            chains.append(line[1:].split()[0])
        elif line.startswith("-A "):
            rules.append(line)
        elif line.startswith("COMMIT"):
            yield name, chains, rules


def _table_removal(ours: set[str], name: str, chains: list[str], rules: list[str]) -> str:
    present = [chain for chain in chains if chain in ours]
    if not present:
        return ""
    jumps = [line for line in rules if ours & set(line.split()) and line.split()[1] not in ours]
    lines = [f"*{name}", *(f"-D {line.removeprefix('-A ')}" for line in jumps)]
    lines += [f"-F {chain}" for chain in present] + [f"-X {chain}" for chain in present]
    return "\n".join([*lines, "COMMIT", ""])
