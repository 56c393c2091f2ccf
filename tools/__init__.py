"""What the Makefile needs beside the package itself."""
