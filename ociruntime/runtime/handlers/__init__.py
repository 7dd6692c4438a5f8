"""Handlers: they adapt a config.json if the kernel cannot execute its program (WebAssembly)."""
