"""Text from other processes and users cannot send control sequences to the terminal, and tables fit
on it."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import termios

import harness

# ESC, U+009B and the byte 0x9b begin commands; BEL, DEL and CR do something by themselves.
NASTY = b"\x1b[2J \xc2\x9b31m \x9b5n \x07\x7f\r caf\xc3\xa9\ttab \xff"
SHOWN = r"\x1b[2J \x9b31m \x9b5n \x07\x7f\x0d caf" + "\u00e9\ttab " + r"\xff"


def controls(data):
    """The control characters in the bytes that a terminal would interpret."""
    text = data.decode("utf-8", errors="surrogateescape")
    return re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]", text)


def said(w, *args, code=0, **more):
    """A command's (stdout, stderr), which must contain no control characters."""
    p = w.start(*args, **more)
    assert p.wait(timeout=harness.DEADLINE_S) == code, (args, p.log.read_bytes())
    both = pathlib.Path(f"{p.log}.out").read_bytes(), p.log.read_bytes()
    for data in both:
        assert not controls(data), (args, data)
    return tuple(data.decode() for data in both)


def run_with_nasty_logs(w):
    w.brood("run", w.small(steps=400), "--name", "a")
    run = w.run_dir("a")
    (run / "logs" / "agent_0.log").write_bytes(b"begins " + NASTY + b"\nthe next\n")
    with open(run / "journal", "ab") as f:
        f.write(b"2030-01-01T00:00:00.000Z step=400 event=note text=" + NASTY + b"\n")
    return run


def test_logs_show_what_a_terminal_would_obey(w):
    run = run_with_nasty_logs(w)
    out, _ = said(w, "logs", "a", "agent_0")
    assert out == f"begins {SHOWN}\nthe next\n", out
    for words in (("a",), ("a", "-f"), ("a", "journal")):
        assert SHOWN in said(w, "logs", *words)[0], words
    out, _ = said(w, "logs", "a", "agent_0", "--json")
    assert json.loads(out.splitlines()[0])["text"].startswith("begins \x1b[2J \x9b31m"), out
    assert "--raw" in said(w, "logs", "--help")[0]
    p = w.start("logs", "a", "agent_0", "--raw")
    assert p.wait(timeout=harness.DEADLINE_S) == 0
    assert pathlib.Path(f"{p.log}.out").read_bytes() == (run / "logs" / "agent_0.log").read_bytes()


def on_a_terminal(w, *args, columns=80, **environment):
    """What it prints there."""
    pid, fd = pty.fork()
    if pid == 0:
        harness.fork_from_leader()
        os.chdir(w.path)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        os.execve(harness.BROOD, ["brood", *args], {**os.environ, **environment})
    data = b""
    try:
        while True:
            data += os.read(fd, 65536)
    except OSError:  # its end
        os.close(fd)
    assert os.waitpid(pid, 0)[1] == 0
    return data


def test_tables_fit(w):
    """On a terminal; elsewhere nothing is shortened."""
    names = ["a-name-that-somebody-chose-" * 3 + end for end in ("1", "2")] + ["short"]
    for name in names[1:]:
        w.brood("run", w.small(steps=200), "--name", name)
    w.brood("run", w.small(steps=400), "--name", names[0],
            "--set", "defaults.optimizer.learning_rate=1e30", code=1)
    w.brood("tag", "short", "one-tag", "another-tag")
    whole = w.brood("runs")[0]
    assert all(name in whole for name in names) and "…" not in whole, whole
    for columns in (80, 100, 140, 400):
        for utf8, dots in (("C.UTF-8", "…"), ("C", "...")):
            text = on_a_terminal(w, "runs", columns=columns, LC_ALL=utf8).decode()
            lines = text.replace("\r", "").splitlines()
            assert max(map(len, lines)) <= columns, (columns, text)
            assert (dots in text) == (columns < 400) and len(lines) == 4, text
            state = lines[0].index("state")
            assert all(line[state - 1] == " " != line[state] for line in lines), text
            assert sum(name in text for name in names) == (3 if columns == 400 else 1), text
            assert all(f"chose-{end}  " in text for end in "12"), text
    text = on_a_terminal(w, "report", *names[1:], columns=110, LC_ALL="C.UTF-8").decode()
    assert "…" in text and max(map(len, text.replace("\r", "").splitlines())) <= 110, text
    assert names[1] in w.brood("report", *names[1:])[0]


def test_on_a_terminal_too(w):
    run_with_nasty_logs(w)
    data = on_a_terminal(w, "logs", "a")
    assert SHOWN.encode() in data and not controls(data.replace(b"\r\n", b"\n")), data


def test_names_and_values_of_others_are_shown(w):
    run = run_with_nasty_logs(w)
    evil = "\x1b]0;gotcha\x07\u009b"
    shown = r"\x1b]0;gotcha\x07\x9b"
    for text, at in ((f'"{evil}": 1\n', "key"), (f'run: {{name: "{evil}"}}\n', "value")):
        config = w.write("evil.yaml", text.replace("\x1b", r"\x1b").replace("\x07", r"\a")
                         .replace("\u009b", r"\x9b"))
        _, err = said(w, "check", config, code=2)
        assert shown in err, (at, err)
    said(w, "status", evil, code=3)
    said(w, "logs", "a", evil, code=3)
    said(w, evil, code=2)
    # a run directory of somebody's, in whose name and files everything may be
    shutil.copytree(run, w.runs / evil)
    for words in (("runs",), ("status", evil), ("report", evil), ("logs", evil),
                  ("runs", "--json"), ("status", evil, "--json")):
        out, _ = said(w, *words)
        assert words[0] in ("logs", "report") or "--json" in words or \
            shown in out, (words, out)


if __name__ == "__main__":
    harness.main()
