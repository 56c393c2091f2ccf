"""Turns names and files into objects; the only package that knows all the parts."""
