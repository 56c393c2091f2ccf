"""Ways out of the sandbox, each a program that prints PWNED if it got out.

Run as a script, it tries them all and prints what came of each as JSON; so it can be run as another user. Arguments: a
folder to work in, and a file of the host that must stay unread.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.plugins.plugin import EnvironmentSettings

LIMITS = {"memory_mib": 128, "processes": 64, "file_mib": 8}

BEGIN = """
import os
SECRET, VICTIM, PORT = os.environ["SECRET"], int(os.environ["VICTIM"]), int(os.environ["PORT"])
def pwned(*how): print("PWNED", *how)
def tried(how, call, *args):
    try:
        value = call(*args)
    except (OSError, ValueError, MemoryError):
        return None
    pwned(how, *args)
    return value
def writable(paths):
    for path in paths:
        try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError: continue
        pwned("can write to", path)
"""

KERNEL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def syscall(how, number, *args):
    if libc.syscall(number, *args) >= 0: pwned(how)
"""

END = "print('tried everything')"

_MODULES = ("fcntl", "glob", "mmap", "resource", "signal", "socket", "stat", "subprocess", "sys")
"""Imported where they are used: importing them all takes longer than most attempts."""

HARMLESS_OUTSIDE = {
    "reads a file of the host": "tried('read', lambda: open(SECRET).read())",
    "connects to a port of the host": "tried('connect', socket.create_connection, ('127.0.0.1', PORT))",
    "connects to an abstract socket": (
        "s = socket.socket(socket.AF_UNIX); tried('connect', s.connect, '\\0steadyhand-' + str(PORT))"
    ),
    "sees a process of the host": "tried('see', os.kill, VICTIM, 0)",
    "reads the environment of a process of the host": "tried('read', lambda: open(f'/proc/{VICTIM}/environ').read())",
    "hard-links a file of the host": "tried('link', os.link, SECRET, 'hard')",
    "creates a file in the root or in /dev": (
        "for place in ('/', '/dev', '/etc', '/usr'):\n"
        "    name = f'{place}/steadyhand-escape'\n"
        "    if tried('create', os.open, name, os.O_CREAT | os.O_WRONLY) is not None: os.remove(name)"
    ),
    "raises its own limits": (
        "tried('raise', resource.setrlimit, resource.RLIMIT_NPROC, (100000, 100000))\n"
        "tried('raise', resource.setrlimit, resource.RLIMIT_DATA, (2**40, 2**40))"
    ),
    "allocates without limit": (
        "tried('allocate', bytearray, 2**27)\n"
        "if (m := tried('map', mmap.mmap, -1, 2**27, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)): m.close()"
    ),
    "writes a file without limit": (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with open('huge', 'wb') as file:\n"
        "    tried('stretch', file.truncate, 2**24)\n"
        "    tried('write', lambda: (file.write(bytes(2**24)), file.flush()))\n"
        "os.remove('huge')"
    ),
    "forks without limit": (
        "children = []\n"
        "try:\n"
        "    for _ in range(80):\n"
        "        pid = os.fork()\n"
        "        if not pid: signal.pause(); os._exit(0)\n"
        "        children.append(pid)\n"
        "    pwned('forked', len(children))\n"
        "except OSError: pass\n"
        "for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)"
    ),
}
"""Harmless without a sandbox too, where they succeed."""

INSIDE = {
    "finds a descriptor of ours": (
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    if int(fd) > 2 and 'secret' in os.path.realpath(f'/proc/self/fd/{fd}'): pwned(fd)"
    ),
    "writes kernel settings": (
        "for top in ('/proc/sys', '/sys'):\n"
        "    for folder, _, files in os.walk(top): writable(f'{folder}/{name}' for name in files)\n"
        "writable(p for p in glob.glob('/proc/*') if not os.path.isdir(p) and not p.split('/')[2].isdigit())\n"
        "tried('open', lambda: os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))"
    ),
    "finds /sys": "os.path.exists('/sys') and pwned(); os.path.exists('/sys/fs/cgroup') and pwned()",
    "makes a device": (
        "for place in ('.', '/dev', '/tmp', '/dev/shm'):\n"
        "    for major, minor, kind in ((254, 0, stat.S_IFBLK), (8, 0, stat.S_IFBLK), (1, 1, stat.S_IFCHR)):\n"
        "        name = f'{place}/device'\n"
        "        tried('mknod', os.mknod, name, 0o666 | kind, os.makedev(major, minor))"
    ),
    "finds a device of the host": (
        "names = set(os.listdir('/dev')) - {'core', 'fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr',"
        " 'stdin', 'stdout', 'tty', 'urandom', 'zero', 'console'}\n"
        "if names: pwned(names)"
    ),
    "mounts": (
        "for args in ((b'none', b'/tmp', b'tmpfs', 0, 0), (b'none', b'/proc/sys', None, 32 | 4096, 0),\n"
        "             (b'none', b'/usr', None, 32, 0), (b'cgroup', b'/tmp', b'cgroup', 0, b'memory'),\n"
        "             (b'/', b'/tmp', None, 4096, 0)):\n"
        "    if libc.mount(*args) == 0: pwned('mount', args)\n"
        "for path in (b'/proc/sys', b'/proc', b'/tmp', b'/usr'):\n"
        "    if libc.umount2(path, 2) == 0: pwned('umount', path)\n"
        "for name, number in (('fsopen', 430), ('open_tree', 428)): syscall(name, number, b'tmpfs', 0)"
    ),
    "makes a namespace": (
        "for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x02000000, 0x04000000, 0x08000000):\n"
        "    if libc.unshare(flag) == 0: pwned('unshare', hex(flag))\n"
        "    pid = libc.syscall(56 if os.uname().machine == 'x86_64' else 220, flag | 17, 0, 0, 0, 0)\n"
        "    if pid == 0: os._exit(0)\n"
        "    if pid > 0: pwned('clone', hex(flag))\n"
        "args = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)\n"
        "pid = libc.syscall(435, args, 64)\n"
        "if pid == 0: os._exit(0)\n"
        "if pid > 0: pwned('clone3')\n"
        "if subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).returncode == 0: pwned('unshare')"
    ),
    "enters a namespace": (
        "for path in glob.glob('/proc/1/ns/*') + glob.glob('/proc/self/ns/*'):\n"
        "    try: fd = os.open(path, os.O_RDONLY)\n"
        "    except OSError: continue\n"
        "    if libc.setns(fd, 0) == 0: pwned('setns', path)"
    ),
    "changes its root": "tried('chroot', os.chroot, '.')",
    "traces a process of the host": "if libc.ptrace(16, VICTIM, 0, 0) == 0: pwned('ptrace')",
    "forges the report of its end": (
        "for path in glob.glob('/proc/[0-9]*/fd/*'):\n"
        "    if path.split('/')[2] != str(os.getpid()) and int(path.split('/')[-1]) > 2:\n"
        "        tried('reach', lambda: os.open(path, os.O_WRONLY | os.O_NONBLOCK))"
    ),
    "kills everything it can": (
        "tried('kill', os.kill, VICTIM, signal.SIGKILL)\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass"
    ),
    "uses the keyrings": (
        "machine = os.uname().machine == 'x86_64'\n"
        "syscall('keyctl', 250 if machine else 219, 0, -3, 0, 0, 0)\n"
        "syscall('add_key', 248 if machine else 217, b'user', b'escape', b'x', 1, -3)\n"
        "try: print('PWNED' * bool(open('/proc/keys').read()))\n"
        "except OSError: pass"
    ),
    "uses risky parts of the kernel": (
        "machine = os.uname().machine == 'x86_64'\n"
        "memory = ctypes.create_string_buffer(4096)\n"
        "syscall('io_uring', 425, 1, memory)\n"
        "syscall('userfaultfd', 323 if machine else 282, 1)\n"
        "syscall('bpf', 321 if machine else 280, 0, memory, 72)\n"
        "memory[4] = 112\n"
        "syscall('perf', 298 if machine else 241, memory, 0, -1, -1, 0)\n"
        "if machine: syscall('x32 unshare', 0x40000000 | 272, 0)"
    ),
    "types into a terminal": (
        "tried('open', open, '/dev/tty')\n"
        "ours, theirs = os.openpty()\n"
        "tried('type', fcntl.ioctl, theirs, 0x5412, b'x')\n"
        "os.setsid() if os.getpid() != os.getsid(0) else None\n"
    ),
    "changes the programs it is given": (
        "writable(['/proc/self/exe', '/proc/1/exe', sys.executable, os.path.realpath(sys.executable), os.__file__,\n"
        "          '/bin/sh', '/etc/passwd', '/etc/group', '/etc/hosts'])\n"
        "for folder in [sys.prefix, sys.base_prefix, *os.environ['PATH'].split(':')]:\n"
        "    tried('create', os.mkdir, folder + '/steadyhand-escape')"
    ),
    "gains privileges": (
        "status = open('/proc/self/status').read()\n"
        "if 'NoNewPrivs:\\t1' not in status: pwned('new privileges')\n"
        "for line in status.splitlines():\n"
        "    if line.startswith('Cap') and int(line.split()[1], 16): pwned(line)\n"
        "if os.getuid() == 0: pwned('root')\n"
        "tried('setuid', os.setuid, 0) if os.getuid() else None\n"
        "import shutil; shutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o6755)\n"
        "if subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip() == '0': pwned('setuid root')"
    ),
    "reads what is the user's": (
        "for path in ('/etc/shadow', '/etc/ssh', '/home', '/root/.ssh', '/root/.bashrc', '/var', '/run', '/srv',\n"
        "             os.path.dirname(SECRET)):\n"
        "    if os.path.exists(path): pwned(path)"
    ),
}


def programs(*, outside: bool) -> dict[str, str]:
    return HARMLESS_OUTSIDE if outside else {**HARMLESS_OUTSIDE, **INSIDE}


def _whole(program: str) -> str:
    used = [f"import {name}" for name in _MODULES if f"{name}." in program]
    kernel = [KERNEL] if "libc." in program or "syscall(" in program else []
    return "\n".join([*used, BEGIN, *kernel, program, END])


async def attempt_all(folder: Path, secret: Path, *, sandbox: bool) -> dict[str, str]:
    """What each program printed; without a sandbox, only those that are harmless outside one."""
    options = {"sandbox": True, **LIMITS} if sandbox else {}
    environment = LocalEnvironment(EnvironmentSettings(root=folder, trial_id="escape", options=options))
    leaked = os.open(secret, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    said: dict[str, str] = {}
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "600"]) as victim,  # noqa: ASYNC220 - the loop has nothing else to do
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0steadyhand-{port}")
        abstract.listen()
        given = {"SECRET": str(secret), "VICTIM": str(victim.pid), "PORT": str(port)}
        try:
            for name, program in programs(outside=not sandbox).items():
                ran = await environment.run([sys.executable, "-c", _whole(program)], env=given, timeout_s=120)
                said[name] = ran.stdout + ran.stderr
                if victim.poll() is not None:
                    said[name] += "PWNED: a process of the host was killed"
        finally:
            victim.kill()
            await environment.teardown()
            os.close(leaked)
    return said


if __name__ == "__main__":
    where, hidden, confined = sys.argv[1:]
    said_by_all = asyncio.run(attempt_all(Path(where), Path(hidden), sandbox=confined == "sandbox"))
    sys.stdout.write(json.dumps(said_by_all))
