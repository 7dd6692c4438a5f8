"""The meaning of each argument of ``run`` depends on its position."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.manifest.app_arguments import PodArguments, parse_pod_arguments
from ociruntime.pods.manifest.app_options import APP_OPTIONS, PREPARE_OPTIONS, RUN_OPTIONS

POD = (*PREPARE_OPTIONS, *RUN_OPTIONS)


def read(text: str) -> PodArguments:
    return parse_pod_arguments(text.split(), POD, APP_OPTIONS)


def test_options_belong_to_the_image_before_them() -> None:
    said = read("--net=none one --name=a --exec /bin/sh -- -c x --name=c --- two --name b --net=n2")
    assert [app.image for app in said.apps] == ["one", "two"]
    assert [app.options.text("name") for app in said.apps] == ["a", "b"]
    assert [app.arguments for app in said.apps] == [["-c", "x", "--name=c"], None]
    assert said.options.text("net") == "none,n2"


def test_options_have_the_forms_of_every_command() -> None:
    said = read("--no-overlay one --readonly-rootfs=TRUE -user=1 --exec /bin/sh")
    assert said.options.flag("no-overlay")
    options = said.apps[0].options
    assert options.flag("readonly-rootfs")
    assert (options.text("user"), options.text("exec")) == ("1", "/bin/sh")


def test_options_of_the_program_stand_anywhere() -> None:
    program = Arguments(as_runc=False)
    table = (Option("debug", "x"), Option("dir", "x", "DIR"))
    words = ["--debug", "one", "--dir=/d", "--name=a"]
    said = parse_pod_arguments(words, POD, APP_OPTIONS, table, program=program)
    assert program.flag("debug")
    assert program.text("dir") == "/d"
    assert said.apps[0].options.text("name") == "a"


def test_no_arguments_are_not_none() -> None:
    assert read("one -- --- two --").apps[0].arguments == []


def test_arguments_of_a_single_image_may_be_anything() -> None:
    words = ["U", "one", "--name=a", "--", "x", "---", "--", "--name=b", "two"]
    said = parse_pod_arguments(words, (), APP_OPTIONS, leading=1, single=True)
    assert (len(said.apps), said.apps[0].arguments) == (1, words[4:])


def test_options_of_the_only_image_may_precede_it() -> None:
    said = read("--name=a --exec /bin/sh one --user=1 -- x")
    assert [app.image for app in said.apps] == ["one"]
    options = said.apps[0].options
    assert [options.text(name) for name in ("name", "exec", "user")] == ["a", "/bin/sh", "1"]
    assert said.apps[0].arguments == ["x"]
    # What a pod has, too, is the pod's there.
    said = read("--memory=1G --name=a one")
    assert (said.options.text("memory"), said.apps[0].options.text("memory")) == ("1G", "")


def test_images_without_arguments_may_be_separated() -> None:
    said = read("one --name=a --- two --name=b --- three -- x")
    assert [app.image for app in said.apps] == ["one", "two", "three"]
    assert [app.options.text("name") for app in said.apps] == ["a", "b", ""]
    assert [app.arguments for app in said.apps] == [None, None, ["x"]]


def test_mounts_before_an_image_are_every_apps() -> None:
    said = read("--mount volume=a,target=/a one --mount volume=b,target=/b")
    assert said.options.list("mount") == ["volume=a,target=/a"]
    assert said.apps[0].options.list("mount") == ["volume=b,target=/b"]


def test_leading_arguments_are_no_images() -> None:
    said = parse_pod_arguments(["uuid", "image", "--name=x"], (), APP_OPTIONS, leading=1)
    assert said.positional == ["uuid"]
    assert [app.image for app in said.apps] == ["image"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--name=a one two", "--name must"),
        ("--name=a", "--name must"),
        ("--- one", '"---" must'),
        ("-- x", '"--" must'),
        ("one -- a --- -- b", 'image "one": "--" is given twice'),
        ("one --memry=1", "unknown option --memry (did you mean --memory?)"),
        ("one ----name=a", "unknown option ----name"),
        ("one --cap=a", "unknown option --cap"),
        ("one --name", "--name requires a value"),
        ("one --readonly-rootfs=maybe", '--readonly-rootfs: invalid value "maybe"'),
        ("one --stdin=log", '--stdin: invalid value "log"'),
    ],
)
def test_what_cannot_be_understood(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(text)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["one --- two", "--- one", "-- x"])
def test_hints_for_a_single_image_do_not_offer_another(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_pod_arguments(["U", *text.split()], (), APP_OPTIONS, leading=1, single=True)
    assert "--- IMAGE" not in refused.value.hint


def test_a_separator_where_a_single_image_is_allowed() -> None:
    with pytest.raises(UsageError, match=r'^"---": .*one image'):
        parse_pod_arguments(["U", "one", "---"], (), APP_OPTIONS, leading=1, single=True)


def test_a_word_that_is_empty() -> None:
    with pytest.raises(UsageError, match='image "": '):
        parse_pod_arguments(["one", ""], POD, APP_OPTIONS)
