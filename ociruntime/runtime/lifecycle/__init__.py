"""The lifecycle: one file a verb, the order of things and what undoes them."""
