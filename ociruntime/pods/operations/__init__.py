"""Operations on pods: prepare, add and remove apps, exec, attach, export, stop."""
