"""Handlers, which adapt a config.json whose program the kernel cannot execute (WebAssembly)."""
