"""Images: where they come from, the store that keeps them, the trees that pods mount."""
