"""Handlers: translate a configuration whose program the kernel cannot execute."""
