"""The process of a `python:` agent, for `forked_child`. It also imports what most agents import in their first turn."""

import ctypes
import encodings.idna
import urllib.request

import opentelemetry.trace

import steadyhand.builtin.agents.python_child
from support.forked_child import main

__all__ = ["ctypes", "encodings", "main", "opentelemetry", "steadyhand", "urllib"]
