"""The completions of bash, zsh and fish, tested in the shells themselves."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ociruntime.commandline.options import Command
from tests.support import project
from tools.programs import PROGRAMS, Program

NAMES = [program.name for program in PROGRAMS]
EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
EVERY_COMMAND = pytest.mark.parametrize(
    ("program", "command"),
    [
        pytest.param(program, command, id=f"{program.name} {command.name}")
        for program in PROGRAMS
        for command in program.commands
    ],
)
Complete = Callable[..., set[str]]

UUID = "0b9d2a6e-4a5c-4e8b-9b7f-2f6f0a6f7c01"
# What the programs print that the completions ask: the second row of a pod has no UUID.
SCRIPTS = {
    "ociruntime": """\
"list -q") printf "web\\nweb-2\\ndb\\n" ;;
"--root /other place list -q") echo elsewhere ;;
""",
    "ocipod": f"""\
"list --full --no-legend") printf "{UUID}\\tweb\\tx\\n\\tdb\\ty\\n" ;;
"image list --no-legend --fields=name") printf "busybox:1.36\\nbusybox:latest\\n" ;;
"app list --no-legend {UUID}") printf "web\\trunning\\ndb\\texited\\n" ;;
""",
    "ocictl": f"""\
"ps --all --format={{{{.Name}}}}") printf "web\\ndb\\n" ;;
"images --format={{{{.Name}}}}") printf "busybox:1.36\\nbusybox:latest\\n" ;;
"pod ls --quiet") echo {UUID} ;;
"network ls --quiet") printf "back\\nfront\\n" ;;
""",
    "ocid": "",
}
# Kind of an argument -> one that the scripts, or the directory of the test, have.
ONE_OF = {
    "container": "web",
    "pod": UUID,
    "image": "busybox:latest",
    "network": "back",
    "signal": "TERM",
    "directory": "bundle",
    "file": "file",
}


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The completion files, and stubs that list objects, with another set below another root."""
    made = tmp_path_factory.mktemp("share")
    command = [sys.executable, "tools/build_completions.py", str(made)]
    subprocess.run(command, check=True, cwd=project.ROOT)
    (made / "bin").mkdir()
    for name, cases in SCRIPTS.items():
        program = made / "bin" / name
        program.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}esac\n')
        program.chmod(0o755)
    (made / "here" / "bundle").mkdir(parents=True)
    (made / "here" / "file").touch()
    return made


BASH = """\
source "$1"; shift
compopt() { :; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
"_$1"
[[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "complete -C (string join ' ' -- $argv)"


def typed(words: Sequence[str]) -> list[str]:
    return [word.replace(" ", "\\ ") for word in words]


def bash(share: Path, *words: str) -> set[str]:
    file = share / "bash-completion/completions" / words[0]
    return answer(share, "bash", "--norc", "-c", BASH, "bash", str(file), *typed(words))


def fish(share: Path, *words: str) -> set[str]:
    file = share / "fish/vendor_completions.d" / f"{words[0]}.fish"
    lines = answer(share, "fish", "--no-config", "-c", f"source {file}; {FISH}", *typed(words))
    return {line.partition("\t")[0] for line in lines}


PROMPT = "what? "


class Zsh:
    """An interactive zsh: types a command line, and reads the completions that it lists."""

    def __init__(self, share: Path) -> None:
        child, self.terminal = pty.fork()
        if child == 0:
            os.chdir(share / "here")
            environment = {"PATH": path(share), "TERM": "dumb", "HOME": str(share)}
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.child = child
        for line in (
            f"fpath=({share}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -D -u",
            "zstyle ':completion:*' verbose no; zstyle ':completion:*' insert-tab no",
            f"stty -echo cols 200 rows 200; PS1='{PROMPT}'; LISTMAX=0",
            "unsetopt prompt_sp prompt_cr; bindkey '^I' list-choices; bindkey '^U' kill-whole-line",
        ):
            self.type(f"{line}\n")
        self.until_marked()

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def until_marked(self) -> str:
        """Return the output before the shell executes a command that is typed now.

        Waits for the prompt first: earlier input is edited by the terminal, not by zsh.
        """
        self.type("print mar''ked\n")
        text = ""
        while PROMPT not in text.partition("marked")[2]:
            text += os.read(self.terminal, 65536).decode(errors="replace")
        return text.partition("print mar")[0]

    def __call__(self, _: Path, *words: str) -> set[str]:
        line = " ".join(typed(words))
        self.type(f"{line}\t\x15")
        return set(self.until_marked().replace(line, " ").replace(PROMPT, " ").split())

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def path(share: Path) -> str:
    return f"{share}/bin:{os.environ['PATH']}"


def answer(share: Path, *command: str) -> set[str]:
    environment = {"PATH": path(share), "HOME": str(share)}
    here = share / "here"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines())


@pytest.fixture(scope="module", params=["bash", "fish", "zsh"])
def complete(request: pytest.FixtureRequest, share: Path) -> Iterator[Complete]:
    """Return the completions of a command line whose last word is unfinished."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    shell = Zsh(share) if request.param == "zsh" else {"bash": bash, "fish": fish}[request.param]
    yield lambda *words: shell(share, *words)
    if isinstance(shell, Zsh):
        shell.close()


def words_of(command: Command) -> list[str]:
    return command.name.split()


@EVERY_PROGRAM
def test_commands(complete: Complete, program: Program) -> None:
    assert complete(program.name, "") >= set(program.first_words)
    for first, members in program.members.items():
        names = {words_of(member)[1] for member in members}
        assert complete(program.name, first, "") >= names
        assert not complete(program.name, "") & (names - set(program.first_words))


def test_beginnings(complete: Complete) -> None:
    assert "delete" in complete("ociruntime", "de")
    assert "create" not in complete("ociruntime", "de")


@EVERY_PROGRAM
def test_options_of_every_command(complete: Complete, program: Program) -> None:
    shown = {f"--{option.name}" for option in program.options if option.help}
    assert shown <= {word.rstrip("=") for word in complete(program.name, "--")}


@EVERY_COMMAND
def test_every_option(complete: Complete, program: Program, command: Command) -> None:
    shown = {f"--{option.name}" for option in command.options if option.help}
    hidden = {f"--{option.name}" for option in command.options if not option.help} - shown
    offered = {w.rstrip("=") for w in complete(program.name, *words_of(command), "--")}
    assert shown <= offered
    assert not offered & hidden


@EVERY_COMMAND
def test_every_argument(complete: Complete, program: Program, command: Command) -> None:
    kinds, further = program.arguments(command)
    before: list[str] = []
    for kind in [*kinds, *([further] * 2 if further else [])]:
        if kind:
            offered = complete(program.name, *words_of(command), *before, "")
            assert ONE_OF[kind] in {word.rstrip("/") for word in offered}, (kind, before)
        before.append("something")


def test_containers(complete: Complete) -> None:
    for name in ("start", "state", "kill", "delete", "exec"):
        assert complete("ociruntime", name, "w") >= {"web", "web-2"}
        assert "db" not in complete("ociruntime", name, "w")


def test_containers_below_another_root(complete: Complete) -> None:
    assert "elsewhere" in complete("ociruntime", "--root", "/other place", "state", "")
    assert "elsewhere" not in complete("ociruntime", "--log", "/x", "state", "")


@pytest.mark.parametrize("name", ["create", "run"])
def test_new_names_are_not_completed(complete: Complete, name: str) -> None:
    assert "web" not in complete("ociruntime", name, "")


@pytest.mark.parametrize("command", ["attach", "logs", "export", "app start"])
def test_apps_of_a_pod(complete: Complete, command: str) -> None:
    words = ("ocipod", *command.split())
    assert complete(*words, UUID, "--app", "") >= {"web", "db"}
    assert "web" not in complete(*words, "another", "--app", "")


def test_choices(complete: Complete) -> None:
    assert complete("ociruntime", "--log-format", "") >= {"text", "json"}
    assert complete("ociruntime", "list", "--format", "") >= {"table", "json"}


def test_signals(complete: Complete) -> None:
    assert complete("ociruntime", "kill", "web", "") >= {"TERM", "KILL"}


def test_directories(complete: Complete) -> None:
    offered = complete("ociruntime", "create", "--bundle", "")
    assert {word.rstrip("/") for word in offered} >= {"bundle"}
    assert "file" not in offered


def test_words_of_another_program(complete: Complete) -> None:
    assert "--tty" not in complete("ociruntime", "exec", "web", "ls", "--")


def test_value_behind_an_equals_sign(share: Path) -> None:
    """Bash splits it into three words."""
    assert bash(share, "ociruntime", "--log-format", "=", "j") == {"json"}
    assert bash(share, "ociruntime", "--log-format", "=", "") >= {"json", "text"}
    assert "db" in bash(share, "ociruntime", "--log-format", "=", "json", "state", "")


@pytest.mark.parametrize("name", NAMES)
def test_bash_file_is_clean(share: Path, name: str) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    file = share / "bash-completion/completions" / name
    done = subprocess.run(["shellcheck", "-s", "bash", str(file)], capture_output=True, text=True)
    assert done.stdout == ""
