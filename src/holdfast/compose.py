"""Names and files -> built objects; the only module that knows all the parts."""
