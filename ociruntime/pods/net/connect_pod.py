"""Connect a pod to its networks in order, and disconnect it in reverse order.

``plan`` makes all decisions and returns them as a document.  The caller writes the document to disk
before it calls ``carry_out``, which makes the changes.  ``tear_down`` needs only the document: any
process can call it, repeatedly, and even after a reboot.

The document (net-info.json)::

    {"version": 1, "uuid", "boot", "namespace": path, "identity": [device, inode],
     "stateDirectory", "directories": [...], "firewall": "nft|iptables|",
     "networks": [{"name", "interface", "args", "cniVersion", "programs": bool, "names": bool,
                   "plugins": [{"program": path or "", "configuration": {...}}, ...],
                   "ip4", "ip6", "result": {...} or null}, ...],
     "ports": [mappings], "dns": {"nameservers": [...], ...}}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from ociruntime.base.errors import NetworkError, RuntimeFailure, reason, unhandled
from ociruntime.base.fault_injection import fault
from ociruntime.pods.net import call_plugins, conntrack, firewall, net_option, pod_records
from ociruntime.pods.net.firewall_rules import Rules
from ociruntime.pods.net.links import set_sysctl
from ociruntime.pods.net.network_configs import Configuration, load, plugin_directories
from ociruntime.pods.net.plugin_parameters import PluginCall, addresses, dns

VERSION = 1
PORTS = "portMappings"


class NetworkRequest:
    """A request to connect a pod to networks.

    ``networks`` are pairs (name, CNI arguments), ``ports`` are CNI port mappings, and
    ``config_directories`` are the directories of network configurations, highest precedence first.
    """

    __slots__ = (
        "config_directories",
        "hostname",
        "namespace_path",
        "networks",
        "ports",
        "state_directory",
        "uuid",
    )

    def __init__(
        self,
        uuid: str,
        namespace_path: str,
        networks: list[tuple[str, str]],
        ports: list[dict[str, Any]],
        state_directory: str,
        config_directories: list[str],
        hostname: str = "",
    ) -> None:
        self.uuid = uuid
        self.namespace_path = namespace_path
        self.networks = networks
        self.ports = ports
        self.state_directory = state_directory
        self.config_directories = config_directories
        self.hostname = hostname


def plan(request: NetworkRequest) -> dict[str, Any]:
    """Decide how to connect a pod to its networks; return the content of its net-info.json.

    Changes nothing on the host.  Raises NetworkError if a network is unknown or its configuration
    is invalid, UsageError if the pod's networks cannot forward its ports.
    """
    requested = net_option.parse(
        [f"{name}:{arguments}" if arguments else name for name, arguments in request.networks]
    )
    if request.ports:
        net_option.refuse_ports(requested)
    chosen: list[tuple[Configuration, str]] = []
    names = [name for name, _ in requested]
    if net_option.NONE not in names and net_option.HOST not in names:
        chosen = net_option.select(requested, load(request.config_directories))
    directories = plugin_directories(request.config_directories)
    networks = [
        _network(configuration, arguments, f"eth{i}", directories, request)
        for i, (configuration, arguments) in enumerate(chosen)
    ]
    if request.ports:
        _forward(networks, chosen, request.ports)
    info = {
        "version": VERSION,
        "uuid": request.uuid,
        "boot": pod_records.boot(),
        "namespace": "" if net_option.HOST in names else request.namespace_path,
        "identity": pod_records.namespace_identity(request.namespace_path),
        "stateDirectory": request.state_directory,
        "directories": list(directories),
        "firewall": firewall.find_tool() if networks else "",
        "networks": networks,
        "ports": request.ports,
        "dns": {},
    }
    for network in networks:
        for plugin in network["plugins"]:
            call_plugins.validate(plugin["program"], _call(info, network, plugin, None, ""))
    return info


def _network(
    configuration: Configuration,
    arguments: str,
    interface: str,
    directories: tuple[str, ...],
    request: NetworkRequest,
) -> dict[str, Any]:
    programs = configuration.uses_programs
    plugins = []
    for plugin in configuration.plugins:
        settings = dict(plugin)
        ipam = settings.get("ipam")
        if isinstance(ipam, dict) and ipam.get("type") == "host-local":
            settings["ipam"] = {"dataDir": request.state_directory, **ipam}
        program = call_plugins.find_plugin(plugin["type"], directories) if programs else ""
        plugins.append({"program": program, "configuration": settings})
    return {
        "name": configuration.name,
        "interface": interface,
        # Each plugin of a chain gets all arguments; IgnoreUnknown makes it accept another plugin's.
        "args": f"IgnoreUnknown=1;{arguments}" if arguments else "",
        "cniVersion": configuration.version,
        "programs": programs,
        "names": configuration.has_names,
        "plugins": plugins,
        "ip4": "",
        "ip6": "",
        "result": None,
    }


def _forward(
    networks: list[dict[str, Any]],
    chosen: list[tuple[Configuration, str]],
    ports: list[dict[str, Any]],
) -> None:
    """Add ``ports`` to the configuration of the network that forwards them.

    That network is the first one that masquerades, or the last one if none does.  ``chosen``
    contains (configuration, CNI arguments) for each of ``networks``.
    """
    masquerading = [i for i, (configuration, _) in enumerate(chosen) if configuration.masquerades]
    plugins = networks[masquerading[0] if masquerading else -1]["plugins"]
    able = [
        plugin["configuration"]
        for plugin in plugins
        if (plugin["configuration"].get("capabilities") or {}).get(PORTS) is True
    ]
    if not able:
        able = [{"type": "portmap", "capabilities": {PORTS: True}}]
        plugins.append({"program": "", "configuration": able[0]})
    for settings in able:
        settings["runtimeConfig"] = {**settings.get("runtimeConfig", {}), PORTS: ports}


def set_up(request: NetworkRequest) -> dict[str, Any]:
    """Connect a pod to its networks; return the content of its net-info.json.

    If this raises NetworkError, the pod is connected to no network.
    """
    return carry_out(plan(request))


def carry_out(info: dict[str, Any]) -> dict[str, Any]:
    """Connect a pod to its networks, and return ``info`` with the plugins' results added.

    ``info`` is the result of ``plan``, the content of net-info.json.  If this raises NetworkError,
    the pod is connected to no network.
    """
    if not info["namespace"]:
        return info
    if not info["identity"]:
        raise NetworkError(
            f"connect pod {info['uuid']} to its networks: "
            f'network namespace "{info["namespace"]}" not found'
        )
    from ociruntime.pods.net.builtin.loopback import bring_up

    bring_up(info["namespace"])
    if not info["networks"]:
        return info
    refuse_used(info["ports"])
    pod_records.write_record(
        info["stateDirectory"], info["uuid"], info["namespace"], info["identity"], info["ports"]
    )
    fault("network.after-note")
    done: list[dict[str, Any]] = []
    rules: list[Rules] = []
    try:
        for network in info["networks"]:
            done.append(network)
            rules += _join(info, network)
        _filter(info, rules)
    except BaseException as error:
        problems = tear_down({**info, "networks": done})
        if problems and isinstance(error, NetworkError):
            text = f"{error}; cleanup failed: {'; '.join(problems)}"
            raise NetworkError(text) from None
        raise
    info["dns"] = next((settings for one in done if (settings := dns(one["result"]))), {})
    return info


def give_names(info: dict[str, Any], names: Iterable[str], hosts: str) -> None:
    """Publish the pod's ``names``, so that other pods on the same networks can find the pod.

    Applies only to networks whose pods find each other by name.  ``info`` is the content of the
    pod's net-info.json.  ``hosts`` is the path of the pod's own hosts file, or "" if that file is
    not to be written.
    """
    networks = {
        network["name"]: [address for address in (network["ip4"], network["ip6"]) if address]
        for network in info["networks"]
        if network["names"]
    }
    if networks:
        from ociruntime.pods.net import pod_names

        pod_names.join(info["stateDirectory"], info["uuid"], names, hosts, networks)


def refuse_used(ports: list[dict[str, Any]]) -> None:
    """Raise NetworkError if a program on the host listens on a host port in ``ports``.

    ``ports`` are CNI port mappings.
    """
    import socket
    from errno import EADDRINUSE

    kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
    for port in ports:
        kind = kinds.get(port["protocol"])
        if kind is None or ":" in port["hostIP"]:
            continue
        trial = socket.socket(socket.AF_INET, kind)
        try:
            if kind == socket.SOCK_STREAM:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((port["hostIP"], port["hostPort"]))
        except OSError as error:
            host_port = f"{port['hostIP'] or '*'}:{port['hostPort']}/{port['protocol']}"
            hint = "stop the program that listens on it, or publish another port"
            hint = hint if error.errno == EADDRINUSE else ""
            raise NetworkError(f"forward host port {host_port}: {reason(error)}", hint) from None
        finally:
            trial.close()


def _filter(info: dict[str, Any], rules: list[Rules]) -> None:
    """Apply the packet filter ``rules`` of a pod, and enable forwarding from 127.0.0.1.

    Raises NetworkError if the packet filter tool fails or a sysctl cannot be set.
    """
    firewall.apply(info["firewall"], rules)
    fault("network.after-rules")
    for ruleset in rules:
        conntrack.forget(ruleset.forwards, ruleset.family)
        if ruleset.link and ruleset.family == 4:
            # Route packets from 127.0.0.1 through this link; the rules masquerade their source.
            set_sysctl(f"ipv4/conf/{ruleset.link}/route_localnet", "1")


def _join(info: dict[str, Any], network: dict[str, Any]) -> list[Rules]:
    """Connect the pod to ``network`` by calling ADD of its plugins; add the result to ``network``.

    Returns the packet filter rules that the built-in plugins need.  Raises NetworkError if a plugin
    fails.
    """
    result: dict[str, Any] = {}
    rules: list[Rules] = []
    for plugin in network["plugins"]:
        call = _call(info, network, plugin, result, info["namespace"])
        result = call_plugins.add(plugin["program"], call)
        fault("network.after-plugin")
        rules += call.rules
    network["result"] = result
    network["ip4"], network["ip6"] = addresses(result)
    return rules


def _call(
    info: dict[str, Any],
    network: dict[str, Any],
    plugin: dict[str, Any],
    previous: dict[str, Any] | None,
    namespace: str,
) -> PluginCall:
    configuration = {
        **plugin["configuration"],
        "cniVersion": network["cniVersion"],
        "name": network["name"],
    }
    if previous:
        configuration["prevResult"] = previous
    return PluginCall(
        info["uuid"],
        namespace,
        network["interface"],
        network["args"],
        configuration,
        tuple(info["directories"]),
        info["stateDirectory"],
        info["firewall"],
        network["programs"],
    )


def tear_down(info: dict[str, Any]) -> list[str]:
    """Disconnect a pod from its networks, in reverse order; return the error messages.

    ``info`` is the content of the pod's net-info.json.  Never raises an exception.  An interface,
    address or rule that no longer exists is not an error.
    """
    problems: list[str] = []
    try:
        namespace = info["namespace"]
        if not info["networks"]:
            return []
        state, uuid = info["stateDirectory"], info["uuid"]
        if not pod_records.has_record(state, uuid) and pod_records.namesake(state, uuid):
            return []  # never connected: interfaces and rules with its names are another pod's
        same = info["boot"] == pod_records.boot() and (
            pod_records.namespace_identity(namespace) == info["identity"]
        )
        calls = [
            _delete_call(info, network, plugin, namespace if same else "")
            for network in reversed(info["networks"])
            for plugin in reversed(network["plugins"])
        ]
        # Remove names and rules first: another pod may get the addresses as soon as they are free.
        if any(network.get("names") for network in info["networks"]):
            from ociruntime.pods.net import pod_names

            _try(problems, lambda: pod_names.leave(state, uuid))
        tags = [tag for program, call in calls for tag in call_plugins.tags(program, call)]
        _try(problems, lambda: firewall.remove(info["firewall"], tags))
        for program, call in calls:
            _try(problems, _deletion(program, call))
        if not problems:
            pod_records.forget(state, uuid)
    except (RuntimeFailure, OSError) as failure:
        problems.append(_text(failure))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problems.append(f"net-info.json is damaged: {error!r}")
    return problems


def _delete_call(
    info: dict[str, Any], network: dict[str, Any], plugin: dict[str, Any], namespace: str
) -> tuple[str, PluginCall]:
    call = _call(info, network, plugin, network["result"], namespace)
    program = plugin["program"]
    # If the program was uninstalled, the built-in plugin can undo what it has made.
    if program and call.configuration["type"] in call_plugins.BUILTIN and not os.access(program, 1):
        program = ""
    return program, call


def _deletion(program: str, call: PluginCall) -> Callable[[], None]:
    return lambda: call_plugins.delete(program, call)


def _try(problems: list[str], step: Callable[[], None]) -> None:
    try:
        step()
    except (RuntimeFailure, OSError) as failure:
        problems.append(_text(failure))


def _text(failure: RuntimeFailure | OSError) -> str:
    is_ours = isinstance(failure, RuntimeFailure)
    return str(failure if is_ours else unhandled("disconnect the pod from its networks", failure))


def check(info: dict[str, Any]) -> list[str]:
    """Call CHECK of all plugins of a pod's networks; return the error messages.

    ``info`` is the content of the pod's net-info.json.
    """
    problems = []
    for network in info["networks"]:
        for plugin in network["plugins"]:
            call = _call(info, network, plugin, network["result"], info["namespace"])
            try:
                call_plugins.check(plugin["program"], call)
            except (RuntimeFailure, OSError) as failure:
                problems.append(str(failure))
    return problems
