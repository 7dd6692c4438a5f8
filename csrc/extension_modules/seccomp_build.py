"""Build description of ``ociruntime._seccomp``, the binding of libseccomp.

``setup.py`` takes ``ffibuilder`` from here; ``python csrc/extension_modules/seccomp_build.py``
builds the module in place.  The work is done in ``seccomp.c``, in one call for a whole profile: one
crossing from Python to C instead of one for each system call.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent

ffibuilder = FFI()

ffibuilder.cdef(
    """
    struct filter_rule { uint32_t action; uint32_t names; uint32_t conditions; };
    struct filter_condition {
        uint64_t argument; uint64_t operator; uint64_t first; uint64_t second;
    };
    struct filter_request {
        uint32_t default_action;
        uint32_t optimize;
        const uint32_t *architectures;
        uint32_t architecture_count;
        uint32_t rule_count;
        const struct filter_rule *rules;
        const struct filter_condition *conditions;
        const char *names;
    };
    #define FILTER_DEFAULT_ACTION ...
    #define FILTER_ARCHITECTURE ...
    #define FILTER_RULE ...
    #define FILTER_EXPORT ...
    struct filter_result {
        uint32_t stage;
        uint32_t index;
        void *program;
        size_t size;
        uint32_t *highest;
        uint32_t *unknown;
        uint32_t unknown_count;
    };
    static int filter_compile(const struct filter_request *request, struct filter_result *result);
    static void filter_free(struct filter_result *result);
    static uint32_t filter_native(void);
    static int filter_number(const char *name);
    static void filter_version(unsigned int *parts);
    static int filter_flags_known(unsigned int flags);
    static int filter_action_known(uint32_t action);
    """
)

ffibuilder.set_source(
    "ociruntime._seccomp",
    (HERE / "seccomp.c").read_text(encoding="utf-8"),
    libraries=["seccomp"],
    extra_compile_args=[
        *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fstack-protector-strong"),
        *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
    ],
    extra_link_args=["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"],
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as build:
        built = Path(ffibuilder.compile(tmpdir=build))
        target = HERE.parents[1] / "ociruntime" / built.name
        shutil.copy(built, target)
    print(target)
