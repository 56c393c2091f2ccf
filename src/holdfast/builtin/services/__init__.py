"""Services that Holdfast provides to agents itself."""
