"""Handlers rewrite a config.json whose program the kernel cannot execute, such as WebAssembly."""
