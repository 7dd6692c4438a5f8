"""The rows of ``ocipod list`` and the options of ``ocipod status``."""

from __future__ import annotations

from ociruntime.commandline.parser import Arguments, parse
from ociruntime.pods.cli.command_table import PROGRAM
from ociruntime.pods.cli.pods import networks, pod_rows


def test_an_option_with_a_value_or_without() -> None:
    table = PROGRAM.command("status").options
    for argv, value in ((["--wait", "u"], "true"), (["--wait=5s", "u"], "5s"), (["u"], "")):
        arguments = Arguments()
        parse(argv, (table,), arguments)
        assert (arguments.text("wait"), arguments.positional) == (value, ["u"])


def test_further_apps_leave_the_pods_cells_empty() -> None:
    apps = [
        {"name": "a", "image_name": "one", "image_id": "sha256:12"},
        {"name": "b", "image_id": "sha256:" + "3" * 64},
    ]
    nets = [{"name": "default", "ip4": "172.16.28.2"}, {"name": "six", "ip6": "fd00::2"}]
    nets.append({"name": "left"})
    pod = {"name": "0" * 36, "state": "running", "apps": apps, "networks": nets}
    addresses = "default:ip4=172.16.28.2, six:ip6=fd00::2, left"
    assert networks(pod) == addresses
    assert pod_rows(pod, full=False) == [
        ["00000000", "a", "one", "running", "", "", addresses],
        ["", "b", "sha256:333333333333", "", "", "", ""],
    ]
    assert pod_rows(pod | {"apps": []}, full=True) == [
        ["0" * 36, "-", "-", "-", "running", "", "", addresses]
    ]
