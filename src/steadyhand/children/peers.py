"""Which process is at the other end of a connection on this machine, as the kernel says."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import Literal, NamedTuple

from steadyhand.children.daemons import has_limit, processes, program_of, tree
from steadyhand.children.room_program import KEEPER as ROOM_KEEPER

SocketAddress = tuple[str, int]
Sender = Literal["own", "marked", "foreign", "gone", "unknown"]

_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_USER_AT = 16 + 64  # after the netlink header, in the answer's `inet_diag_msg`
_ROOM_KEEPERS = ("bwrap", ROOM_KEEPER)
"""Processes around a room, which we may not look into. They hold no connection."""


class _Socket(NamedTuple):
    """`inode` is 0 if no process holds it any more."""

    user: int
    inode: int


def sender_of(pid: int, mark: str, peer: SocketAddress, ours: SocketAddress) -> Sender:
    """Whether the socket `peer`, connected to our socket `ours`, is held by this process or by something it started.

    What it started is below it. One that has left it is *marked* if it carries `mark`, which others could copy. *Gone*
    if nobody holds the socket any more; *unknown* on other systems, and if we may not look into the process.
    """
    found = _socket(peer, ours)
    if found is None:
        return "unknown"
    if not found.inode:
        return "gone"
    name = f"socket:[{found.inode}]"
    hidden = False
    family = [pid, *tree(pid)]
    for each in family:
        held = _holds(each, name)
        if held:
            return "own"
        hidden = hidden or (held is None and program_of(each) not in _ROOM_KEEPERS)
    for each in set(processes()).difference(family):
        if _holds(each, name):
            return "marked" if has_limit(each, mark) else "foreign"
    if hidden and found.user == os.getuid():
        return "unknown"
    again = _socket(peer, ours)
    return "foreign" if again is not None and again.inode else "gone"


def _holds(pid: int, name: str) -> bool | None:
    """Whether the process has this socket; None if we may not look."""
    folder = f"/proc/{pid}/fd"
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # closed meanwhile
                    if os.readlink(entry.path) == name:  # noqa: PTH115 - once for every descriptor
                        return True
    except PermissionError:
        return None
    except OSError:
        return False
    return False


def _socket(peer: SocketAddress, ours: SocketAddress) -> _Socket | None:
    """The socket at the other end; None if the system does not say."""
    try:
        return _by_netlink(peer, ours)
    except (OSError, AttributeError):
        return _in_table(peer, ours)


def _by_netlink(peer: SocketAddress, ours: SocketAddress) -> _Socket:
    addresses = b"".join(socket.inet_aton(host).ljust(16, b"\0") for host, _ in (peer, ours))
    identity = struct.pack(">HH", peer[1], ours[1]) + addresses + bytes(4) + _NO_COOKIE
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + identity
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as asking:  # NETLINK_SOCK_DIAG
        asking.settimeout(1.0)
        asking.send(struct.pack("=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body)
        answer = asking.recv(4096)
    if struct.unpack_from("=H", answer, 4)[0] != _SOCK_DIAG_BY_FAMILY:
        raise OSError("no such socket, or a kernel that answers no questions about one")
    return _Socket(*struct.unpack_from("=II", answer, _USER_AT))


def _in_table(peer: SocketAddress, ours: SocketAddress) -> _Socket | None:
    """The same from the table of all connections."""
    ends = [f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}" for host, port in (peer, ours)]
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return None
    rows = (fields for fields in map(str.split, lines) if fields[1:3] == ends)
    return next((_Socket(int(fields[7]), int(fields[9])) for fields in rows), _Socket(0, 0))
