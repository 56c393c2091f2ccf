"""Names and files -> built objects; the only package that knows all the parts."""
