"""A command of an environment that leaves a process which nobody can recognise: in a session of
its own, orphaned, without environment and descriptors, in the topmost control group if that is
allowed, and with files in /proc that only root may read. Its pid is appended to the file of
BROOD_FAULT; then the command becomes the program that its arguments name.
"""
import contextlib
import os
import pathlib
import sys

note = os.open(os.environ["BROOD_FAULT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
HIDE = f"""
import ctypes, os, signal
ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
os.write({note}, b"%d\\n" % os.getpid())
os.closerange(0, 1024)
signal.pause()
"""

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            if " - cgroup2 " in line:
                with contextlib.suppress(OSError):
                    pathlib.Path(line.split()[4], "cgroup.procs").write_text("0")
        os.set_inheritable(note, True)
        os.execve(sys.executable, [sys.executable, "-c", HIDE], {})
    os._exit(0)
os.wait()
os.close(note)
os.execv(sys.argv[1], sys.argv[1:])
