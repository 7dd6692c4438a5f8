"""Looks for configs that runtimes understand differently."""
