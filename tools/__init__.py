"""What the Makefile needs besides the package itself."""
