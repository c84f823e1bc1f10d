"""A command of an environment that first tries what programs need, and what no environment
may do, and then becomes the program that its arguments name. Each attempt is a line on stderr:
"probe NAME 0" if it succeeded, or the errno. The pid of a process outside is in BROOD_FAULT.
"""
import ctypes
import mmap
import multiprocessing
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
X86 = os.uname().machine == "x86_64"
NUMBERS = {"ptrace": (101, 117), "process_vm_readv": (310, 270), "kcmp": (312, 272),
           "sethostname": (170, 161), "clock_settime": (227, 112), "mount": (165, 40),
           "unshare": (272, 97), "syslog": (103, 116), "bpf": (321, 280), "add_key": (248, 217),
           "clone": (56, 220), "io_uring_setup": (425,) * 2, "pidfd_getfd": (438,) * 2,
           "clone3": (435,) * 2, "perf_event_open": (298, 241)}
PTRACE_SEIZE, NEW_USER_NAMESPACE, AF_PACKET = 0x4206, 0x10000000, 17
OUTSIDE = int(os.environ["BROOD_FAULT"])
assert OUTSIDE > 1


def call(name, *args):
    """A system call; raises OSError."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    n = libc.syscall(ctypes.c_long(NUMBERS[name][0 if X86 else 1]), *words)
    if n < 0:
        raise OSError(ctypes.get_errno(), name)
    return n


def read_memory(pid):
    byte = ctypes.create_string_buffer(1)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(byte), 1)
    call("process_vm_readv", pid, part, 1, part, 1, 0)


def trace(pid):
    call("ptrace", PTRACE_SEIZE, pid, 0, 0)


def get_descriptor(pid):
    call("pidfd_getfd", os.pidfd_open(pid), 0, 0)


def open_memory(pid):
    with open(f"/proc/{pid}/mem", "rb"):
        pass


def with_child(look):
    """Look into a child of this process."""
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        look(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def start_a_thread():
    t = threading.Thread(target=os.getpid)
    t.start()
    t.join()


def use_sockets():
    with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()):
        pass
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(b"\0brood-probe-%d" % os.getpid())


def share_memory():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    multiprocessing.get_context("fork").Semaphore(1).acquire()


def change_files():
    """Among others, move one to another folder."""
    with tempfile.TemporaryDirectory() as name:
        one, two = pathlib.Path(name, "one"), pathlib.Path(name, "two")
        one.mkdir()
        two.mkdir()
        (one / "a").write_text("a")
        (one / "a").rename(two / "b")
        os.link(two / "b", one / "c")
        os.chmod(one / "c", 0o600)
        os.mkfifo(one / "d")
        os.utime(one / "c")
        with (one / "c").open("r+b") as f:
            f.truncate(8192)
            mmap.mmap(f.fileno(), 4096)[0] = 1
            os.fsync(f.fileno())


def move_itself():
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(0)


def use_limits():
    """Its own, and in a child, the child's own; and read those of others."""
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, own)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (own[0], own[0]))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    resource.prlimit(OUTSIDE, resource.RLIMIT_NOFILE)


def start_a_program():
    p = subprocess.run(["/bin/sh", "-c", "exit 3"], check=False, start_new_session=True)
    assert p.returncode == 3, p


def signal_a_child():
    with_child(lambda child: signal.pidfd_send_signal(os.pidfd_open(child), signal.SIGCONT))


def wait_for_events():
    ends = os.pipe()
    with select.epoll() as e:
        e.register(ends[0], select.EPOLLIN)
        os.write(ends[1], b"x")
        assert e.poll() == [(ends[0], select.EPOLLIN)]
    for end in ends:
        os.close(end)


# What programs need.
ALLOWED = {
    "thread": start_a_thread, "program": start_a_program, "sockets": use_sockets,
    "shared_memory": share_memory, "files": change_files, "affinity": move_itself,
    "child": signal_a_child, "epoll": wait_for_events, "limits": use_limits,
    "memory_of_a_child": lambda: with_child(read_memory),
    "trace_a_child": lambda: with_child(trace),
}
# What is refused.
REFUSED = {
    "memory": lambda: read_memory(OUTSIDE), "trace": lambda: trace(OUTSIDE),
    "descriptor": lambda: get_descriptor(OUTSIDE), "memory_file": lambda: open_memory(OUTSIDE),
    "compare": lambda: call("kcmp", os.getpid(), OUTSIDE, 0, 0, 0),
    "signal": lambda: os.kill(OUTSIDE, signal.SIGCONT),
    "limits_of_another": lambda: resource.prlimit(OUTSIDE, resource.RLIMIT_NOFILE, (99, 99)),
    "name": lambda: call("sethostname", os.uname().nodename.encode(), len(os.uname().nodename)),
    "clock": lambda: call("clock_settime", 0, (ctypes.c_long * 2)(-1, -1)),
    "mount": lambda: call("mount", b"none", b"/", b"tmpfs", 4096 | 32, 0),
    "namespace": lambda: call("unshare", NEW_USER_NAMESPACE),
    "namespace_of_a_child": lambda: call("clone", NEW_USER_NAMESPACE | signal.SIGCHLD, 0, 0, 0, 0),
    "namespace_of_a_child_3": lambda: call("clone3", (ctypes.c_long * 11)(), 88),
    "kernel_log": lambda: call("syslog", 10, 0, 0),
    "bpf": lambda: call("bpf", 5, (ctypes.c_long * 16)(), 128),
    "ring": lambda: call("io_uring_setup", 1, (ctypes.c_long * 20)()),
    "key": lambda: call("add_key", b"user", b"brood", b"x", 1, -3),
    "packets": lambda: socket.socket(AF_PACKET, socket.SOCK_RAW, 0).close(),
}


def main():
    for name, attempt in {**ALLOWED, **REFUSED}.items():
        code = 0
        try:
            attempt()
        except OSError as e:
            code = e.errno or -1
        except Exception as e:  # whatever else it is, the test shows it
            print(f"probe {name}: {e!r}", file=sys.stderr)
            code = -1
        print(f"probe {name} {code}", file=sys.stderr, flush=True)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
