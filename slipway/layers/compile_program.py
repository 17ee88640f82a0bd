"""Run by the image's Python, never imported by the driver: sources on stdin, byte-code on stdout.

A question is (length of the name, length of the source) as two 4-byte numbers, the name, the source; an answer a
status byte (0: byte-code, 1: why there is none), a length, and that. Little-endian. Ends at the end of stdin.

The bytes of a .pyc must not depend on what was compiled before it, by which process, on which machine. marshal writes
FLAG_REF on every object that anybody else holds a reference to. Most of a code object belongs to that code alone; what
it shares with the process are small numbers and the like, which exist once and for ever, and interned strings, on which
marshal always sets the flag (CPython 3.11 and later). One thing is left: strings of one character also exist once per
process, and stay interned once some module uses them as a name. All of them are interned before the start.
Sets are written in the order of their marshalled members, whatever the hash seed, which is fixed too.
With that, 26,150 modules compiled in three orders by one process of 3.11 gave the same bytes. With 3.13, 3 of 6,000
did not, so the driver also starts a process per wheel and asks for its modules in sorted order.
"""

import _imp
import importlib.util
import marshal
import struct
import sys

_QUESTION = struct.Struct("<II")
_ANSWER = struct.Struct("<BI")
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: hash-based, and the source is not looked at when importing


def pyc(source: bytes, name: str) -> bytes:
    """The .pyc of a module whose file will be called `name`. Raises SyntaxError or ValueError."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    digest = _imp.source_hash(importlib.util._RAW_MAGIC_NUMBER, source)  # type: ignore[attr-defined]
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + digest + marshal.dumps(code)


def main() -> None:
    for number in range(256):
        sys.intern(chr(number))
    sys.intern("")
    read, write = sys.stdin.buffer, sys.stdout.buffer
    while len(head := read.read(_QUESTION.size)) == _QUESTION.size:
        name_length, length = _QUESTION.unpack(head)
        name = read.read(name_length).decode()
        source = read.read(length)
        try:
            status, answer = 0, pyc(source, name)
        except (SyntaxError, ValueError, RecursionError) as error:
            status, answer = 1, f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        write.write(_ANSWER.pack(status, len(answer)) + answer)
        write.flush()


if __name__ == "__main__":
    main()
