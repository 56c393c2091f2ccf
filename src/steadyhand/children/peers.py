"""Which process is at the other end of a connection on this machine, as the kernel says."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import Literal

from steadyhand.children.daemons import has_limit, processes, tree

Endpoint = tuple[str, int]
Sender = Literal["own", "foreign", "gone", "unknown"]

_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_INODE_AT = 16 + 68  # after the netlink header, in the answer's `inet_diag_msg`


def sender_of(pid: int, mark: str, peer: Endpoint, ours: Endpoint) -> Sender:
    """Whether the socket `peer`, connected to our socket `ours`, is held by this process or by something it started.

    What it started is below it, or carries `mark`. *Gone* if nobody holds the socket any more; *unknown* on other
    systems, and if we may not look into the process.
    """
    inode = _inode(peer, ours)
    if not inode:
        return "unknown" if inode is None else "gone"
    name = f"socket:[{inode}]"
    hidden = False
    family = [pid, *tree(pid)]
    for each in family:
        held = _holds(each, name)
        if held:
            return "own"
        hidden = hidden or held is None
    for each in set(processes()).difference(family):
        if _holds(each, name):
            return "own" if has_limit(each, mark) else "foreign"
    if hidden:
        return "unknown"
    return "foreign" if _inode(peer, ours) else "gone"


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


def _inode(peer: Endpoint, ours: Endpoint) -> int | None:
    """The inode of the socket at the other end; 0 if nobody holds it any more, None if the system does not say."""
    try:
        return _by_netlink(peer, ours)
    except (OSError, AttributeError):
        return _in_table(peer, ours)


def _by_netlink(peer: Endpoint, ours: Endpoint) -> int:
    addresses = b"".join(socket.inet_aton(host).ljust(16, b"\0") for host, _ in (peer, ours))
    identity = struct.pack(">HH", peer[1], ours[1]) + addresses + bytes(4) + _NO_COOKIE
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + identity
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as asking:  # NETLINK_SOCK_DIAG
        asking.settimeout(1.0)
        asking.send(struct.pack("=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body)
        answer = asking.recv(4096)
    if struct.unpack_from("=H", answer, 4)[0] != _SOCK_DIAG_BY_FAMILY:
        raise OSError("no such socket, or a kernel that answers no questions about one")
    return int(struct.unpack_from("=I", answer, _INODE_AT)[0])


def _in_table(peer: Endpoint, ours: Endpoint) -> int | None:
    """The same from the table of all connections."""
    ends = [f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}" for host, port in (peer, ours)]
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return None
    return next((int(fields[9]) for fields in map(str.split, lines) if fields[1:3] == ends), 0)
