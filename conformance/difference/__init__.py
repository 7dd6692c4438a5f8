"""Find configs that runtimes interpret differently."""
