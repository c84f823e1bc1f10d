"""Runs as a hostile neighbour may leave them in a folder of runs that others read: one of
each kind of damage. Nothing in them takes much space or many descriptors."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import socket
import struct
import threading

import harness

HUGE = 4 << 40
OTHER = 65533  # owns the damaged runs, if the test is root's
STEP = "100"   # of the checkpoint of every damaged run
# Large files, empty but for what stood there.
GROWN = ("tags", "journal", "config.yaml", "provenance", "experience", "lock",
         "metrics/progress.csv", "logs/supervisor.log", "logs/agent_0.log",
         f"checkpoints/{STEP}/run.state", f"checkpoints/{STEP}/agent_0/checkpoint",
         f"checkpoints/{STEP}/agent_0/model.ckpt-{STEP}.index",
         f"checkpoints/{STEP}/agent_0/model.ckpt-{STEP}.meta")
# Also as fifos, and as folders.
KINDS = (*GROWN, "control.sock", "logs", "metrics", "checkpoints", f"checkpoints/{STEP}")


def grow(path, size=HUGE):
    """Make the file, or lengthen it; a file system with a smaller limit has what it can."""
    path.touch()
    while size > 1 << 30:
        with contextlib.suppress(OSError):
            os.truncate(path, size)
            return
        size //= 2


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replace(path, make):
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


def lines(path, text, n):
    """Append a text n times to the file."""
    with open(path, "ab") as f:
        for _ in range(n // 1000):
            f.write(text.encode() * 1000)


def wide(n_columns, n_rows):
    """A progress.csv with that many teams."""
    def change(run):
        names = ["env_steps"] + [f"eval/team_return/t{i}" for i in range(n_columns - 1)]
        row = "," * (n_columns - 1) + "\n"
        (run / "metrics/progress.csv").write_text(",".join(names) + "\n" + "".join(
            f"{i}{row}" for i in range(n_rows)))
    return change


def long_csv(run):
    (run / "metrics/progress.csv").write_text("env_steps,a,b,c,d,e,f,g\n")
    lines(run / "metrics/progress.csv", "1,,,,,,,\n", 2_000_000)


def crowd(folder, names):
    def change(run):
        (run / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            (run / folder / name).touch()
    return change


def deep(run):
    at = os.open(run, os.O_PATH)
    for _ in range(400):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_PATH, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def yaml_bomb(run):
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(9):
        text += f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]\n"
    (run / "config.yaml").write_text(text)


def changes():
    """name -> what is done to a copy of a run."""
    ret = {f"huge-{f.replace('/', '-')}": lambda run, f=f: grow(run / f) for f in GROWN}
    ret |= {f"fifo-{f.replace('/', '-')}": lambda run, f=f: replace(run / f, os.mkfifo)
            for f in KINDS}
    ret |= {f"folder-{f.replace('/', '-')}": lambda run, f=f: replace(run / f, os.mkdir)
            for f in GROWN}
    ret |= {f"zeros-{f.replace('/', '-')}": lambda run, f=f: replace(run / f, grow)
            for f in GROWN[:4]}
    ret |= {
        "wide": wide(38000, 3), "wide-and-long": wide(16000, 1000), "long": long_csv,
        "long-journal": lambda run: lines(
            run / "journal", "2026-01-01T00:00:00.000Z step=1 event=respawn agent=agent_0 pid=7\n",
            400_000),
        "long-log": lambda run: lines(run / "logs/agent_0.log", "x\n", 1_000_000),
        "many-logs": crowd("logs", [f"a{i}.log" for i in range(3000)]),
        "many-files": crowd("metrics", [f"f{i}" for i in range(3000)]),
        "many-checkpoints": lambda run: [os.mkdir(run / "checkpoints" / str(i))
                                         for i in range(1000, 4000)],
        "deep": deep, "yaml": yaml_bomb,
    }
    return ret


# ---- runs that pretend to live ----

PAUSE = b"\x93\x02\xa5event\x81\xa4kind\xa4step"


def flood(s, over):
    while not over.is_set():
        s.sendall(PAUSE * 1000)


def drip(s, over):
    while not over.wait(0.3):
        s.sendall(PAUSE)


def slow_bytes(s, over):
    """A response that never comes to its end."""
    s.sendall(b"\x94\x01\x01\xc0\x81\xa1x\xdb" + struct.pack(">I", 1 << 20))
    while not over.wait(0.3):
        s.sendall(b"x")


def endless_message(s, over):
    s.sendall(b"\x93\x02\xa5event\x81\xa1x\xdb\xff\xff\xff\xff")
    while not over.is_set():
        s.sendall(b"x" * 65536)


def silent(_s, over):
    over.wait()


def deaf(s, over):
    """Not even accepted: see Pretender."""


PRETENCES = {"floods": flood, "drips": drip, "slow": slow_bytes, "endless": endless_message,
             "silent": silent, "deaf": deaf}


class Pretender:
    """Holds the lock of a run, whose file names this process, and answers on its socket."""

    def __init__(self, run, answer):
        self.over = threading.Event()
        self.lock = os.open(run / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, b"%d 0\n" % os.getpid(), 0)
        fcntl.fcntl(self.lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        os.fchmod(self.lock, 0o644)
        self.socket = socket.socket(socket.AF_UNIX)
        folder = os.open(run, os.O_PATH)
        (run / "control.sock").unlink(missing_ok=True)
        self.socket.bind(f"/proc/self/fd/{folder}/control.sock")
        (run / "control.sock").chmod(0o777)
        os.close(folder)
        self.socket.listen(0 if answer is deaf else 100)
        self.threads = []
        if answer is deaf:  # fills the queue, so that a connection waits
            self.filler = [socket.socket(socket.AF_UNIX) for _ in range(4)]
            for s in self.filler:
                s.setblocking(False)
                with contextlib.suppress(OSError):
                    s.connect(str(run / "control.sock"))
        else:
            self.begin(self.accept, answer)

    def begin(self, fn, *args):
        t = threading.Thread(target=fn, args=args, daemon=True)
        self.threads.append(t)
        t.start()

    def accept(self, answer):
        self.socket.settimeout(0.1)
        while not self.over.is_set():
            with contextlib.suppress(OSError):
                self.begin(self.serve, answer, self.socket.accept()[0])

    def serve(self, answer, s):
        s.settimeout(1)
        with contextlib.suppress(OSError), s:
            answer(s, self.over)

    def close(self):
        self.over.set()
        for t in self.threads:
            t.join()
        self.socket.close()
        os.close(self.lock)


def make(runs, base, only=lambda name: True):
    """Make the damaged runs in the folder `runs`, copies of the run `base` that has the
    checkpoint STEP; returns (names, what keeps the pretenders alive: close each)."""
    names, pretenders = [], []
    for name, change in {**changes(), **{f"live-{n}": None for n in PRETENCES}}.items():
        if not only(name):
            continue
        run = harness.copy_run(base, pathlib.Path(runs) / name)
        run.chmod(0o755)
        if change is not None:
            change(run)
        if os.geteuid() == 0:
            give_away(run)
        if change is None:
            pretenders.append(Pretender(run, PRETENCES[name.removeprefix("live-")]))
        names.append(name)
    return names, pretenders


def give_away(run):
    for at, folders, files, fd in os.fwalk(run, follow_symlinks=False):
        del at
        for name in folders + files:
            os.chown(name, OTHER, OTHER, dir_fd=fd, follow_symlinks=False)
    os.chown(run, OTHER, OTHER)
