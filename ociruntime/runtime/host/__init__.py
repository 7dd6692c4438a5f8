"""Operations outside the container: state store, processes, hooks, console, seccomp."""
