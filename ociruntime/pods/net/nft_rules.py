"""Convert a pod's packet filter rules to scripts for ``nft -f``."""

from __future__ import annotations

from ociruntime.pods.net.firewall_rules import Forward, Rules

IP = {4: "ip", 6: "ip6"}
MULTICAST = {4: "224.0.0.0/4", 6: "ff00::/8"}
LOOPBACK = {4: "127.0.0.0/8", 6: "::1"}


def script(rules: Rules, replace: bool) -> str:
    """Return an nft script that creates the table of ``rules``.

    With ``replace``, the script replaces an existing table.  Without it, the script fails if the
    table exists, but takes less time.
    """
    ip = IP[rules.family]
    chains: list[tuple[str, str, list[str]]] = []
    after: list[str] = []
    if rules.masquerade:
        others = f"{{ {rules.masquerade}, {MULTICAST[rules.family]} }}"
        after.append(f"{ip} saddr {rules.address} {ip} daddr != {others} masquerade")
    if rules.forwards:
        translations = [_translation(rules, ip, forward) for forward in rules.forwards]
        chains += [
            ("incoming", "type nat hook prerouting priority dstnat", translations),
            ("local", "type nat hook output priority -100", translations),
        ]
        after += [_hairpin(rules, ip, forward) for forward in rules.forwards]
        if rules.link and rules.family == 4:
            drop = f'iifname "{rules.link}" {ip} daddr {LOOPBACK[4]} drop'
            chains.append(("spoofed", "type filter hook prerouting priority raw", [drop]))
    if rules.bridge:
        chains.append(("passing", "type filter hook forward priority filter", _passing(rules)))
    if after:
        chains.append(("leaving", "type nat hook postrouting priority srcnat", after))
    table = f"table {ip} {rules.tag}"
    before = removal(rules.tag, rules.family).rstrip() if replace else f"create {table}"
    lines = [before, f"{table} {{"]
    for name, hook, body in chains:
        lines += [f"  chain {name} {{", f"    {hook}; policy accept;"]
        lines += [f"    {line}" for line in body] + ["  }"]
    return "\n".join([*lines, "}", ""])


def removal(tag: str, family: int) -> str:
    """Return an nft script that removes the table ``tag`` if it exists."""
    table = f"table {IP[family]} {tag}"
    return f"add {table}\ndelete {table}\n"


def _translation(rules: Rules, ip: str, forward: Forward) -> str:
    where = f"{ip} daddr {forward.host_ip} " if forward.host_ip else ""
    address = rules.address if rules.family == 4 else f"[{rules.address}]"
    return (
        f"fib daddr type local {where}{forward.protocol} dport {forward.host_port} "
        f"dnat to {address}:{forward.pod_port}"
    )


def _passing(rules: Rules) -> list[str]:
    """Return nft rules that isolate the bridge ``rules.bridge``.

    Connections from other networks to the bridge are dropped, except to forwarded ports.  With
    ``rules.internal``, connections from the bridge to other networks are dropped, too.
    """
    known = "ct state { established, related } accept"
    other = f'iifname != "{rules.bridge}" oifname "{rules.bridge}"'
    lines = [f"{other} {known}", f"{other} ct status dnat accept", f"{other} drop"]
    if rules.internal:
        out = f'iifname "{rules.bridge}" oifname != "{rules.bridge}"'
        lines += [f"{out} {known}", f"{out} drop"]
    return lines


def _hairpin(rules: Rules, ip: str, forward: Forward) -> str:
    """Return an nft rule that masquerades packets from the pod or 127.0.0.1 to a forwarded port.

    Without masquerading, the replies would not return through the host.
    """
    sources = f"{{ {rules.address}, {LOOPBACK[rules.family]} }}"
    return (
        f"{ip} saddr {sources} {ip} daddr {rules.address} "
        f"{forward.protocol} dport {forward.pod_port} masquerade"
    )
