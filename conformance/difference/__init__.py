"""Search for configs that runtimes interpret differently (``oci-conformance diff``)."""
