"""The live view of a run: on a terminal, without one, and as JSON."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time

import harness

ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
REDRAWN = re.compile(r"\x1b\[\d+A")


class Screen:
    """Emulates the part of a terminal that the view uses; records lines that wrap."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column = columns, [""], 0, 0
        self.wrapped = []

    def feed(self, text):
        at = 0
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                self.obey(*escape.groups())
                at = escape.end()
                continue
            c, at = text[at], at + 1
            if c == "\n":
                self.row, self.column = self.row + 1, 0
                if self.row == len(self.lines):
                    self.lines.append("")
            elif c == "\r":
                self.column = 0
            else:
                assert c >= " ", f"control character {c!r}"
                line = self.lines[self.row].ljust(self.column)
                self.column += 1
                self.lines[self.row] = line[:self.column - 1] + c + line[self.column:]
                if self.column == self.columns + 1:
                    self.wrapped.append(self.lines[self.row])

    def obey(self, arguments, command):
        if command == "A":
            self.row -= int(arguments)
            assert self.row >= 0
        elif command in "JK":
            self.lines[self.row] = self.lines[self.row][:self.column]
            if command == "J":
                del self.lines[self.row + 1:]
        else:
            assert command == "m", f"escape {arguments}{command}"


def screen_of(text):
    """The lines of a screen on which the last view has been drawn wholly."""
    screen, end = Screen(80), text.rfind("\x1b[J")
    screen.feed(text[:end + 3] if end >= 0 else "")
    return screen.lines


def measured(text):
    """The words of the agents' rows on that screen, of agents whose memory was measured."""
    return [line.split() for line in screen_of(text) if " MB" in line]


class Terminal:
    """A run whose stderr is a terminal of its own."""

    def __init__(self, w, *args, columns=80, rows=24, env=None):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        environment.update({"TERM": "xterm"}, **(env or {}))
        self.columns, self.bytes = columns, b""
        self.process = subprocess.Popen(
            [harness.BROOD, *map(str, args)], cwd=w.path, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        self.thread = threading.Thread(target=self.read, args=(master,), daemon=True)
        self.thread.start()

    def read(self, master):
        try:
            while data := os.read(master, 65536):
                self.bytes += data
        except OSError:  # its last writer is gone
            pass
        os.close(master)

    def text(self):
        return self.bytes.decode(errors="ignore")

    def end(self, code=0):
        assert self.process.wait(timeout=harness.DEADLINE_S) == code, self.text()
        self.thread.join()
        screen = Screen(self.columns)
        screen.feed(self.text())
        return [line.rstrip() for line in screen.lines], screen.wrapped


def watch_a_run_with_a_death(w, name, **more):
    """A run of which one agent is killed once the view is drawn, and which ends once the
    view shows that and all that is measured only now and then."""
    t = Terminal(w, "run", w.small(steps=harness.FOREVER, evaluate=0), "--name", name, **more)
    harness.wait_until("the view", lambda: "agent_2" in t.text())
    harness.kill(harness.wait_until("agent_1", lambda: harness.agents_of(t.process.pid).get(
        "agent_1")))

    def is_told():
        text = t.text()
        agents = measured(text)
        return "was respawned" in text and len(REDRAWN.findall(text)) > 3 and \
            [a[3] for a in agents] == ["0", "1", "0"] and all(a[4] != "-" for a in agents)
    harness.wait_until("a view of it", is_told)
    harness.set_last_step(w, name, 1000)
    return t, *t.end()


def test_the_view_redraws_in_place(w):
    t, lines, wrapped = watch_a_run_with_a_death(w, "a")
    assert "\x1b[32m" in t.text(), "no colour"
    heads = [i for i, line in enumerate(lines) if line.split()[:2] == ["agent", "pid"]]
    assert len(heads) == 1, lines
    head = heads[0]
    assert "100 %" in lines[head - 1] and "steps" in lines[head - 1], lines
    for i in range(3):
        words = lines[head + 1 + i].split()
        assert words[0] == f"agent_{i}" and words[1].isdigit(), lines
        assert int(words[3]) == (1 if i == 1 else 0), lines
        assert float(words[4]) < 0, lines
        assert words[8:9] == ["MB"], lines
    said = [i for i, line in enumerate(lines) if "SIGKILL" in line or "was respawned" in line]
    assert len(said) == 2 and max(said) < head - 1, lines
    assert not wrapped, wrapped


def test_no_color_is_obeyed(w):
    t, lines, wrapped = watch_a_run_with_a_death(w, "b", env={"NO_COLOR": "1"})
    assert {c for _, c in ESCAPE.findall(t.text())} <= {"A", "J", "K"}, t.text()
    assert not wrapped and any("was respawned" in line for line in lines), lines


def test_nothing_wraps_on_a_narrow_terminal(w):
    for columns in (80, 40):
        name = f"a-name-that-is-rather-long-for-a-run-{columns}"
        t = Terminal(w, "run", w.small(steps=1200), "--name", name, columns=columns)
        _, wrapped = t.end()
        # what is said above the view may wrap: it is never drawn again
        wrapped = [line for line in wrapped if not line.startswith(name + ": ")]
        assert not wrapped, wrapped


MANY = """
run: {name: many, env_steps: 10000000}
env: {id: simple_spread, copies: 1, params: {agents: 30}}
experience: {capacity: 2000, batch_size: 8, warmup: 2000}
evaluation: {every_env_steps: 20, episodes: 1}
log: {every_env_steps: 10}
defaults: {algorithm: random}
"""


def test_more_agents_than_rows_are_counted_and_the_last_view_has_all(w):
    t = Terminal(w, "run", w.write("many.yaml", MANY), "--name", "m", rows=20,
                 env={"LC_ALL": "C", "NO_COLOR": "1"})

    def view():
        """The newest view, once it has all that is looked at."""
        lines = screen_of(t.text())
        begins = [i for i, line in enumerate(lines) if line.startswith("m  ")]
        text = "\n".join(lines)
        return begins and "evaluation  -" in text and re.search(r"\+1[45] more: [0-9]", text) \
            and (begins, lines)
    begins, lines = harness.wait_until("evaluations", view)
    assert len(begins) == 1 and len(lines) - begins[0] <= 20, lines
    assert t.text().isascii(), t.text()
    harness.kill(t.process.pid, signal.SIGTERM)
    lines, wrapped = t.end(code=4)
    agents = [line.split()[0] for line in lines if line.startswith("agent_")]
    assert agents == [f"agent_{i}" for i in range(30)], lines
    assert lines.index(next(x for x in lines if ": stopped after" in x)) > lines.index(
        next(x for x in lines if x.startswith("agent_29"))), lines
    assert not any("more:" in line or "left" in line for line in lines), lines


def on_terminal(w, words, rows=24, **environment):
    """brood whose terminal this is, in its foreground; pid, descriptor, settings. At an
    interrupt a terminal would discard what has been written and not been shown, which tears
    a hole into a view that is just being drawn: that is switched off."""
    fd, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    settings = termios.tcgetattr(slave)
    settings[3] |= termios.NOFLSH
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    pid = os.fork()
    if pid == 0:
        os.close(fd)
        os.login_tty(slave)
        harness.fork_from_leader()
        os.chdir(w.path)
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", **environment)
        os.execv(harness.BROOD, ["brood", *map(str, words)])
    os.close(slave)
    return pid, fd, settings


def test_what_the_terminal_echoes_of_an_interrupt_is_written_over(w):
    """The terminal itself writes ^C where the cursor is."""
    config = w.small(steps=harness.FOREVER, evaluate=0, checkpoint=harness.FOREVER)
    for name, words in (("a", ("run", config, "--name", "a")), ("b", ("attach", "b"))):
        if words[0] == "attach":
            w.brood("run", config, "--name", "b", "--detach")
            harness.wait_until("a row", lambda: harness.rows(w.run_dir("b")) > 0)
            w.brood("pause", "b")
        pid, fd, _ = on_terminal(w, words)
        data = b""
        try:
            while chunk := os.read(fd, 65536):
                data += chunk
                if b"agent_2" in data and b"\x1b[J" in data:
                    os.write(fd, b"\x03")
                    break
            while chunk := os.read(fd, 65536):
                data += chunk
        except OSError:  # its end
            os.close(fd)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (4 if name == "a" else 0)
        text = data.decode(errors="ignore")
        screen = Screen(80)
        screen.feed(text)
        said = {"a": "interrupted (Interrupt): stopping after", "b": "b continues"}[name]
        assert "^C" in text and any(line.startswith(said) for line in screen.lines), text
        assert not any("^C" in line for line in screen.lines), screen.lines
        if name == "b":
            assert any(line.endswith("/s  paused") for line in screen.lines), screen.lines
            w.brood("stop", "b")


def test_keys_scroll_and_the_terminal_is_left_as_it_was(w):
    config = w.write("many.yaml", MANY)
    for words in (("run", config, "--name", "a"), ("attach", "b")):
        if words[0] == "attach":
            w.brood("run", config, "--name", "b", "--detach")
        pid, fd, before = on_terminal(w, words, rows=20, NO_COLOR="1")
        os.set_blocking(fd, False)
        screen, fed, data = Screen(80), 0, b""

        def first():
            """The first agent of the newest whole view."""
            nonlocal data, fed
            try:
                while chunk := os.read(fd, 65536):
                    data += chunk
            except (BlockingIOError, OSError):
                pass
            if (end := data.rfind(b"\x1b[J") + 3) > fed + 2:
                screen.feed(data[fed:end].decode(errors="ignore"))
                fed = end
            heads = [i for i, x in enumerate(screen.lines) if x.startswith("agent  ")]
            return screen.lines[heads[-1] + 1].split()[0] if heads else None

        def echoes():
            return bool(termios.tcgetattr(fd)[3] & termios.ECHO)
        harness.wait_until("evaluations", lambda: first() and b"evaluation  -" in data)
        harness.wait_until("keys", lambda: first() and not echoes())
        harness.wait_until("every agent at work", lambda: first() == "agent_0")
        for keys, agent in ((b"\x1b[B" * 3, "agent_3"), (b"\x1b[A", "agent_2"),
                            (b"x\x1b[F", "agent_15"), (b"\x1b[H", "agent_0")):
            os.write(fd, keys)
            harness.wait_until(f"{agent} after {keys}", lambda a=agent: first() == a)
        os.write(fd, b"\x03")
        done = harness.wait_until("its end", lambda: (first(), os.waitpid(pid, os.WNOHANG))[1][0]
                                  and True)
        assert done
        assert termios.tcgetattr(fd)[3] == before[3], words
        os.close(fd)
    w.brood("stop", "b")


def tmux(w, *args):
    return subprocess.run(["tmux", "-L", "brood-test", *map(str, args)], text=True,
                          env={**os.environ, "TMUX_TMPDIR": str(w.path)}, check=True,
                          stdout=subprocess.PIPE).stdout


def test_nothing_is_left_over_on_a_terminal_that_changes_its_size(w):
    if shutil.which("tmux") is None:
        raise harness.Skip("no tmux")
    config = w.write("many.yaml", MANY)
    tmux(w, "-u", "-f", "/dev/null", "new-session", "-d", "-x", 80, "-y", 24, "-s", "a",
         f"cd {w.path}; export LC_ALL=C.UTF-8 TERM=screen; {harness.BROOD} run {config} "
         "--name m; cat")
    try:
        def is_clean(rows):
            """Whether one view fills the screen, and nothing else is there."""
            nonlocal lines
            lines = [x.rstrip() for x in tmux(w, "capture-pane", "-p", "-t", "a").split("\n")]
            return lines[0].startswith("m  ") and lines[rows - 2].startswith("+") and \
                lines[rows - 1] == "" and \
                all(sum(x.startswith(start) for x in lines) == 1
                    for start in ("m  ", "agent  ", "+"))
        lines = []
        for columns, rows in ((80, 24), (80, 12), (50, 24), (80, 24), (40, 10), (100, 28)):
            tmux(w, "resize-window", "-t", "a", "-x", columns, "-y", rows)
            try:
                harness.wait_until("a clean view", lambda n=rows: is_clean(n))
            except AssertionError:
                raise AssertionError((columns, rows, lines))
    finally:
        tmux(w, "kill-server")


def test_a_dumb_terminal_gets_lines(w):
    t = Terminal(w, "run", w.small(steps=600), "--name", "a", env={"TERM": "dumb"})
    t.end()
    assert "\x1b" not in t.text() and "done after" in t.text(), t.text()


def test_episodes_can_be_the_length_of_a_run(w):
    config = w.write("episodes.yaml", pathlib.Path(w.small()).read_text()
                     .replace("env_steps: 2000", "episodes: 120"))
    t = Terminal(w, "run", config, "--name", "a")
    lines, wrapped = t.end()
    assert not wrapped, wrapped
    head = next(line for line in lines if "episodes" in line and "%" in line)
    assert "100 %" in head and "120 of 120 episodes" in head and "left" not in head, head
    out, _ = w.brood("run", config, "--name", "b", "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert events[0]["episodes"] == 120 and events[0]["env_steps"] is None, events[0]
    assert events[-1]["event"] == "done" and events[-1]["episodes"] == 120, events[-1]
    assert events[-1]["env_steps"] == 120 * 25, events[-1]


def test_elsewhere_it_is_a_line_now_and_then(w):
    p = w.start("run", w.small(steps=10_000_000, evaluate=0, checkpoint=5_000_000),
                "--name", "a")
    line = re.compile(r"^a: +\d+ %  [\d,]+ of 10,000,000 steps  [\d,]+/s  [\d:]+ left"
                      r"(  return -[\d.]+)?$", re.M)
    harness.wait_until("rows", lambda: harness.rows(w.run_dir("a")) > 1)
    agents = harness.agents_of(p.pid).values()

    def has_line():
        """Agents stand still most of the time, so that others have the processor."""
        for pid in agents:
            harness.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        for pid in agents:
            harness.kill(pid, signal.SIGCONT)
        return line.search(p.log.read_text())
    harness.wait_until("a line of progress", has_line)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4
    assert "\x1b" not in p.log.read_text()


def test_every_line_of_json_is_an_object(w):
    p = w.start("run", w.small(steps=harness.FOREVER, evaluate=0), "--name", "a", "--json")
    harness.kill(harness.wait_until("an agent", lambda: harness.agents_of(p.pid).get("agent_0")))

    def learning(events):
        return [e for e in events if e["event"] == "row" and "train/agent_1/critic_loss" in e]
    harness.wait_until("rows", lambda: len(learning(harness.json_lines(
        harness.output(p).rpartition("\n")[0]))) > 10)
    harness.set_last_step(w, "a", 1000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    events = [json.loads(line) for line in harness.output(p).splitlines()]
    kinds = [e.get("event") for e in events]
    assert kinds[0] == "start" and kinds[-1] == "done", kinds
    assert kinds.count("spawn") + kinds.count("respawn") >= 4 and "ready" in kinds, kinds
    died = [e for e in events if e.get("event") == "exit" and e.get("signal") == 9]
    assert [e["agent"] for e in died] == ["agent_0"], died
    assert all(e["time"].endswith("Z") for e in events), events
    assert "checkpoint" in kinds and "pid" in died[0] and died[0]["env_steps"] >= 0, kinds


if __name__ == "__main__":
    harness.main()
