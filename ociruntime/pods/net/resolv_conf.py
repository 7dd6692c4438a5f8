"""Build the resolv.conf of a pod's apps, which ``pods/bundle/etc_files.py`` writes.

The settings come from the first of these sources that exists: the options ``--dns...``, the
results of the network plugins, the host's resolv.conf.  With ``--dns=none``, the pod uses the
image's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.pods.net.addresses import parse_address

HOST = "host"
NONE = "none"
DNS_MEMBERS = ("nameservers", "search", "options", "domain")


def parse_dns(
    servers: list[str], search: list[str], options: list[str], domain: str
) -> dict[str, Any]:
    """Convert the values of --dns, --dns-search, --dns-opt and --dns-domain to DNS settings.

    Returns ``{"mode", "nameservers", "search", "options", "domain"}``; the mode is "host", "none"
    or "".  The caller must have checked ``servers`` with ``check_servers``.  Raises UsageError if
    options contradict each other or a value is invalid.
    """
    mode = ""
    if servers and servers[0] in (HOST, NONE):
        mode, servers = servers[0], []
        if search or options or domain:
            raise UsageError(f"--dns={mode} and other --dns options are mutually exclusive")
    for option, values in (
        ("--dns-search", search),
        ("--dns-opt", options),
        ("--dns-domain", [domain] if domain else []),
    ):
        for value in values:
            if not value or not value.isprintable() or " " in value:
                raise UsageError(f'{option}: "{value}" must not be empty or contain whitespace')
    return {
        "mode": mode,
        "nameservers": servers,
        "search": list(search),
        "options": list(options),
        "domain": domain,
    }


def check_servers(where: str, servers: list[str]) -> None:
    """Check the values of --dns: addresses of name servers, or a single ``host`` or ``none``.

    ``host`` stands for the host's resolv.conf, ``none`` for the image's.  Raises BadRequest, whose
    message begins with ``where``, the option or JSON path, if a value is invalid.
    """
    for word in servers:
        if word in (HOST, NONE):
            if len(servers) > 1:
                raise BadRequest(where, f"{word} and other name servers are mutually exclusive")
            return
        try:
            parse_address(word.partition("%")[0])
        except ValueError:
            hint = "must be an IP address, host or none"
            raise BadRequest(where, f'invalid name server "{word}"', hint) from None


def resolv_conf(
    options: Mapping[str, Any], networks: Mapping[str, Any], host: Mapping[str, Any]
) -> str | None:
    """Return the content of a pod's resolv.conf, or None if no file is generated for the pod.

    ``options`` are the settings of the --dns options (``parse_dns``), ``networks`` is the object
    ``dns`` of the CNI results, ``host`` are the host's settings (``host_dns``).  The result
    contains the first of these settings that are not empty.  If they include no name servers, the
    name servers come from the next settings that do.

    If the result is None, the pod uses the host's file (mode "host") or the image's file (any other
    mode).
    """
    if options.get("mode"):
        return None
    sources = [one for one in (options, networks, host) if any(map(one.get, DNS_MEMBERS))]
    if not sources:
        return None
    source = sources[0]
    servers = next((one["nameservers"] for one in sources if one.get("nameservers")), ())
    lines = [f"nameserver {server}" for server in servers]
    if source.get("domain"):
        lines.append(f"domain {source['domain']}")
    for word, name in (("search", "search"), ("options", "options")):
        if source.get(name):
            lines.append(f"{word} {' '.join(source[name])}")
    return "\n".join([*lines, ""])


def host_dns(text: str, is_host_network: bool) -> dict[str, Any]:
    """Return the settings in ``text``, the host's resolv.conf, that also work in a pod.

    Unless ``is_host_network``, leaves out name servers on the host's loopback interface, such as
    systemd-resolved's 127.0.0.53: a pod cannot reach them from its own network namespace.
    """
    settings = parse_resolv_conf(text)
    if not is_host_network:
        servers = [server for server in settings.get("nameservers", ()) if not _is_loopback(server)]
        settings["nameservers"] = servers
    return settings


def _is_loopback(server: str) -> bool:
    return server.startswith("127.") or server.partition("%")[0] == "::1"


def parse_resolv_conf(text: str) -> dict[str, Any]:
    """Parse ``text``, the content of a resolv.conf, to a CNI object ``dns``.

    Of several ``search`` lines, the last one is used.
    """
    settings: dict[str, Any] = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].partition(";")[0].split()
        if len(fields) < 2:
            continue
        if fields[0] == "nameserver":
            settings.setdefault("nameservers", []).append(fields[1])
        elif fields[0] == "domain":
            settings["domain"] = fields[1]
        elif fields[0] == "search":
            settings["search"] = fields[1:]
        elif fields[0] == "options":
            settings.setdefault("options", []).extend(fields[1:])
    return settings
