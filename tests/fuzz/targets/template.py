"""Templates of ``--format``: any text is refused with its position, or prints text."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ociruntime.manager.client.template_functions import FUNCTIONS, Keys, Null, Pairs, Shape
from ociruntime.manager.client.templates import parse, render
from tests.fuzz.target import Target, refusals
from tests.unit.manager.client.test_templates import DOCUMENT

_WORDS = ("{{", "}}", "{{- ", " -}}", ".", ".State", ".State.Running", ".Config.Labels", ".Mounts",
          "$", "$x", "$x := ", "$i, $m := ", "range ", "if ", "with ", "else", "else if ", "end",
          "{{end}}", "break", "continue", "|", "(", ")", '"%s"', '"%99d"', "-1", "0", "1.5", "'a'",
          "`a`", "true", "nil", "define ", "/* c */", "\\t", "²", "\ud800", ".Label", '"tier"',
          *FUNCTIONS)  # fmt: skip
_DOCUMENT = Shape(
    {
        **DOCUMENT,
        "Labels": Pairs({"tier": "front", "a.b": "1"}),
        "Keys": Keys({"k": "v\x1b[31m"}),
        "Null": Null(),
    },
    {"status": "running"},
    {"Label": lambda name: {"tier": "front"}.get(str(name), "")},
)
LARGEST = 1 << 22  # characters of an output


def run(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for escapes in (False, True):
        with refusals():
            printed = render(parse(text, escapes=escapes), _DOCUMENT)
            assert len(printed) < LARGEST, f"{len(printed)} characters"
            assert "\x1b" not in printed or "\x1b" in text, "a control sequence of a container"


def seeds() -> Iterator[bytes]:
    for text in (
        "{{.Id}} {{.State.Status}}",
        "{{range $i, $m := .Mounts}}{{$i}}:{{$m.Source}}{{else}}none{{end}}",
        "{{if and .State.Running (gt .RestartCount 1)}}a{{else if .Args}}b{{else}}c{{end}}",
        '{{with .Config}}{{index .Labels "tier"}}{{end}}{{- /* c */ -}} x',
        '{{json .HostConfig | printf "%s %10d" .RestartCount | println}}',
        '{{range .Args}}{{if eq . "-c"}}{{continue}}{{end}}{{break}}{{end}}',
        '{{$x := slice .Id 0 3}}{{$x = upper $x}}{{join (split $x "a") ","}}',
        '{{.Label "tier"}}\\t{{.Labels}}{{len .Mounts}}{{.Keys}}',
        "table {{.ID}}\\t{{.status}}",
        "{{pad .Id 3 4}}{{truncate .Id 5}}{{title .Path}}{{not .Null}}",
    ):
        yield text.encode()


def mutate(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(_WORDS) + text[at + rng.choice((0, 0, 0, 1, 4)) :]
    return text.encode("utf-8", "surrogatepass")


TARGET = Target(
    run,
    ("manager/client/templates.py", "manager/client/template_functions.py"),
    seeds,
    mutate,
    tuple(word for word in _WORDS if word.isascii()),
)
