"""Asks a server of `warm_program` or `command_server` to run a program, and ends with its exit code.

It hands over the arguments, the folder, the variables, and those of the standard input, output and errors that are
open; with `--file N` also the file whose number is argument N. Run as a script with `python -IS`, it imports nothing
that takes time, since its start is all that it costs.
"""

import _socket
import marshal
import os
import sys

LENGTH = 8
_STANDARD = (0, 1, 2)
_MOST_FILES = 4


def ask(address: str, arguments: list[str], more: tuple[int, ...] = ()) -> int:
    """The exit code, as in `subprocess`. Hands over `more` files than the standard ones."""
    # Before a socket takes the number of a closed one.
    handed = [file for file in (*_STANDARD, *more) if _is_open(file)]
    asked = marshal.dumps((handed, arguments, os.getcwd(), dict(os.environ)))  # noqa: PTH109
    connection = _socket.socket(_socket.AF_UNIX)
    connection.connect(address)
    files = b"".join(file.to_bytes(4, sys.byteorder) for file in handed)
    connection.sendmsg([len(asked).to_bytes(LENGTH)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    connection.sendall(asked)
    code = connection.recv(LENGTH)
    assert len(code) == LENGTH, "the server refused to run it"
    return int.from_bytes(code, signed=True)


def _is_open(file: int) -> bool:
    try:
        os.fstat(file)
    except OSError:
        return False
    return True


def asked_on(connection):
    """What a client asks on its connection: its files by number, the arguments, the folder and the variables."""
    import array

    length, ancillary, *_ = connection.recvmsg(LENGTH, _socket.CMSG_SPACE(_MOST_FILES * 4))
    wanted, got = int.from_bytes(length), b""
    while len(got) < wanted:
        more = connection.recv(wanted - len(got))
        if not more:
            raise EOFError
        got += more
    handed, arguments, folder, variables = marshal.loads(got)
    files = array.array("i", ancillary[0][2] if ancillary else b"")
    return dict(zip(handed, files, strict=True)), arguments, folder, variables


def take_over(files: dict[int, int]) -> None:
    """Gives this process a client's files under their numbers, and closes the standard ones that it does not have."""
    held = {number: out_of_the_way(file, files) for number, file in files.items()}
    for number in _STANDARD:
        if number not in held:
            os.close(number)
    for number, file in held.items():
        os.dup2(file, number)
        os.close(file)


def out_of_the_way(file: int, files: dict[int, int]) -> int:
    """The same file under a number that `take_over` needs for none of a client's."""
    import fcntl

    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, max((*files, *_STANDARD)) + 1)
    os.close(file)
    return moved


if __name__ == "__main__":
    if sys.argv[1] == "--file":
        _, _, at, server, *given = sys.argv
        code = ask(server, given, (int(given[int(at)]),))
    else:
        code = ask(sys.argv[1], sys.argv[2:])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)
