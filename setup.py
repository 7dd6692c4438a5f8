"""Builds what is not Python: executor, programs of pods, extension modules and launchers.

pyproject.toml holds everything else.  ``python setup.py build_native --prefix DIR``
builds all of it in place, with the programs in ``DIR/bin``; add
``--sanitize`` for an executor that checks itself, or ``--counting DIR`` for programs that count
what is executed of them, in DIR (``./dev coverage``).  CC, CPPFLAGS, CFLAGS and LDFLAGS
are honoured, after the project's own flags; CC may be a cross compiler.

With OCIRUNTIME_PORTABLE=1 the wheel is for every Linux with glibc 2.28 or newer: it has a copy of
libseccomp, and nothing in it may need a newer glibc (``tools/check_baseline.py``).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path
from typing import Any, ClassVar

import setuptools  # first: it brings the distutils of the next line
from distutils.command.build_scripts import build_scripts
from distutils.command.install_data import install_data

from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError

EXECUTOR_SOURCES = sorted(glob("csrc/executor/*.c"))
LIBC_SOURCES = sorted(glob("csrc/libc/*.c"))
EXECUTOR = "ociruntime/runtime/executor/_executor"
POD_INIT_SOURCES = sorted(glob("csrc/pod_init/*.c"))
POD_INIT = "ociruntime/pods/monitor/_pod_init"
HIBERNATION_SOURCES = ["csrc/hibernation/stub.c"]
HIBERNATION = "ociruntime/pods/monitor/_hibernation"
GUEST_SOURCES = sorted(glob("csrc/guest/*.c"))
GUEST = "ociruntime/pods/kvm/_guest"
# What `--pod-manifest` is checked against.
SCHEMAS = ["schemas/pod-manifest.schema.json"]
# Program -> sources.
LAUNCHERS = {
    "ociruntime": [
        *("csrc/launcher/ociruntime.c", "csrc/executor/walk.c"),
        *sorted(glob("csrc/fast_path/*.c")),
    ],
    "ocipod": ["csrc/launcher/ocipod.c"],
    "ocictl": ["csrc/launcher/ocictl.c"],
    "ocid": ["csrc/launcher/ocid.c"],
}
LAUNCHER_SOURCES = [
    *("csrc/launcher/interpreter.c", "csrc/snapshot/thaw.c", "csrc/executor/text.c"),
]
EXTENSIONS = [
    "csrc/extension_modules/system_calls_build.py:ffibuilder",
    "csrc/extension_modules/seccomp_build.py:ffibuilder",
]
INCLUDES = ["csrc/executor", "csrc"]
# Programs and where below share/ each writes.
MADE_FROM_TABLES = {"tools/build_man_pages.py": "man", "tools/build_completions.py": ""}

WARNINGS = ["-Wall", "-Wextra"]
# Only for developers: a compiler that is yet to come may warn of what is right.
STRICT = ["-Werror"]
# No -pie: a static position-dependent program starts without relocating itself.
RELEASE = [
    *("-O2", "-static", "-s", "-fno-pie", "-no-pie"),
    *("-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-fno-plt"),
    *("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"),
    *("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
]
# Processors for which csrc/libc can take the C library's place, and what that needs; last on
# the command line, because a packager's own flags may ask for parts of the C library.
OWN_LIBC_PROCESSORS = {"aarch64", "x86_64"}
OWN_LIBC = [
    *("-nostdlib", "-fno-builtin", "-mstack-protector-guard=global"),
    *("-fno-lto", "-fno-pie", "-no-pie", "-fno-asynchronous-unwind-tables"),
    "-Wl,-z,noseparate-code",
]
# A wheel for other machines, its oldest glibc, and the library that it brings along.
PORTABLE = os.environ.get("OCIRUNTIME_PORTABLE") == "1"
BASELINE = (2, 28)
BUNDLED = "libseccomp.so.2"
BUNDLE = "ociruntime/_bundled"
BUNDLED_LICENSE = "packaging/wheel/LICENSE.libseccomp"


def compiler(*arguments: str) -> str:
    """Return what the compiler answers."""
    command = [*shlex.split(os.environ.get("CC", "gcc")), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    """Return the processor that the compiler compiles for, as uname(1) names it."""
    return compiler("-dumpmachine").partition("-")[0]


# Away from where interpreters lie that are linked to a fixed address: a snapshot of one is mapped
# beside the launcher (csrc/snapshot/thaw.c).
LAUNCHER_ADDRESS = {"x86_64": ["-Wl,-Ttext-segment=0x70000000"]}
# gcc has no static address sanitizer.
SANITIZE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def counting(profiles: str) -> list[str]:
    """Return the flags of clang for programs that count what is executed, in a shared mapping.

    The counts survive SIGKILL, execve(2) and a change of the root, unlike those of gcov, which a
    process writes at its exit.
    """
    place = os.path.abspath(profiles)
    return [
        *("-O0", "-static", "-fcoverage-mapping", "-mllvm", "-runtime-counter-relocation"),
        f"-fprofile-instr-generate={place}/%m%c.profraw",
    ]


def saving_counts(profiles: str) -> list[str]:
    """Return what is linked to the guest program, so that the counts of a machine are kept."""
    place = f'-DCOUNTS="{os.path.abspath(profiles)}"'
    return [place, "-Wl,--wrap=reboot", "tools/save_guest_counts.c"]


def compile_small(directory: str, flags: list[str], guest_flags: list[str]) -> None:
    """Compile what stays with containers and pods: outside of virtual machines without libc."""
    small = (
        (EXECUTOR, EXECUTOR_SOURCES),
        (POD_INIT, POD_INIT_SOURCES),
        (HIBERNATION, HIBERNATION_SOURCES),
    )
    for name, sources in small:
        compile_with_own_libc(sources, os.path.join(directory, name), flags)
    compile_program(GUEST_SOURCES, os.path.join(directory, GUEST), [*flags, *guest_flags])


def compile_launchers(directory: str, flags: list[str]) -> None:
    """Compile the programs that start the interpreter."""
    for name, own in LAUNCHERS.items():
        sources = [*LAUNCHER_SOURCES, *own]
        address = LAUNCHER_ADDRESS.get(processor(), [])
        compile_with_own_libc(sources, f"{directory}/{name}", [*flags, *address])


def compile_with_own_libc(sources: list[str], target: str, flags: list[str]) -> None:
    """Compile a program without the C library, on processors that csrc/libc knows."""
    if processor() in OWN_LIBC_PROCESSORS and "-fcoverage-mapping" not in flags:
        compile_program([*sources, *LIBC_SOURCES], target, flags, OWN_LIBC)
    else:
        compile_program(sources, target, flags)


def compile_program(
    sources: list[str], target: str, flags: list[str], last: list[str] | None = None
) -> None:
    """Compile and link C ``sources`` to one program, which appears whole or not at all."""
    unfinished = f"{target}.new"
    extra = [shlex.split(os.environ.get(name, "")) for name in ("CPPFLAGS", "CFLAGS", "LDFLAGS")]
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    command = [
        *shlex.split(os.environ.get("CC", "gcc")),
        *("-std=c11", *WARNINGS, *flags),
        *(f"-I{directory}" for directory in INCLUDES),
        *(flag for flags in extra for flag in flags),
        *(last or []),
        *("-o", unfinished, *sources),
    ]
    print(shlex.join(command))
    if subprocess.run(command, check=False).returncode != 0:
        raise CompileError(f"cannot compile {target}")
    os.replace(unfinished, target)


class BuildPackage(build_py):
    """Put the executor and the archive of compiled modules into the package."""

    def run(self) -> None:
        """Build."""
        super().run()
        self.mkpath(os.path.join(self.build_lib, "ociruntime", "schemas"))
        for schema in SCHEMAS:
            self.copy_file(schema, os.path.join(self.build_lib, "ociruntime", schema))
        compile_small(self.build_lib, RELEASE, [])
        if PORTABLE:
            self._bundle()
        package = os.path.join(self.build_lib, "ociruntime")
        command = [sys.executable, "tools/build_archive.py", package, "--installed"]
        subprocess.run(command, check=True)

    def _bundle(self) -> None:
        """Put the library, under the name that the extension asks for, beside its licence."""
        place = Path(self.build_lib, BUNDLE)
        self.mkpath(str(place))
        library = Path(compiler(f"-print-file-name={BUNDLED}"))
        if not library.is_absolute():
            raise CompileError(f"cannot bundle {BUNDLED}: the compiler does not find it")
        shutil.copyfile(library, place / BUNDLED)
        shutil.copyfile(BUNDLED_LICENSE, place / Path(BUNDLED_LICENSE).name)


class BuildExtensions(build_ext):
    """The extension modules; in a portable wheel they find the library beside them."""

    def build_extension(self, ext: setuptools.Extension) -> None:
        """Build one."""
        if PORTABLE:
            ext.extra_link_args = [*ext.extra_link_args, "-Wl,-rpath,$ORIGIN/_bundled"]
        super().build_extension(ext)


class BuildLauncher(build_scripts):
    """Compile the launchers where setuptools would copy scripts."""

    build_dir: str

    def run(self) -> None:
        """Build."""
        compile_launchers(self.build_dir, RELEASE)


class InstallData(install_data):
    """Manual pages and the shells' completions, made from the tables of options."""

    def run(self) -> None:
        """Make and install."""
        made = Path(self.get_finalized_command("build").build_base, "share")
        for tool, directory in MADE_FROM_TABLES.items():
            subprocess.run([sys.executable, tool, str(made / directory)], check=True)
        self.data_files = [
            (str(Path("share", path.relative_to(made)).parent), [str(path)])
            for path in sorted(made.rglob("*"))
            if path.is_file()
        ]
        super().run()


# Before version 70, setuptools took it from another package.
BuildWheel: Any = setuptools.Distribution().get_command_class("bdist_wheel")


class Wheel(BuildWheel):  # type: ignore[misc]
    """The extension modules keep to the stable interface: one wheel for all interpreters."""

    def finalize_options(self) -> None:
        """Name the oldest interpreter and, of a portable wheel, the oldest glibc."""
        self.py_limited_api = "cp311"
        if PORTABLE:
            self.plat_name = "manylinux_{}_{}_{}".format(*BASELINE, processor())
        super().finalize_options()

    def run(self) -> None:
        """Build, and check that the wheel keeps what its name says."""
        super().run()
        if PORTABLE:
            (wheel,) = Path(str(self.dist_dir)).glob("*.whl")
            baseline = ".".join(map(str, BASELINE))
            command = [sys.executable, "tools/check_baseline.py", baseline, str(wheel)]
            subprocess.run(command, check=True)


class NativeDistribution(setuptools.Distribution):
    """Belongs into platform directories, with or without extension modules."""

    def has_ext_modules(self) -> bool:
        """Say so."""
        return True


class BuildNative(setuptools.Command):
    """Everything compiled, in the source tree: what development needs."""

    user_options: ClassVar[list[tuple[str, str | None, str]]] = [
        ("prefix=", None, "directory whose bin/ gets the launcher"),
        ("sanitize", None, "build only the executor, with address and undefined-behaviour checks"),
        ("counting=", None, "directory in which the programs count what is executed (clang)"),
        ("output=", None, "where the checking executor goes"),
    ]
    boolean_options: ClassVar[list[str]] = ["sanitize"]
    prefix: str | None
    sanitize: bool
    counting: str | None
    output: str | None

    def initialize_options(self) -> None:
        """Set defaults."""
        self.prefix = None
        self.sanitize = False
        self.counting = None
        self.output = None

    def finalize_options(self) -> None:
        """Nothing depends on other commands."""

    def run(self) -> None:
        """Build."""
        if self.sanitize:
            output = self.output or "build/sanitize/_executor"
            compile_program(EXECUTOR_SOURCES, output, SANITIZE + STRICT)
            return
        flags = counting(self.counting) if self.counting else RELEASE + STRICT
        compile_small("", flags, saving_counts(self.counting) if self.counting else [])
        if self.prefix:
            prefix = os.path.abspath(self.prefix)
            known = [f'-DINSTALLED_PREFIX="{prefix}"']
            compile_launchers(f"{prefix}/bin", [*flags, *known])
        extensions = self.get_finalized_command("build_ext")
        extensions.inplace = True
        extensions.force = True
        extensions.run()


setuptools.setup(
    scripts=[sources[0] for sources in LAUNCHERS.values()],
    data_files=[("share", [])],  # whatever InstallData makes
    cffi_modules=EXTENSIONS,
    distclass=NativeDistribution,
    cmdclass={
        "build_py": BuildPackage,
        "build_ext": BuildExtensions,
        "build_scripts": BuildLauncher,
        "bdist_wheel": Wheel,
        "install_data": InstallData,
        "build_native": BuildNative,
    },
)
