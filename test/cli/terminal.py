"""Runs a command in a pseudo-terminal: argv[1] is JSON {columns, rows, command, steps, seconds}; prints JSON.

A step waits until its `expect` has been written since the step before, then does one thing: `send` types text,
`signal` sends one to the process, `resize` changes the window. `cooked` says whether the terminal was left as a
shell wants it: lines are edited and keys echoed by the kernel.
"""

import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time


def resize(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    plan = json.loads(sys.argv[1])
    steps = list(plan["steps"])
    # the window must have its size before the command looks at it
    reader, writer = os.pipe()
    pid, fd = pty.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os.execvp(plan["command"][0], plan["command"])
    os.close(reader)
    resize(fd, plan["columns"], plan["rows"])
    os.close(writer)
    output = b""
    seen = 0
    cooked = None
    end = time.monotonic() + plan["seconds"]
    while True:
        if steps:
            at = output.find(steps[0].get("expect", "").encode(), seen)
            if at >= 0:
                step = steps.pop(0)
                seen = at + len(step.get("expect", "").encode())
                if "send" in step:
                    os.write(fd, step["send"].encode())
                if "signal" in step:
                    os.kill(pid, step["signal"])
                if "resize" in step:
                    resize(fd, *step["resize"])
        ready, _, _ = select.select([fd], [], [], 0.02)
        if ready:
            try:
                flags = termios.tcgetattr(fd)[3]
                cooked = bool(flags & termios.ICANON) and bool(flags & termios.ECHO)
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            if not data:
                break
            output += data
        if time.monotonic() > end:
            os.kill(pid, 9)
            break
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    text = output.decode(errors="replace")
    print(json.dumps({"output": text, "code": code, "cooked": cooked, "left": len(steps)}))


main()
