"""The filter on system calls in the sandbox, as bubblewrap's `--seccomp` reads it.

Namespaces and file permissions already stop most of what is refused here. The filter is a second barrier in front of
the parts of the kernel where bugs have been found, and the only barrier for a few that no namespace covers: the user's
keyrings, and typing into a terminal.
"""

from __future__ import annotations

import errno
import platform
import struct

from steadyhand.records.base import Record

_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

_TYPES_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_REFUSED = {
    # name: number on x86_64, number on every processor that came later (None: it has no such call)
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}


class Machine(Record):
    """The numbers of system calls on one kind of processor; those refused are in this `column` of `_REFUSED`. From
    `first_foreign` on they belong to another interface to the same calls."""

    audit: int
    clone: int
    ioctl: int
    column: int
    first_foreign: int | None = None


_CLONE3 = 435
_MACHINES = {
    "x86_64": Machine(audit=0xC000003E, clone=56, ioctl=16, column=0, first_foreign=0x40000000),
    "aarch64": Machine(audit=0xC00000B7, clone=220, ioctl=29, column=1),
    "riscv64": Machine(audit=0xC00000F3, clone=220, ioctl=29, column=1),
}

# Classic BPF: operation codes, and where `struct seccomp_data` has what we look at (the low halves of the arguments).
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _AUDIT, _FIRST, _SECOND = 0, 4, 16, 24
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def system_call_filter(machine: str | None = None) -> bytes | None:
    """The program for this kind of processor, or None where we do not know the numbers of its calls.

    Refused calls fail with EPERM. `clone3` does not exist (ENOSYS): its flags are out of a filter's reach, and programs
    then use `clone`. Calls of another processor's interface do not exist either.
    """
    calls = _MACHINES.get(platform.machine() if machine is None else machine)
    if calls is None:
        return None
    absent, refused = _ERRNO | errno.ENOSYS, _ERRNO | errno.EPERM
    program = [(_LOAD, 0, 0, _AUDIT), (_IF_EQUAL, 1, 0, calls.audit), (_RETURN, 0, 0, absent), (_LOAD, 0, 0, _NUMBER)]
    if calls.first_foreign is not None:
        program += [(_IF_AT_LEAST, 0, 1, calls.first_foreign), (_RETURN, 0, 0, absent)]
    program += [(_IF_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, absent)]
    for numbers in _REFUSED.values():
        number = numbers[calls.column]
        if number is None:
            continue
        program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, refused)]
    program += [(_IF_EQUAL, 0, 4, calls.clone), (_LOAD, 0, 0, _FIRST), (_IF_ANY_BIT, 0, 1, _NEW_NAMESPACE)]
    program += [(_RETURN, 0, 0, refused), (_RETURN, 0, 0, _ALLOW)]
    program += [(_IF_EQUAL, 1, 0, calls.ioctl), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _SECOND)]
    for request in _TYPES_INTO_TERMINAL:
        program += [(_IF_EQUAL, 0, 1, request), (_RETURN, 0, 0, refused)]
    program += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)
