"""The process that runs the JavaScript of mocks. Started by `javascript.py`, never imported.

It runs as a plain file in isolated mode, so it imports only the standard library and QuickJS. It reads one request per
line from its connection and answers with one line: `=` and JSON for a value, `!` and a JSON string for an error. Every
request gets its own context.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time

TYPE_CHECKING = False  # for type checkers only: importing `typing` would take time
if TYPE_CHECKING:
    from typing import Any

# Runs once per context, before any script, and keeps its own references to what it needs.
PRELUDE = r"""
(function () {
  "use strict";
  const { parse, stringify } = JSON;
  const { freeze } = Object;
  const SourceFunction = Function, RealDate = Date, RealPromise = Promise, imul = Math.imul;
  const RealError = Error, EngineError = InternalError, text_of = String;
  const join = Function.prototype.call.bind(Array.prototype.join);

  function seed_random(seed) {
    let state = seed >>> 0;
    Math.random = function random() {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  function stop_clock(now) {
    globalThis.Date = class Date extends RealDate {
      constructor(...given) { if (given.length === 0) { super(now); } else { super(...given); } }
      static now() { return now; }
    };
  }

  function refuse(key, value) {
    const where = key === "" ? "the value is" : "the value holds, at " + stringify(key) + ",";
    if (typeof value === "function") { throw new TypeError(where + " a function, which is not JSON"); }
    if (typeof value === "symbol") { throw new TypeError(where + " a symbol, which is not JSON"); }
    if (value instanceof RealPromise) { throw new TypeError(where + " a promise; await it first"); }
    return value;
  }

  function encode(value, limit) {
    const text = stringify(value, refuse);
    if (text === undefined) { return "=null"; }
    if (text.length > limit) {
      throw new RangeError("the value is " + text.length + " characters of JSON, more than the limit of " + limit);
    }
    return tagged("=", text);
  }

  // Adding long strings makes a rope, which the binding to Python cannot read; joining makes one flat string.
  function tagged(tag, text) {
    return join([tag, text], "");
  }

  function shorten(text) {
    return text.length > 1000 ? text.slice(0, 1000) + "..." : text;
  }

  function describe(thrown) {
    // Running out of memory surfaces as one of these; the host words it.
    if (thrown === null || thrown instanceof EngineError) { throw thrown; }
    if (thrown instanceof RealError) { return tagged("!", stringify(shorten(text_of(thrown)))); }
    const shown = typeof thrown === "object" ? stringify(thrown) : text_of(thrown);
    return tagged("!", stringify("threw " + shorten(shown)));
  }

  return function answer(line) {
    const { mode, names, values, source, seed, now, limit } = parse(line);
    let outcome = "?";
    try {
      const body = SourceFunction(...names, '"use strict"; return (' + source + "\n)");
      if (mode === "check") { return "=null"; }
      if (seed !== null) { seed_random(seed); }
      if (now !== null) { stop_clock(now); }
      const given = mode === "evaluate" ? parse(values, (_, value) => freeze(value)) : parse(values);
      let value = body(...given);
      if (mode === "call") {
        if (typeof value !== "function") { throw new TypeError("the source is not a function but " + typeof value); }
        value = value(...given);
      }
      if (!(value instanceof RealPromise)) { return encode(value, limit); }
      const settle = (finish) => (result) => {
        try { outcome = finish(result); } catch (thrown) { outcome = describe(thrown); }
      };
      value.then(settle((result) => encode(result, limit)), settle(describe));
    } catch (thrown) {
      return describe(thrown);
    }
    return () => outcome;
  };
})()
"""


def main() -> None:
    connection = int(sys.argv[1])
    sys.path.append(sys.argv[2])
    time_s, grace_s = map(float, sys.argv[3:5])
    memory_bytes, stack_bytes = map(int, sys.argv[5:7])
    # This process starts faster without pathlib and socket.
    with open(os.devnull, "w") as silent, open(connection, "rb") as requests:  # noqa: PTH123
        ready = _fresh_context(memory_bytes, stack_bytes, time_s)
        _send(connection, b"ready\n")
        for line in requests:
            # Native loops of QuickJS ignore its own time limit. This ends the process from outside the interpreter,
            # and does so even when the parent is gone.
            faulthandler.dump_traceback_later(time_s + grace_s, exit=True, file=silent)
            try:
                reply = _run(*ready, line.decode("ascii"), time_s)
            except Exception as error:  # noqa: BLE001 - the parent reports it
                reply = "!" + json.dumps(_worded(error, memory_bytes, time_s))
            finally:
                faulthandler.cancel_dump_traceback_later()
            _send(connection, reply.encode("utf-8") + b"\n")
            # Prepared in advance, while nobody waits.
            ready = _fresh_context(memory_bytes, stack_bytes, time_s)


def _send(connection: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(connection, view) :]


def _fresh_context(memory_bytes: int, stack_bytes: int, time_s: float) -> tuple[Any, Any]:
    context = _engine().Context()
    context.set_memory_limit(memory_bytes)
    context.set_max_stack_size(stack_bytes)
    context.set_time_limit(time_s)
    return context, context.eval(PRELUDE)


def _engine() -> Any:
    """QuickJS. Its own package adds a pool of threads, which takes longer to import than all the rest."""
    try:
        return importlib.import_module("_quickjs")
    except ImportError:
        return importlib.import_module("quickjs")


def _run(context: Any, answer: Any, line: str, time_s: float) -> str:
    """The result of the source, as the line to send. Promises are awaited until they settle or time runs out."""
    deadline = time.monotonic() + time_s
    outcome = answer(line)
    if isinstance(outcome, str):
        return outcome
    while context.execute_pending_job():
        if time.monotonic() > deadline:
            return "!" + json.dumps(f"ran longer than the time limit of {time_s:g} s")
    settled = outcome()
    return settled if settled != "?" else "!" + json.dumps("returned a promise that never settles")


def _worded(error: Exception, memory_bytes: int, time_s: float) -> str:
    first = str(error).split("\n", 1)[0].strip()[:1000]
    memory = f"ran out of memory; the limit is {memory_bytes / 2**20:g} MiB"
    if first == "InternalError: interrupted":
        return f"ran longer than the time limit of {time_s:g} s"
    if first == "null":
        return f"threw null, or {memory}"
    if "out of memory" in first or "too long" in first:
        return f"{memory} ({first})"
    return first or type(error).__name__


if __name__ == "__main__":
    main()
