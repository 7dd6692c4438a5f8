"""features.md, features-linux.md: the document itself, and properties for all platforms."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import isolation
from conformance.bundle import Bundle
from conformance.case import case
from conformance.clauses import version_key
from conformance.context import Context
from conformance.documents import is_semver
from conformance.features_document import faults, member, properties_after
from conformance.recognition import refused_among, unrecognized

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
# Options that file systems take as data, proc(5), tmpfs(5), mount(8).
DATA = frozenset(
    "size mode uid gid nr_inodes nr_blocks huge mpol newinstance ptmxmode hidepid subset max "
    "lowerdir upperdir workdir context fscontext defcontext rootcontext data errors".split()
)
# Annotations by which known runtimes change what they do, as far as a case can see it.
HOOK_OUTPUT = "run.oci.hooks.stdout"


@case("FEAT-01")
def same_elsewhere(c: Context) -> None:
    """The output of features is the same from another directory and environment."""
    here = c.features()
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "XDG_RUNTIME_DIR": "/nowhere"}
    c.equal(c.call("features", cwd=c.directory, env=env).json(), here, "features elsewhere")


@case("FEAT-01")
def same_without_sys(c: Context) -> None:
    """The output of features is the same if /sys shows nothing of the host."""
    c.need_root()
    here = c.features()
    isolation.mount("tmpfs", "/sys", "tmpfs")
    try:
        result = c.call("features")
    finally:
        isolation.unmount("/sys")
    c.expect(result.ok, f"features failed without /sys: {result.complaint}")
    c.equal(result.json(), here, "features without /sys")


@case("FEAT-02", "FEAT-12")
def form(c: Context) -> None:
    """Each property has the type that the schema defines, or is null."""
    c.equal(faults(c.features()), [], "faults")


@case("FEAT-02")
def unlisted_hooks(c: Context) -> None:
    """A hook kind missing from the list of hooks does not run: the list is complete."""
    listed = member(c.features(), "hooks")
    if listed is None:
        c.skip("the hooks are not told")
    for kind in set(HOOKS) - set(listed):
        bundle = c.bundle("exit 0").hook(kind)
        box, result = c.attempt_create(bundle)
        if result.ok and box.attempt("start").ok:
            box.wait()
            box.delete()
        c.equal(bundle.words(), [], f"{kind} is not listed, but ran")


@case("FEAT-03")
def lowest_version(c: Context) -> None:
    """The features document has a valid ociVersionMin."""
    version = c.features().get("ociVersionMin")
    c.expect(is_semver(version), f"ociVersionMin is {version!r}")


@case("FEAT-05")
def highest_version(c: Context) -> None:
    """The features document has a valid ociVersionMax."""
    version = c.features().get("ociVersionMax")
    c.expect(is_semver(version), f"ociVersionMax is {version!r}")


@case("FEAT-04")
def lowest_version_taken(c: Context) -> None:
    """A config of version ociVersionMin runs."""
    bundle = c.bundle("exit 7", ociVersion=c.features()["ociVersionMin"])
    c.equal(c.run(bundle).exit_status, 7, "exit status")


@case("FEAT-06")
def highest_version_taken(c: Context) -> None:
    """A config of version ociVersionMax runs."""
    bundle = c.bundle("exit 7", ociVersion=c.features()["ociVersionMax"])
    c.equal(c.run(bundle).exit_status, 7, "exit status")


@case("FEAT-07")
def order_of_versions(c: Context) -> None:
    """The highest version is not lower than the lowest."""
    found = c.features()
    low, high = str(found.get("ociVersionMin")), str(found.get("ociVersionMax"))
    c.expect(version_key(high) >= version_key(low), f"from {low} to {high}")


@case("FEAT-08")
def properties_of_version(c: Context) -> None:
    """Every property is defined by the specification, in ociVersionMax or earlier."""
    found = c.features()
    highest = str(found.get("ociVersionMax"))
    c.equal(properties_after(found, highest), [], f"properties that {highest} does not define")


@case("FEAT-09")
def listed_hooks(c: Context) -> None:
    """Hooks of each listed kind run."""
    listed = member(c.features(), "hooks")
    if listed is None:
        c.skip("the hooks are not told")
    bundle = c.bundle("exit 0")
    for kind in listed:
        bundle.hook(kind)
    box = c.run(bundle)
    box.delete()
    c.equal(set(listed) - set(bundle.words()), set(), "hooks that did not run")


@case("FEAT-10")
def listed_mount_options(c: Context) -> None:
    """Each listed mount option is recognized."""
    listed = member(c.features(), "mountOptions")
    if listed is None:
        c.skip("the mount options are not told")
    source = c.directory / "source"
    source.mkdir()
    # One container tells of all that need nothing else.
    special = {"tmpcopyup", "idmap", "ridmap", "remount"}

    def together(options: Sequence[str]) -> Bundle:
        bundle = c.bundle()
        for number, option in enumerate(options):
            bundle.bind(source, f"/mnt/{number}", option)
        return bundle

    def make(option: str) -> Bundle:
        bundle = c.bundle()
        if option == "tmpcopyup":
            return bundle.mount("/etc", "tmpfs", "tmpfs", option)
        if option in {"idmap", "ridmap"} and c.host.root:
            bundle.user_namespace()
        if option == "remount":
            bundle.bind(source, "/mnt")
        return bundle.bind(source, "/mnt", option)

    doubtful = refused_among(c, [one for one in listed if one not in special], together)
    doubtful += [one for one in listed if one in special]
    c.equal(unrecognized(c, doubtful, "bogus", make), [], "options that are not recognized")


@case("FEAT-11")
def no_data_options(c: Context) -> None:
    """Filesystem-specific mount options are not listed."""
    listed = member(c.features(), "mountOptions") or []
    found = [word for word in listed if "=" in word or word in DATA]
    c.equal(found, [], "options of single file systems")


@case("FEAT-12")
def annotations_of_features(c: Context) -> None:
    """The annotations are an object of strings without empty keys."""
    found = member(c.features(), "annotations")
    if found is None:
        c.skip("there are no annotations")
    c.expect(isinstance(found, dict), f"annotations is no object: {found!r}")
    bad = [key for key, value in found.items() if not key or not isinstance(value, str)]
    c.equal(bad, [], "keys that are empty or have no string")


@case("FEAT-13")
def unsafe_annotations(c: Context) -> None:
    """The list of unsafe annotations has only names, without duplicates."""
    found = member(c.features(), "potentiallyUnsafeConfigAnnotations")
    if found is None:
        c.skip("unsafe annotations are not told")
    c.expect(all(isinstance(name, str) and name for name in found), f"no names: {found}")
    c.equal(len(set(found)), len(found), "names that differ")


@case("FEAT-13")
def unsafe_annotation_listed(c: Context) -> None:
    """An annotation that redirects hook output to a file is listed as unsafe."""
    listed = member(c.features(), "potentiallyUnsafeConfigAnnotations")
    if listed is None:
        c.skip("unsafe annotations are not told")
    file = c.directory / "hook-output"
    bundle = c.bundle("exit 0", annotations={HOOK_OUTPUT: str(file)})
    c.run(bundle.hook("createRuntime", then=["echo word"]))
    covered = any(
        name == HOOK_OUTPUT or (name.endswith(".") and HOOK_OUTPUT.startswith(name))
        for name in listed
    )
    c.expect(covered or not file.exists(), f"{HOOK_OUTPUT} works, but is not listed")
