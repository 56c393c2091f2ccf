"""A trial as bytes: msgpack, compressed against a dictionary.

The dictionary is the first trial of the run. Trials of a run repeat each other's field names, file names and prompts,
so against it a short one takes a third of what it takes alone.
"""

from __future__ import annotations

import zlib

import msgspec

from holdfast.errors import StoreError
from holdfast.records.run import TrialRecord
from holdfast.store.plain import plain

_LEVEL = 3
_WINDOW = 32 * 1024
# A short trial needs no quarter of a megabyte of tables, which would be had from the system and cleared each time.
_SMALL = 8 * 1024
_SMALL_WINDOW = 13
_SMALL_MEMORY = 5
_decoder = msgspec.msgpack.Decoder(TrialRecord)


def encode(record: TrialRecord) -> bytes:
    """Raises `StoreError` when the record holds something that cannot be put in bytes by any means."""
    try:
        return msgspec.msgpack.encode(record, enc_hook=repr)
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        return msgspec.msgpack.encode(plain(record))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"trial {record.key} cannot be written: {error}") from error


def decode(data: bytes) -> TrialRecord:
    """Raises `StoreError` when the bytes are not a trial of this format."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreError(f"a trial of the run record cannot be read: {error}") from error


def dictionary_from(data: bytes) -> bytes:
    """As much of an encoded trial as helps to compress others."""
    return data[-_WINDOW:]


def compress(data: bytes, dictionary: bytes) -> bytes:
    small = len(data) <= _SMALL
    window, memory = (_SMALL_WINDOW, _SMALL_MEMORY) if small else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, memory, zdict=dictionary)
    return packer.compress(data) + packer.flush()


def decompress(data: bytes, dictionary: bytes) -> bytes:
    """Raises `StoreError` when the bytes are damaged."""
    unpacker = zlib.decompressobj(zdict=dictionary)
    try:
        found = unpacker.decompress(data) + unpacker.flush()
    except (zlib.error, TypeError) as error:
        raise StoreError(f"a trial of the run record is damaged: {error}") from error
    if not unpacker.eof:
        raise StoreError("a trial of the run record is damaged: it is cut short")
    return found
