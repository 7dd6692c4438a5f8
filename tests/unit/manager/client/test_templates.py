"""Templates of ``--format``, each with its output, which docker's own client prints, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.manager.client.template_functions import Keys, Shape
from ociruntime.manager.client.templates import parse, render
from tests.support.docker_client import DockerClient

# A container as the daemon of docker describes it; what its client makes of it is the reference.
DOCUMENT: dict[str, Any] = {
    "Id": "ab" * 32,
    "Created": "2026-11-22T10:00:00.12Z",
    "Path": "/bin/sh",
    "Args": ["-c", "sleep 1"],
    "Name": "/web",
    "RestartCount": 2,
    "State": {"Status": "running", "Running": True, "Paused": False, "Pid": 4711, "ExitCode": 0},
    "HostConfig": {
        "Binds": ["/srv:/pages:ro", "data:/data"],
        "Memory": 67108864,
        "NanoCpus": 500000000,
        "NetworkMode": "default",
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
        "Dns": [],
    },
    "Mounts": [
        {"Type": "bind", "Source": "/srv", "Destination": "/pages", "RW": False},
        {"Type": "volume", "Name": "data", "Source": "/v/data", "Destination": "/data", "RW": True},
    ],
    "Config": {
        "Hostname": "web",
        "User": "",
        "Tty": False,
        "Env": ["PATH=/bin", "A=1", "B=<x>"],
        "Cmd": ["sh", "-c", 'echo "hi"'],
        "Entrypoint": None,
        "Labels": {"tier": "front", "com.example.a": "1", "empty": ""},
        "Image": "nginx:1.27",
    },
    "NetworkSettings": {
        "Ports": {
            "53/udp": None,
            "80/tcp": [
                {"HostIp": "0.0.0.0", "HostPort": "8080"},
                {"HostIp": "::", "HostPort": "8080"},
            ],
        },
        "Networks": {
            "back": {"IPAddress": "10.1.0.3", "Gateway": "10.1.0.1", "Aliases": ["web"]},
            "front": {"IPAddress": "10.2.0.3", "Gateway": "10.2.0.1", "Aliases": None},
        },
    },
}

# Template -> text, the same with docker.
SAME: dict[str, str] = {
    "": "",
    "plain text": "plain text",
    "{{.Name}}": "/web",
    "{{ .State.Status }}/{{.State.Pid}}": "running/4711",
    "{{.State.Running}} {{.State.Paused}}": "true false",
    "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}": "67108864 500000000",
    "{{.Config.Env}}": "[PATH=/bin A=1 B=<x>]",
    "{{.Config.Cmd}}{{.HostConfig.Dns}}": '[sh -c echo "hi"][]',
    "{{.Config.Labels}}": "map[com.example.a:1 empty: tier:front]",
    "{{.HostConfig.RestartPolicy}}": "{on-failure 3}",
    "{{json .Config.Env}}": '["PATH=/bin","A=1","B=<x>"]',
    "{{json .Name}} {{json .State.Running}} {{.RestartCount | json}}": '"/web" true 2',
    "{{json .HostConfig.Dns}}": "[]",
    "{{json .Config.Labels}}": '{"com.example.a":"1","empty":"","tier":"front"}',
    "{{.Config.Labels.tier}}": "front",
    '{{index .Config.Labels "tier"}}': "front",
    '{{index .Config.Labels "com.example.a"}}': "1",
    '[{{index .Config.Labels "none"}}]': "[]",
    "{{index .Config.Env 1}}": "A=1",
    "{{index .Args 0}} {{index .Args 1 | upper}}": "-c SLEEP 1",
    '{{(index (index .NetworkSettings.Ports "80/tcp") 0).HostPort}}': "8080",
    '{{(index .NetworkSettings.Ports "80/tcp" 1).HostIp}}': "::",
    "{{range .Config.Env}}{{.}};{{end}}": "PATH=/bin;A=1;B=<x>;",
    "{{range .Config.Env}}{{println .}}{{end}}": "PATH=/bin\nA=1\nB=<x>\n",
    "{{range .Mounts}}{{.Source}}:{{.Destination}} {{end}}": "/srv:/pages /v/data:/data ",
    "{{range $i, $m := .Mounts}}{{$i}}={{$m.Type}} {{end}}": "0=bind 1=volume ",
    "{{range $m := .Mounts}}{{$m.RW}} {{end}}": "false true ",
    "{{range .HostConfig.Dns}}{{.}}{{else}}none{{end}}": "none",
    "{{range $k, $v := .NetworkSettings.Networks}}{{$k}}:{{$v.IPAddress}} {{end}}": (
        "back:10.1.0.3 front:10.2.0.3 "
    ),
    "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}": "10.1.0.310.2.0.3",
    (
        "{{range $p, $c := .NetworkSettings.Ports}}{{if $c}}{{$p}}->{{(index $c 0).HostPort}} "
        "{{end}}{{end}}"
    ): "80/tcp->8080 ",
    "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}},{{end}}": "com.example.a=1,empty=,tier=front,",
    "{{range .Mounts}}{{$.Name}}{{end}}": "/web/web",
    '{{range .Config.Env}}{{if eq . "A=1"}}{{break}}{{end}}{{.}}{{end}}': "PATH=/bin",
    '{{range .Config.Env}}{{if eq . "A=1"}}{{continue}}{{end}}{{.}}{{end}}': "PATH=/binB=<x>",
    "{{range $i, $e := .Config.Env}}{{if $i}}, {{end}}{{$e}}{{end}}": "PATH=/bin, A=1, B=<x>",
    "{{if .State.Running}}up{{else}}down{{end}}": "up",
    "{{if .Config.User}}user{{end}}": "",
    "{{if .HostConfig.Dns}}a{{else if .State.Paused}}b{{else}}c{{end}}": "c",
    "{{if .State.Paused}}a{{else if .State.Running}}b{{else}}c{{end}}": "b",
    "{{if not .State.Paused}}a{{end}}": "a",
    "{{if and .State.Running (eq .State.ExitCode 0)}}fine{{end}}": "fine",
    "{{or .Config.User .Config.Hostname}} {{and .Config.User .Name}}|": "web |",
    "{{if or .State.Paused .State.Running}}x{{end}}": "x",
    "{{with .State}}{{.Pid}} {{$.Name}}{{end}}": "4711 /web",
    "{{with .Config.User}}{{.}}{{else}}root{{end}}": "root",
    "{{with $x := .State.Pid}}{{$x}}{{end}}": "4711",
    "{{$x := .Name}}{{$x}}{{$x = .Path}} {{$x}}": "/web /bin/sh",
    "{{$x := 1}}{{range .Args}}{{$x = 2}}{{end}}{{$x}}": "2",
    "{{$s := .State}}{{$s.Status}}": "running",
    "{{len .Mounts}} {{len .Name}} {{len .Config.Labels}} {{len .HostConfig.Dns}}": "2 4 3 0",
    '{{join .Config.Cmd " "}}': 'sh -c echo "hi"',
    '{{join .Config.Env "\\n"}}': "PATH=/bin\nA=1\nB=<x>",
    '{{split .Config.Image ":"}} {{index (split .Config.Image ":") 1}}': "[nginx 1.27] 1.27",
    "{{upper .State.Status}} {{.Path | upper | lower}} {{title .State.Status}}": (
        "RUNNING /bin/sh Running"
    ),
    '{{title "an old house"}}': "An Old House",
    '{{pad .State.Status 2 1}}|{{pad "" 3 3}}|': "  running ||",
    "{{truncate .Id 12}} {{truncate .Path 99}}": "abababababab /bin/sh",
    '{{slice .Name 1}} {{slice .Id 0 4}} {{slice "abc" 1 2}}': "web abab b",
    '{{printf "%s" .Name}}': "/web",
    '{{printf "%s is %s (%d)" .Name .State.Status .State.Pid}}': "/web is running (4711)",
    '{{.Name | printf "%s %s" "a"}}': "a /web",
    '{{printf "%-10s|%5d|%05d|%x" .Path 42 42 255}}': "/bin/sh   |   42|00042|ff",
    '{{printf "%q %v %t %%" .Name .Args true}}': '"/web" [-c sleep 1] true %',
    '{{printf "%.2f %6.1f %g" 1.5 2.25 0.5}}': "1.50    2.2 0.5",
    '{{printf "%.3s|%5s|%+d|%X" "abcdef" "ab" 3 255}}': "abc|   ab|+3|FF",
    '{{printf "%d" .Name}}': "%!d(string=/web)",
    '{{printf "%s %s" .Name}}': "/web %!s(MISSING)",
    '{{printf "%s" .Name .Path}}': "/web%!(EXTRA string=/bin/sh)",
    '{{printf "%x" "hi"}}': "6869",
    '{{print .Name .Path 1 2 "a" 3}}': "/web/bin/sh1 2a3",
    "{{println .Name 1}}": "/web 1\n",
    '{{eq .State.Status "running"}} {{eq .RestartCount 1 2}} {{ne .Name "x"}}': "true true true",
    '{{lt 1 2}} {{le 2 2}} {{gt .RestartCount 2}} {{ge 3 2}} {{lt "a" "b"}}': (
        "true true false true true"
    ),
    "a {{- .Path -}} b": "a/bin/shb",
    "a\n{{- /* nothing */ -}}\n b": "ab",
    "{{/* nothing */}}x": "x",
    "x {{- if true }} y {{ end -}} z": "x y z",
    '{{"{{"}}.Name}}': "{{.Name}}",
    '{{`raw \\n`}}{{"}}"}}': "raw \\n}}",
    '{{"tab\\there \\x41 \\u00e9 \\\\ \\""}}': 'tab\there A \u00e9 \\ "',
    "{{'a'}} {{0x10}} {{-3}} {{1.5}} {{1e3}} {{true}}": "97 16 -3 1.5 1000 true",
    "{{(.State).Status}} {{(index .Mounts 0).Source}}": "running /srv",
    '{{ if eq (index .Config.Labels "tier") "front" }}f{{ end }}': "f",
    "{{with .HostConfig}}{{with .RestartPolicy}}{{.Name}}:{{.MaximumRetryCount}}{{end}}{{end}}": (
        "on-failure:3"
    ),
    '{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}}{{end}}{{end}}': "data",
    "{{.Name}}\\t{{.Path}}\\n": "/web\\t/bin/sh\\n",
    '{{ .Name|printf "%s"|len }}': "4",
    "{{not true}} {{not .Config.User}} {{not .Mounts}}": "false true false",
    "{{range $i, $_ := .Args}}{{$i}}{{end}}": "01",
    '{{with index .Config.Labels "none"}}a{{else}}b{{end}}': "b",
}
# What docker accepts: it takes numbers for text, and ignores a bar at the end.
LENIENT = (
    "{{index .State.Pid 0}}",
    "{{len .State.Pid}}",
    '{{eq .State.Pid "a"}}',
    "{{.Name |}}",
)
# What cannot be parsed or filled, also with docker: template -> position, words.
WRONG: dict[str, tuple[int, str]] = {
    "{{.Name": (1, "the action "),
    "{{}}": (1, "empty"),
    "{{Name}}": (3, 'unknown function "Name"'),
    "ab {{.Nmae}}": (6, 'unknown field "Nmae"'),
    "{{.Name.First}}": (3, 'unknown field "Name.First"'),
    "{{if .Name}}": (3, '"if" has no'),
    "{{end}}": (1, 'unexpected "end"'),
    "{{else}}": (1, 'unexpected "else"'),
    "{{range .Name}}{{end}}": (3, "cannot iterate"),
    "{{range .State.Running}}{{end}}": (3, "cannot iterate"),
    "{{index .Args 9}}": (3, "out of range"),
    '{{index .Args "a"}}': (3, "not a number"),
    "{{index .State.Pid 0}}": (3, "cannot index"),
    "{{len .State.Pid}}": (3, "no length"),
    "{{join .Name}}": (3, "wrong number"),
    '{{join .State "a"}}': (3, "not a list"),
    "{{upper .State.Pid}}": (3, "not a string"),
    '{{eq .State.Pid "a"}}': (3, "cannot compare"),
    "{{lt .State.Running true}}": (3, "cannot compare"),
    "{{$x}}": (3, "undefined variable"),
    "{{$x = 1}}": (8, "undefined variable"),
    "{{break}}": (3, "outside of"),
    "{{.Name | 3}}": (11, "cannot take"),
    "{{.Name .Path}}": (3, "takes no arguments"),
    "{{1 2}}": (5, "takes no arguments"),
    "{{(.Name}}": (3, "not closed"),
    "{{.Name)}}": (8, 'unexpected ")"'),
    "{{|}}": (3, "missing"),
    "{{.Name |}}": (1, "missing"),
    '{{"a}}': (3, 'unexpected """'),
    "{{and}}": (3, "wrong number"),
    "{{slice .Name 9}}": (3, "out of range"),
    "{{.Name ~}}": (9, 'unexpected "~"'),
}


def shaped(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the document with the keys that users have chosen marked as such."""
    if isinstance(value, list):
        return [shaped(one) for one in value]
    if not isinstance(value, dict):
        return value
    free = ("Labels", "Ports", "Networks")
    return {k: Keys(shaped(v)) if k in free else shaped(v) for k, v in value.items()}


@pytest.mark.parametrize("text", SAME)
def test_text(text: str) -> None:
    assert render(parse(text), shaped(DOCUMENT)) == SAME[text]


@pytest.mark.parametrize("text", WRONG)
def test_errors_name_the_position(text: str) -> None:
    position, words = WRONG[text]
    with pytest.raises(UsageError) as caught:
        render(parse(text), shaped(DOCUMENT))
    assert f"--format: character {position}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.fixture(scope="module")
def docker() -> Iterator[DockerClient]:
    with DockerClient(DOCUMENT) as client:
        yield client


def test_docker_prints_the_same(docker: DockerClient) -> None:
    found = {text: docker.inspected(text).stdout.removesuffix("\n") for text in SAME if text}
    assert found == {text: printed for text, printed in SAME.items() if text}


def test_docker_refuses_the_same(docker: DockerClient) -> None:
    accepted = [text for text in WRONG if docker.inspected(text).returncode == 0]
    assert set(accepted) == set(LENIENT)


def test_text_of_a_container_is_escaped() -> None:
    """Images and containers must not control the terminal."""
    hostile = {"Name": "a\x1b[2J\nb", "Labels": Keys({"x\x1b": "\x9b1m"}), "Args": ["\x1bc"]}
    for text, printed in {
        "{{.Name}}": "a\\x1b[2J\\nb",
        "{{println .Name}}": "a\\x1b[2J\\nb\n",
        '{{printf "%s\\n" .Name}}': "a\\x1b[2J\\nb\n",
        "{{printf .Name}}": "a\\x1b[2J\\nb",
        '{{join .Args "\\t"}}{{.Args}}': "\\x1bc[\\x1bc]",
        "{{upper .Name}}": "A\\x1b[2J\\nB",
        "{{pad .Name 1 0}}{{truncate .Name 2}}{{slice .Name 1 2}}": " a\\x1b[2J\\nba\\x1b\\x1b",
        '{{split .Name "J"}}': "[a\\x1b[2 \\nb]",
        "{{.Labels}}": "map[x\\x1b:\\x9b1m]",
        "{{range $k, $v := .Labels}}{{$k}}{{end}}": "x\\x1b",
        "{{json .}}": json.dumps(hostile, separators=(",", ":")),
    }.items():
        assert render(parse(text), hostile) == printed.replace("\\x9b", "\\u009b"), text


def test_names_in_any_spelling_and_methods() -> None:
    dot = Shape(
        {"Names": "web", "Status": "Up"},
        {"exit_code": 3, "status": "running"},
        {"Label": lambda name: f"<{name}>"},
    )
    text = '{{.Names}} {{.names}} {{.ExitCode}} {{.Status}} {{.status}} {{.Label "a"}} {{json .}}'
    printed = 'web web 3 Up running &{a} {"Names":"web","Status":"Up"}'.replace("&{a}", "<a>")
    assert render(parse(text), dot) == printed
    with pytest.raises(UsageError, match="wrong number"):
        render(parse("{{.Label}}"), dot)


def test_keys_of_a_user_may_contain_dots_and_dashes() -> None:
    dot = {"Labels": Keys({"com.example.tier": "back", "a-b": "1"})}
    assert render(parse("{{.Labels.com.example.tier}} {{.Labels.a-b}} {{.Labels.c}}."), dot) == (
        "back 1 ."
    )


def test_tabs_and_line_breaks_outside_of_actions() -> None:
    assert render(parse(r'{{.}}\t\n{{"\\t"}}', escapes=True), "a") == "a\t\n\\t"


@pytest.mark.parametrize(
    "text", ["{{" + "(" * 99 + "1}}", "{{if 1}}" * 99, "{{" + "(" * 9999 + "}}"]
)
def test_nesting_is_limited(text: str) -> None:
    with pytest.raises(UsageError, match="nested too deeply"):
        parse(text)


def test_chained_else_if_is_not_nesting() -> None:
    text = "{{if 0}}a" + "{{else if 0}}b" * 40 + "{{else}}c{{end}}"
    assert render(parse(text), None) == "c"
