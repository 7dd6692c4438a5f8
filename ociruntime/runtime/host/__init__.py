"""Operations outside the container: state directories, start gate, hooks, id maps, seccomp."""
