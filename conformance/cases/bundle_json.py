"""bundle.md, and the rules for JSON in glossary.md."""

from __future__ import annotations

import json
import shutil
from typing import Any

from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context


def create_as_it_lies(c: Context, bundle: Bundle) -> None:
    """Require that create fails, without rewriting the bundle's config.json first."""
    c.failed(c.call("create", "--bundle", str(bundle.path), c.id()), "no config.json")


@case("BUNDLE-01")
def no_config(c: Context) -> None:
    """A bundle directory with a root filesystem but no config.json is rejected."""
    create_as_it_lies(c, c.bundle())


@case("BUNDLE-01")
def config_is_directory(c: Context) -> None:
    """A config.json that is a directory is rejected."""
    bundle = c.bundle()
    (bundle.path / "config.json").mkdir()
    create_as_it_lies(c, bundle)


@case("BUNDLE-02")
def config_below(c: Context) -> None:
    """A config.json in a subdirectory of the bundle is ignored."""
    bundle = c.bundle().save()
    (bundle.path / "config").mkdir()
    for place in ("config", "rootfs"):
        shutil.copy(bundle.path / "config.json", bundle.path / place)
    (bundle.path / "config.json").unlink()
    create_as_it_lies(c, bundle)


@case("BUNDLE-02")
def config_of_caller(c: Context) -> None:
    """A config.json in the caller's working directory does not replace the bundle's."""
    here, there = c.bundle(hostname="here"), c.bundle(hostname="there")
    here.save()
    c.equal(c.probe(there, cwd=here.path)["hostname"], "there", "hostname")


@table(("Config.json",), ("config.JSON",), ("config.jsn",), ids="BUNDLE-03")
def other_name(c: Context, name: str) -> None:
    """A file named {0} is not used as the configuration."""
    bundle = c.bundle().save()
    (bundle.path / "config.json").rename(bundle.path / name)
    create_as_it_lies(c, bundle)


@case("BUNDLE-03")
def right_name_wins(c: Context) -> None:
    """Only config.json is used if the bundle has files with similar names."""
    bundle = c.bundle(hostname="right").save()
    wrong = json.dumps({**bundle.config, "hostname": "wrong"})
    for name in ("Config.json", "config", "spec.json", "runtime.json"):
        (bundle.path / name).write_text(wrong)
    c.equal(c.probe(bundle)["hostname"], "right", "hostname")


@case("BUNDLE-04")
def moved_bundle(c: Context) -> None:
    """A bundle is self-contained: it works unchanged after a move to another directory."""
    bundle = c.bundle()
    (bundle.rootfs / "etc/mark").write_text("mark")
    bundle.path = bundle.save().path.rename(c.directory / "elsewhere")
    bundle.rootfs = bundle.path / "rootfs"
    facts = c.probe(bundle, "read=/etc/mark")
    c.equal(facts["read"]["/etc/mark"], "mark", "/etc/mark")


@table(("config",), ("hostname",), ("key",), ids="JSON-01")
def not_utf8(c: Context, place: str) -> None:
    """A config.json that is not valid UTF-8 is rejected ({0})."""
    bundle = c.bundle(hostname="box")
    text = json.dumps(bundle.config).encode()
    changed = {
        "config": text.decode().encode("utf-16"),
        "hostname": text.replace(b'"hostname": "box"', b'"hostname": "b\xe9x"'),
        "key": text.replace(b'"hostname": "box"', b'"b\xe9x": "box"'),
    }[place]
    c.expect(changed != text, "the case changed nothing")
    c.refused(bundle.raw(changed), f"bytes that are no UTF-8 ({place})")


@table(("plain", False), ("escaped", True), ids="JSON-01")
def utf8(c: Context, _name: str, ascii_only: bool) -> None:
    """Non-ASCII characters in the config reach the program unchanged ({0})."""
    word = "é€𝄞"
    bundle = c.bundle("echo " + word)
    text = json.dumps(bundle.config, ensure_ascii=ascii_only)
    c.equal(c.run(bundle.raw(text)).out.strip(), word, "what the program printed")


@table(
    ("top", '"hostname": "one"', '"hostname": "one", "hostname": "two"'),
    ("same value", '"hostname": "one"', '"hostname": "one", "hostname": "one"'),
    ("nested", '"cwd": "/"', '"cwd": "/", "cwd": "/tmp"'),
    ("in a list", '"type": "pid"', '"type": "pid", "type": "pid"'),
    ("annotation", '"a.b": "1"', '"a.b": "1", "a.b": "2"'),
    ("escaped", '"hostname": "one"', '"hostname": "one", "host\\u006eame": "two"'),
    ids="JSON-02",
)
def name_twice(c: Context, _name: str, once: str, twice: str) -> None:
    """A duplicate member name in an object is rejected ({0})."""
    bundle = c.bundle(hostname="one", annotations={"a.b": "1"})
    text = json.dumps(bundle.config)
    c.expect(once in text, "the case changed nothing")
    c.refused(bundle.raw(text.replace(once, twice, 1)), f"{twice}")


@case("JSON-02")
def same_name_elsewhere(c: Context) -> None:
    """The same member name in different objects is not a duplicate."""
    bundle = c.bundle(hostname="one", annotations={"hostname": "a", "process": "b", "root": "c"})
    c.equal(c.probe(bundle)["hostname"], "one", "hostname")


def _backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _backwards(value[key]) for key in reversed(value)}
    return [_backwards(one) for one in value] if isinstance(value, list) else value


@table(("backwards", _backwards), ("sorted", None), ids="JSON-03")
def member_order(c: Context, _name: str, change: Any) -> None:
    """The order of members in config.json makes no difference ({0})."""
    user = {"gid": 5, "uid": 3} if c.host.root else {"gid": 0, "uid": 0}
    bundle = c.bundle(hostname="box", process={"cwd": "/usr", "user": user})
    bundle.mount("/tmp", "tmpfs", "tmpfs", "size=64k").mount("/tmp/b", "tmpfs", "t", "size=32k")
    bundle.args("/bin/probe", "facts", "stat=/tmp/b")
    text = json.dumps(change(bundle.config) if change else bundle.config, sort_keys=not change)
    box = c.run(bundle.raw(text))
    facts = box.wait_for_reports()[0]
    shown = [facts[name] for name in ("hostname", "cwd", "uid", "gid")]
    c.equal(shown, ["box", "/usr", user["uid"], user["gid"]], "hostname, cwd, uid, gid")
    c.expect("error" not in facts["stat"]["/tmp/b"], "/tmp/b is not there")
