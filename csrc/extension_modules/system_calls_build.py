"""Build description of ``ociruntime._system_calls``: what Python cannot call itself.

The executor's start, single system calls, and saving and adopting a snapshot of the interpreter.

``setup.py`` takes ``ffibuilder`` from here.
"""

from __future__ import annotations

from cffi import FFI

ffibuilder = FFI()

ffibuilder.cdef(
    """
    struct oci_spawn {
        int executor_fd;
        int plan_fd;
        int sync_fd;
        int init_fd;
        int cgroup_fd;
        int times_fd;
        int streams[3];
        unsigned long clone_flags;
        unsigned long ignored;
        int pid;
        int pidfd;
        const char *failed;
    };
    int oci_spawn(struct oci_spawn *spawn);
    long oci_bpf(int command, void *attributes, unsigned int size);
    int oci_prctl(int option, unsigned long argument);
    int oci_setns(int fd, int kind);
    int oci_signalfd(uint64_t signals);
    int oci_unshare(int kinds);
    int oci_mount(const char *source, const char *target, const char *type, unsigned long flags,
                  const char *data);
    int oci_clone_mount(const char *path, int user_namespace);
    int oci_move_mount(int fd, const char *target);
    int oci_bind_privately(const char *path);
    long long oci_unique_mount_id(int fd);
    long long oci_mount_number(long long unique);
    int oci_unshare_fs(void);
    int oci_rename_noreplace(int old_dir, const char *old_name, int new_dir, const char *new_name);
    int oci_syncfs(int fd);
    int oci_detach_mount(const char *path);
    int oci_inotify(void);
    int oci_watch(int fd, const char *path, unsigned int events);
    int oci_unwatch(int fd, int watch);
    int oci_own_mounts(void);
    int oci_own_null(void);
    int oci_own_sysfs(void);
    int oci_freeze(int out, const char *program, const char *const *watched);
    const char *const *oci_thawed_arguments(void);
    const char *const *oci_thawed_environment(void);
    unsigned long oci_thawed_ignored_signals(void);
    """
)

ffibuilder.set_source(
    "ociruntime._system_calls",
    """
    #include "extension_modules/spawn_executor.h"
    #include "extension_modules/system_calls.h"
    #include "snapshot/freeze.h"
    """,
    sources=[
        "csrc/extension_modules/spawn_executor.c",
        "csrc/extension_modules/system_calls.c",
        "csrc/snapshot/freeze.c",
    ],
    include_dirs=["csrc"],
    extra_compile_args=[
        *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fstack-protector-strong"),
        *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
    ],
    extra_link_args=["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"],
)
