"""Command lines of ociruntime, ocipod, ocictl and ocid: parsed, and their values converted.

An input is a list of words separated by line feeds; the first byte selects the program.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments, parse, parse_command
from ociruntime.manager.client import new_container
from ociruntime.manager.client.command_table import PROGRAM as CLIENT
from ociruntime.manager.daemon.options import OPTIONS as DAEMON_OPTIONS
from ociruntime.pods.cli.command_table import PROGRAM as PODS
from ociruntime.pods.manifest.app_arguments import PodArguments, pod_request
from ociruntime.pods.manifest.build_manifest import empty_manifest, limits_of
from ociruntime.pods.manifest.request import SandboxRequest, from_options
from ociruntime.runtime.cli.help import PROGRAM as RUNTIME
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS
from tests.fuzz.mutation import change_lines
from tests.fuzz.target import Target, refusals

PROGRAMS = {b"r": RUNTIME, b"p": PODS, b"c": CLIENT}
_COMMANDS = {key: program.commands for key, program in PROGRAMS.items()}  # loads their modules
_NEW = ("run", "create")  # commands of ocictl that make a container


def _runtime(argv: list[str]) -> None:
    """Do what runtime/cli/main.py does before it calls the command."""
    arguments = Arguments()
    at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
    if at == len(argv):
        return
    command = next((each for each in _COMMANDS[b"r"] if each.name == argv[at]), None)
    if command is not None:
        parse_command(argv[at + 1 :], command, GLOBAL_OPTIONS, arguments)
        _check(arguments)


def _check(arguments: Arguments) -> None:
    assert all(isinstance(number, int) for number in arguments.numbers.values())
    assert all(isinstance(word, str) for word in arguments.positional)


def _program(key: bytes, argv: list[str]) -> None:
    arguments = Arguments(as_runc=False)
    request = PROGRAMS[key].read(argv, arguments, [])
    if not isinstance(request, tuple):
        return
    command, parsed = request
    if isinstance(parsed, PodArguments):
        _pod(parsed)
    elif key == b"c" and command.name in _NEW and parsed.positional:
        image, *words = parsed.positional
        new_container.spec_of(parsed, image, words)
    elif key == b"p" and command.name == "app sandbox":
        from_options(SandboxRequest, parsed)


def _pod(parsed: PodArguments) -> None:
    request = pod_request(parsed)
    empty_manifest(request)
    for app in request.apps:
        limits_of(app)


def run(data: bytes) -> None:
    key, words = data[:1], data[1:].decode("utf-8", "surrogateescape").split("\n")
    if any("\0" in word for word in words):
        return  # execve(2) passes none
    with refusals():
        if key == b"r":
            _runtime(words)
        elif key == b"d":
            parse(words, (DAEMON_OPTIONS,), Arguments(as_runc=False))
        elif key in PROGRAMS:
            _program(key, words)


def _sample(option: Option) -> list[str]:
    if option.kind in ("flag", "optional", "joined", "refused"):
        return [f"--{option.name}"]
    value = {"number": "5", "count": "5"}.get(option.kind, option.value.split("|")[0].lower())
    return [f"--{option.name}", value]


def _line(key: bytes, command: Command, options: tuple[Option, ...]) -> bytes:
    words = [
        *command.name.split(),
        *(word for option in options for word in _sample(option)),
        "a",
        "b",
    ]
    return key + "\n".join(words).encode()


_LINES = (
    (
        b"p",
        "run --net=host --port=80:8080 busybox --memory=64M --cpu=500m --env=A=1 -- sh -c x --- b",
    ),
    (
        b"p",
        "run --volume=a,kind=host,source=/tmp i --mount volume=a,target=/x --user 0",
    ),
    (
        b"c",
        "run -it --rm -p 8080:80/udp -v /tmp:/x:ro -e A=1 --name n --memory 64m --cpus 1.5 i sh",
    ),
    (
        b"c",
        "create --mount type=volume,source=a,target=/x --tmpfs /t:size=64k --ulimit nofile=1:2 i",
    ),
    (b"c", "run --network a --ip 10.0.0.2 --add-host h:1.2.3.4 --security-opt no-new-privileges i"),
    (
        b"c",
        "run --restart on-failure:3 --stop-signal INT --device /dev/null:/dev/x:rw --label a=b i",
    ),
    (b"r", "--root /r --log /l --log-format json create --bundle /b --console-socket /s c1"),
    (b"r", "exec -t --env A=1 --cwd / --user 0:0 c1 sh -c x"),
    (b"r", "update --memory 64m --cpu-shares 5 c1"),
    (b"r", "kill --all c1 TERM"),
    (b"d", "--root /r --socket /s --group docker --debug"),
)


def seeds() -> Iterator[bytes]:
    for key, line in _LINES:
        yield key + line.replace(" ", "\n").encode()
    for key, commands in _COMMANDS.items():
        for command in commands:
            yield _line(key, command, ())
            for at in range(0, len(command.options), 8):
                yield _line(key, command, command.options[at : at + 8])
    yield b"d" + "\n".join(word for option in DAEMON_OPTIONS for word in _sample(option)).encode()
    yield b"c--help"
    yield b"pimage\n-h"


_WORDS: tuple[bytes, ...] = tuple(
    {
        f"--{option.name}".encode()
        for commands in _COMMANDS.values()
        for each in commands
        for option in each.options
    }
)
_VALUES = (b"", b"-", b"--", b"---", b"-1", b"0", b"1e9", b"64m", b"a=b", b"=", b":", b"1:2:3",
           b"/", b"a,b=c", b"\xff", b"\xc2\xb2", b"\xd9\xa3", b"9" * 20, b"9" * 5000,
           b"type=bind,source=/,target=/x", b"[::1]:80:80", b"1-2:3-4/tcp",
           b"default:mask=ffff")  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    words = data[1:].split(b"\n")
    at = rng.randrange(len(words) + 1)
    action = rng.randrange(5)
    if action == 0:
        words.insert(at, rng.choice(_WORDS))
        words.insert(at + 1, rng.choice(_VALUES))
    elif action == 1:
        words.insert(at, rng.choice(_VALUES))
    elif action == 2:
        words.insert(at, rng.choice(_WORDS) + b"=" + rng.choice(_VALUES))
    else:
        separator = rng.choice((b"\n", b"=", b":", b",", b"-"))
        return data[:1] + change_lines(data[1:], rng, separator)
    return data[:1] + b"\n".join(words[:60])


TARGET = Target(
    run,
    (
        "commandline/",
        "manager/client/new_container.py",
        "manager/client/mount_and_volume_options.py",
        "manager/client/isolation_options.py",
        "manager/client/limit_options.py",
        "manager/client/network_options.py",
        "pods/manifest/app_arguments.py",
        "pods/manifest/request.py",
    ),
    seeds,
    mutate,
)
