"""The process of a worker, for `forked_child`. It also imports what most workers import when they begin a run."""

import ctypes
import encodings.utf_8_sig

import httptools

import steadyhand.batch.local_worker
import steadyhand.builtin.agents.model
import steadyhand.builtin.environments.local
import steadyhand.builtin.evaluators.text
import steadyhand.builtin.evaluators.timing
import steadyhand.builtin.mocks.javascript
import steadyhand.builtin.models.scripted
import steadyhand.compose.executors
import steadyhand.compose.worker_child
from support.forked_child import main

__all__ = ["ctypes", "encodings", "httptools", "main", "steadyhand"]
