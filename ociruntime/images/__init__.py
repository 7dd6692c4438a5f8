"""Images: fetching them, the store, and the rendered trees that pods mount."""
