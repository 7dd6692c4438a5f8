"""The commands ``network create``, ``ls``, ``inspect``, ``rm`` and ``prune``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.tables_and_times import tabbed
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import is_confirmed, remove_each
from ociruntime.manager.client.docker_inspect import network
from ociruntime.manager.client.filter_option import as_query
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.inspect import show_each
from ociruntime.manager.client.new_container import labels_of
from ociruntime.manager.client.options import FILTER, FORCE, FORMAT, INSPECT_FORMAT, NO_LEGEND
from ociruntime.manager.client.refused_options import refused

_TITLES = ["NAME", "DRIVER", "SUBNET", "CONTAINERS"]
_FILTERS = ("name", "driver", "label", "dangling", "type")
_QUESTION = "Remove all networks that no container uses?"
_LISTS = {"subnet": "subnets", "gateway": "gateways"}


def run_create(connection: Connection, arguments: Arguments) -> int:
    """Create a network and print its name.

    Raises UsageError for an unknown ``--driver``.
    """
    if (driver := arguments.text("driver", "bridge")) != "bridge":
        raise UsageError(f'--driver: unknown driver "{driver}"', "supported: bridge")
    body: dict[str, object] = {"name": arguments.positional[0]}
    body.update({_LISTS[name]: arguments.list(name) for name in _LISTS if arguments.list(name)})
    body.update({name: True for name in ("internal", "ipv6") if arguments.flag(name)})
    if labels := labels_of(arguments.list("label")):
        body["labels"] = labels
    return write(f"{connection.post(resource('networks'), body)['name']}\n")


def run_ls(connection: Connection, arguments: Arguments) -> int:
    """Print a table of the networks.

    Raises UsageError for an invalid ``--filter`` or ``--format``.
    """
    query = as_query(arguments.list("filter"), _FILTERS)
    networks = connection.get(resource("networks", filters=query))
    if form := chosen(arguments):
        shown = networks if form == "json" else [network(one) for one in networks]
        return write(formatted(shown, form))
    if arguments.flag("quiet"):
        return write("".join(f"{one['name']}\n" for one in networks))
    rows = [] if arguments.flag("no-legend") else [_TITLES]
    for one in networks:
        subnets = ", ".join(subnet["subnet"] for subnet in one["subnets"])
        rows.append(
            [one["name"], one["driver"], subnets or "-", ", ".join(one["containers"]) or "-"]
        )
    return write(tabbed(rows))


def run_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print networks as JSON; return 1 if a network is not found.

    Raises UsageError for an invalid ``--format``.
    """
    return show_each(arguments, lambda name: network(connection.get(resource("networks", name))))


def run_rm(connection: Connection, arguments: Arguments) -> int:
    """Remove networks and print their names; with ``--force``, ignore missing networks."""
    return remove_each(connection, "networks", arguments)


def run_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove unused networks and print their names."""
    if not is_confirmed(arguments, _QUESTION):
        return 0
    removed = connection.post(resource("networks", "prune"))["removed"]
    return write("".join(f"{name}\n" for name in removed))


def run_change(connection: Connection, arguments: Arguments) -> int:
    """Refuse ``network connect`` and ``disconnect``.  Always raises UsageError."""
    del connection, arguments
    raise UsageError(
        "the networks of an existing container cannot be changed",
        "create the container again with --network=NETWORK[,NETWORK...]",
    )


COMMANDS = (
    Command(
        "network create NAME",
        "create a network whose containers find each other by name",
        run_create,
        options=(
            Option(
                "subnet",
                "subnet (default: a free one)",
                "ADDRESS/BITS",
                kind="list",
                details="At most one IPv4 and one IPv6 subnet.",
            ),
            Option("gateway", "address of the host in the subnet", "IP", kind="list"),
            Option("internal", "deny access to other networks"),
            Option("ipv6", "add an IPv6 subnet"),
            Option("label", "set metadata", "KEY[=VALUE]", kind="list"),
            Option("driver", "driver: bridge", "DRIVER", short="d"),
            *refused("network create"),
        ),
        details=(
            "Containers on the network reach each other by name, short ID and alias. From\n"
            "other networks, only published ports can be reached. Prints the name."
        ),
        examples=(
            (
                "Create a network, then `run -d --network back --name db postgres`",
                "ocictl network create back",
            ),
        ),
    ),
    Command(
        "network ls",
        "list networks",
        run_ls,
        options=(
            Option("quiet", "print only names", short="q"),
            NO_LEGEND,
            FILTER,
            FORMAT,
            Option("no-trunc"),
        ),
        details=(
            "Filters: name, driver, label, dangling (true: no container uses it),\n"
            "type (custom or builtin)."
        ),
        examples=(("List unused networks", "ocictl network ls --filter dangling=true"),),
    ),
    Command(
        "network inspect NETWORK...",
        "show details of networks as JSON",
        run_inspect,
        options=(INSPECT_FORMAT, *refused("network inspect")),
        examples=(
            (
                "Print the addresses of a network's containers",
                "ocictl network inspect --format '{{.Addresses}}' back",
            ),
        ),
    ),
    Command(
        "network rm NETWORK...",
        "remove networks",
        run_rm,
        options=(Option("force", "ignore networks that do not exist", short="f"),),
        details="Refuses to remove a network that a container uses, even if it is stopped.",
    ),
    Command(
        "network prune",
        "remove all networks that no container uses",
        run_prune,
        options=(
            FORCE,
            *refused("network prune"),
        ),
        details="Removes only networks created by `network create`.",
    ),
    Command(
        "network connect NETWORK CONTAINER",
        "",
        run_change,
        options=refused("network connect"),
    ),
    Command(
        "network disconnect NETWORK CONTAINER",
        "",
        run_change,
        options=refused("network disconnect"),
    ),
)
