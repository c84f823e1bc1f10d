"""The control socket: requests of ordinary clients to a live run, and of hostile ones."""
import contextlib
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

import harness

try:
    import msgpack
except ImportError:
    msgpack = None
sys.path.insert(0, str(harness.SOURCE / "scripts"))
if msgpack:
    import drive_critics

LOAD = harness.SOURCE / "tests" / "support" / "control_load.py"
STATUS = {"run", "state", "pid", "keeper_pid", "round", "env_steps", "episodes",
          "steps_per_second", "checkpoint_step", "exact", "agents"}
AGENT = {"name", "pid", "state", "given_up", "restarts", "rss_bytes", "update", "last_exit",
         "host", "total_restarts", "hangs", "slow_answers", "skipped_episodes", "lost_seconds"}


def start(w, name="a", *options, steps=100000000, **more):
    """A run that ends only on request, and a client of it."""
    if not msgpack:
        raise harness.Skip("python3-msgpack is not installed")
    p = w.start("run", w.small(steps=steps, evaluate=0, checkpoint=1000000000), "--name",
                name, *options, **more)
    harness.wait_until("the socket", lambda: (w.run_dir(name) / "control.sock").exists()
                       or p.poll() is not None)
    client = drive_critics.Run(w.run_dir(name))
    harness.wait_until("the rounds", lambda: client.call("status")["env_steps"] > 0)
    return p, client


def stop(p, client):
    client.call("stop")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def refused(client, method, **params):
    try:
        client.call(method, **params)
    except RuntimeError as why:
        return str(why)
    raise AssertionError(f"{method} {params} was not refused")


def test_status_tells_what_it_should(w):
    p, client = start(w)
    s = client.call("status")
    assert STATUS <= s.keys() and s["state"] == "running" and s["exact"] is True, s
    assert s["keeper_pid"] == p.pid and s["run"] == "a", (s, p.pid)
    assert [a["name"] for a in s["agents"]] == ["agent_0", "agent_1", "agent_2"], s
    assert all(AGENT <= a.keys() and a["rss_bytes"] > 0 for a in s["agents"]), s
    sock = os.stat(w.run_dir("a") / "control.sock")
    assert stat.S_IMODE(sock.st_mode) == 0o600, oct(sock.st_mode)
    stop(p, client)
    assert not (w.run_dir("a") / "control.sock").exists()


def test_pause_checkpoint_continue_stop(w):
    p, client = start(w)
    at = client.call("pause")["env_steps"]
    s = client.call("status")
    assert s["state"] == "paused" and s["env_steps"] == at, (s, at)
    assert client.call("pause")["env_steps"] == at  # it stands already
    assert client.call("checkpoint")["env_steps"] == at
    assert (w.run_dir("a") / "checkpoints" / str(at) / "run.state").exists()
    assert client.call("status")["checkpoint_step"] == at
    client.call("continue")
    harness.wait_until("it goes on", lambda: client.call("status")["env_steps"] > at)
    end = client.call("stop")["env_steps"]
    assert p.wait(timeout=harness.DEADLINE_S) == 4
    assert (w.run_dir("a") / "checkpoints" / str(end)).is_dir(), end


def test_a_checkpoint_is_answered_with_its_own_step(w):
    """The run goes on while the checkpoint is written."""
    p, client = start(w)
    answers = [client.call("checkpoint")["env_steps"] for _ in range(5)]
    said, = harness.json_lines(w.brood("checkpoint", "a", "--json")[0])
    stop(p, client)
    journal = (w.run_dir("a") / "journal").read_text()
    written = [int(s) for s in re.findall(r" step=(\d+) event=checkpoint$", journal, re.M)]
    assert written[1:7] == [*answers, said["env_steps"]], (answers, said, written)


def test_kill_and_respawn_count_for_nothing(w):
    p, client = start(w)
    for i in range(8):  # more often than a policy would bear
        old = client.call("status")["agents"][1]["pid"]
        client.call("kill" if i % 2 else "respawn", agent="agent_1")
        harness.wait_until("a new process", lambda: client.call("status")["agents"][1]["pid"]
                           not in (0, old))
    agent = client.call("status")["agents"][1]
    assert agent["restarts"] == 8 and agent["last_exit"] == "SIGKILL", agent
    stop(p, client)


def test_steering_changes_no_byte(w):
    p, client = start(w, "steered")
    for agent in ("agent_0", "agent_2"):
        client.call("pause")
        client.call("respawn", agent=agent)
        client.call("checkpoint")
        client.call("continue")
    steps = harness.set_last_step(w, "steered", 1000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", w.path / "small.yaml", "--name", "calm", "--set", f"run.env_steps={steps}")
    calm, steered = (harness.tree_bytes(w.run_dir(n) / "checkpoints" / str(steps))
                     for n in ("calm", "steered"))
    assert calm and calm == steered


def test_what_cannot_be_done_is_told(w):
    p, client = start(w)
    assert "there are: agent_0, agent_1, agent_2" in refused(client, "kill", agent="bob")
    assert "agent is missing" in refused(client, "respawn")
    assert "no method 'fly'" in refused(client, "fly")
    assert "has an environment" in refused(client, "run", agent="agent_0", targets=["init"])
    assert "changes is missing" in refused(client, "set")
    assert "no agent ../journal" in refused(client, "logs", agent="../journal")
    assert "bytes" in refused(client, "logs", bytes=1 << 21)
    stop(p, client)


def test_the_command_line_steers_it(w):
    p, client = start(w)
    status = w.status("a")
    assert STATUS <= status.keys() and status["state"] == "running", status
    out, _ = w.brood("pause", "a")
    at = client.call("status")["env_steps"]
    assert out == f"paused at step {at}\n", out
    assert "a: paused" in w.brood("status")[0]
    said, = harness.json_lines(w.brood("checkpoint", "a", "--json")[0])
    assert said.pop("time").endswith("Z") and said == {
        "event": "checkpoint", "run": "a", "env_steps": at}, said
    assert w.brood("continue", "a")[0] == f"continued at step {at}\n"
    assert w.brood("continue")[0] == "a was not paused\n"
    assert re.fullmatch(r"agent_2: killed at step \d+\n", w.brood("kill", "a", "agent_2")[0])
    said, = harness.json_lines(w.brood("kill", "a", "agent_1", "--json")[0])
    assert said["event"] == "kill" and said["agent"] == "agent_1" and said["time"], said
    w.brood("respawn", "agent_0")  # of the newest run
    _, err = w.brood("kill", "a", "agent_9", code=3)
    assert "there are: agent_0" in err and len(err.splitlines()) == 1, err
    for command in ("kill", "respawn"):
        _, err = w.brood(command, "a", code=2)
        assert err.startswith(f"brood {command}: a is a run; name one of its agents, too: "
                              "agent_0, agent_1, agent_2; see"), err
        _, err = w.brood(command, "agent_7", code=3)
        assert "there is no agent agent_7; there are: agent_0, agent_1" in err, err
        for words in ((), ("a", "agent_0", "agent_1")):
            _, err = w.brood(command, *words, code=2)
            assert "expected an agent: AGENT of the newest run, or RUN AGENT" in err, err
    assert "stopped at step" in w.brood("stop", "a")[0]
    assert p.wait(timeout=harness.DEADLINE_S) == 4
    assert "a: stopped" in w.brood("status", "a")[0]
    for command in ("checkpoint", "stop", "pause"):
        _, err = w.brood(command, "a", code=3)
        assert err == (f"brood {command}: runs/a is not running; it is over (stopped): "
                       "`brood resume a` goes on\n"), err


def test_a_supervisor_that_was_stopped_is_named(w):
    """The command does not wait for a stopped supervisor."""
    p, client = start(w)
    pid = client.call("status")["pid"]
    harness.kill(pid, signal.SIGSTOP)
    harness.wait_until("the stop", lambda: harness.is_stopped(pid))
    for words in (["pause"], ["stop", "a"], ["kill", "a", "agent_0"],
                  ["set", "a", "defaults.discount=0.9"]):
        _, err = w.brood(*words, code=1)
        assert f"`kill -CONT {pid}`" in err and len(err.splitlines()) == 1, err
    harness.kill(pid, signal.SIGCONT)
    w.brood("checkpoint", "a")
    stop(p, client)


def test_clients_that_know_only_positional_arguments(w):
    """msgpack-rpc libraries send params as an array."""
    p, client = start(w)
    for method, params in (("status", []), ("kill", [{"agent": "agent_1"}])):
        s = connect(w, client)
        s.sendall(msgpack.packb([0, 5, method, params]))
        unpacker = msgpack.Unpacker(raw=False)
        while not (got := list(unpacker)):
            data = s.recv(1 << 16)
            assert data, "the run has closed the connection"
            unpacker.feed(data)
        assert got[0][:3] == [1, 5, None], got
        s.close()
    stop(p, client)


def test_logs_are_told(w):
    p, client = start(w)
    journal = (w.run_dir("a") / "journal").read_bytes()
    assert client.call("logs")["text"].startswith(journal)
    lines = client.call("logs", bytes=200)["text"].splitlines(keepends=True)
    assert 1 <= len(lines) <= 3 and all(line.startswith(b"20") for line in lines), lines
    (w.run_dir("a") / "logs" / "agent_1.log").write_bytes(b"one\n\xff two\nthree")
    assert client.call("logs", agent="agent_1")["text"] == b"one\n\xff two\nthree"
    for n, text in ((15, b"one\n\xff two\nthree"), (14, b"\xff two\nthree"),
                    (11, b"\xff two\nthree"), (10, b"three"), (4, b""), (0, b"")):
        assert client.call("logs", agent="agent_1", bytes=n)["text"] == text, n
    assert client.call("logs", agent="agent_2")["text"] == b""
    client.call("kill", agent="agent_0")
    harness.wait_until("word of it", lambda: b"SIGKILL" in
                       client.call("logs", agent="supervisor")["text"])
    stop(p, client)


def received(client):
    """The messages that come next."""
    client.socket.settimeout(harness.DEADLINE_S)
    data = client.socket.recv(1 << 16)
    assert data, "the run has closed the connection"
    client.unpacker.feed(data)
    return list(client.unpacker)


def test_subscribers_hear_of_it(w):
    p, client = start(w)
    heard = []
    client.call("subscribe")
    other = drive_critics.Run(w.run_dir("a"))
    other.call("kill", agent="agent_0")

    def has(kind, key, text):
        return any(m[1] == kind and text in m[2].get(key, "") for m in heard)
    while not (has("message", "text", "agent_0") and has("journal", "line", "event=exit") and
               "row" in {m[1] for m in heard}):
        heard += [m for m in received(client) if m[0] == 2]
    stop(p, other)


def test_subscribers_get_every_event(w):
    """Those who ask for events: with the keys of `run --json`, and nothing else."""
    p, client = start(w, "a", "--json", "--set", "evaluation.every_env_steps=5000",
                      "--set", "evaluation.episodes=2")
    other = drive_critics.Run(w.run_dir("a"))
    client.call("subscribe", events=True)
    other.call("kill", agent="agent_0")
    for method in ("pause", "continue", "checkpoint"):
        other.call(method)
    other.call("set", changes=["defaults.discount=0.9"])
    heard = {}
    while not {"exit", "respawn", "ready", "pause", "continue", "checkpoint", "set",
               "changed", "message", "row", "evaluation"} <= heard.keys():
        for m in received(client):
            assert m[0] == 2 and m[1] == "event", m
            heard[m[2]["event"]] = m[2]
    assert all("time" in e and "env_steps" in e for e in heard.values()), heard
    assert heard["exit"]["signal"] == 9 and heard["exit"]["agent"] == "agent_0", heard
    assert heard["set"]["changes"] == {"defaults.discount": 0.9}, heard
    assert heard["evaluation"]["episodes"] == 2, heard
    assert heard["evaluation"]["eval/return/agent_0"] < 0, heard
    assert "train/agent_0/critic_loss" in heard["row"], heard
    stop(p, other)
    printed = {(e["event"], e["time"]): e for e in harness.json_lines(harness.output(p))}
    for name in heard.keys() - {"message"}:
        same = printed[name, heard[name]["time"]]
        assert same.keys() == heard[name].keys(), (same, heard[name])


def test_who_leaves_before_the_answer_gets_none(w):
    """The request is carried out nevertheless."""
    p, client = start(w)
    for method in ("respawn", "checkpoint", "pause"):
        s = connect(w, client)
        s.sendall(msgpack.packb([0, 1, method, {"agent": "agent_0"}]))
        s.close()
    harness.wait_until("the pause", lambda: client.call("status")["state"] == "paused")
    stop(p, client)


def ask_during_a_fetch(w, p, client, *methods):
    """Ask for these of a paused run while one of its agents is busy with a fetch."""
    client.call("pause")
    agent = harness.agents_of(p.pid)["agent_0"]
    harness.kill(agent, signal.SIGSTOP)
    s = connect(w, client)
    fetch = {"agent": "agent_0", "fetches": ["agent_0/p_func/fully_connected/weights:0"]}
    s.sendall(b"".join(msgpack.packb([0, i, method, {} if i else fetch])
                       for i, method in enumerate(("run", *methods))))
    client.call("status")  # the run has read the others by now
    harness.kill(agent, signal.SIGCONT)
    unpacker, answered = msgpack.Unpacker(), {}
    while len(answered) <= len(methods):
        received = s.recv(1 << 16)
        assert received, answered
        unpacker.feed(received)
        answered.update({m[1]: m[2] for m in unpacker if m[0] == 1})
    s.close()
    assert set(answered.values()) == {None}, answered


def test_requests_that_wait_for_a_fetch_keep_their_order(w):
    """A fetch in a pause defers what comes meanwhile: continue, then pause, ends in a pause."""
    p, client = start(w)
    ask_during_a_fetch(w, p, client, "continue", "pause")
    assert client.call("status")["state"] == "paused"
    stop(p, client)


def test_a_checkpoint_that_waits_for_a_fetch_comes_last(w):
    p, client = start(w)
    ask_during_a_fetch(w, p, client, "checkpoint", "continue")
    assert client.call("status")["state"] == "running"
    ask_during_a_fetch(w, p, client, "checkpoint")
    assert client.call("status")["state"] == "paused"
    ask_during_a_fetch(w, p, client, "checkpoint", "stop")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, harness.output(p)


HOSTILE = {
    "garbage": b"\xc1\xc1\xc1",
    "a giant array": b"\xdd\xff\x00\x00\x00",
    "a giant string": b"\xdb\xff\xff\xff\xff",
    "a giant map": b"\xdf\xff\xff\xff\xff",
    "a number": b"\x07",
    "a response": b"\x94\x01\x01\xc0\xc0",
    "too deep": b"\x91" * 100 + b"\xc0",
    "no method": b"\x94\x00\x01\xc0\x80",
    "params of a wrong kind": b"\x94\x00\x01\xa6status\x91\x01",
}


def resident_kib(pid):
    for line in open(f"/proc/{pid}/status", encoding="utf-8"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def connect(w, client):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(harness.DEADLINE_S)
    s.connect(f"/proc/self/fd/{client.folder}/control.sock")
    return s


def test_hostile_clients_are_cut_off_and_nobody_else(w):
    p, client = start(w)
    for what, data in HOSTILE.items():
        s = connect(w, client)
        s.sendall(data)
        said = b""
        while part := s.recv(4096):
            said += part
        assert b"error" in said, (what, said)
        s.close()
        assert client.call("status")["state"] == "running", what
    half = connect(w, client)
    half.sendall(b"\x94\x00\x01")  # and never the rest
    silent = [connect(w, client) for _ in range(20)]  # and never a word
    assert client.call("status")["state"] == "running"
    for s in [half, *silent]:
        s.close()
    stop(p, client)


def test_who_never_reads_costs_little(w):
    p, client = start(w)
    supervisor = client.call("status")["pid"]
    deaf = connect(w, client)
    deaf.setblocking(False)
    request = msgpack.packb([0, 1, "status", {}]) * 1000
    sent = 0
    try:
        while sent < 20_000_000:
            sent += deaf.send(request)
    except (BlockingIOError, ConnectionError):
        pass
    for _ in range(200):
        assert client.call("status")["state"] == "running"
    assert resident_kib(supervisor) < (200 << 10) * (4 if harness.SANITIZED else 1)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    deaf.close()
    stop(p, client)


def test_unfinished_messages_of_many_are_bounded(w):
    """The clients with the most unfinished bytes are dropped; the others are answered."""
    p, client = start(w)
    supervisor = client.call("status")["pid"]
    before, many = resident_kib(supervisor), [connect(w, client) for _ in range(20)]
    half = b"\x94\x00\x01\xa6status\xc6" + struct.pack(">I", 30 << 20) + bytes(20 << 20)
    let_go = 0
    for s in many:
        try:
            s.sendall(half)
        except ConnectionError:
            let_go += 1
        assert client.call("status")["state"] == "running"
        assert harness.SANITIZED or resident_kib(supervisor) < before + (160 << 10)
    for s in many:
        s.setblocking(False)
        try:
            let_go += b"use too much memory" in s.recv(4096)
        except (BlockingIOError, ConnectionError):
            pass
        s.close()
    assert let_go >= 10, let_go
    assert "use too much memory" in (w.run_dir("a") / "logs" / "supervisor.log").read_text()
    harness.wait_until("the memory is given back", lambda: harness.SANITIZED or
                       resident_kib(supervisor) < before + (16 << 10))
    stop(p, client)


def load(w, requests, windows):
    """Clients that send so many requests as fast as they can, each this many at once; their
    output."""
    clients = [subprocess.Popen([sys.executable, LOAD, w.run_dir("a"), "--requests",
                                 str(requests), "--window", str(window), "--seed",
                                 str(window)],
                                stdout=subprocess.PIPE, text=True) for window in windows]
    return [json.loads(c.communicate(timeout=harness.DEADLINE_S)[0]) for c in clients]


def test_clients_at_full_speed_get_right_answers(w):
    """The run goes on, and needs no more memory than before."""
    p, client = start(w, env=harness.VISIBLE)
    supervisor = client.call("status")["pid"]
    load(w, 300, (1, 16))  # what is made once
    (was, rss_was), steps = harness.settled(supervisor, 3), client.call("status")["env_steps"]
    said = load(w, 500 if harness.SANITIZED else 1500, (1, 16))
    assert not any(c["wrong"] for c in said), said
    harness.wait_until("steps", lambda: client.call("status")["env_steps"] > steps)
    print("#", said)
    harness.assert_nothing_grew(supervisor, 3, (was, rss_was), 1024)
    stop(p, client)


def test_who_asks_for_costly_things_all_the_time_gets_a_part_of_it(w):
    """Requests for changes, which are synced to disk before the answer, and for checkpoints:
    the run goes on, by more than a round for each of them, and other clients are answered."""
    p, client = start(w)
    greedy = drive_critics.Run(w.run_dir("a"))
    asked, latency, steps = [], [], client.call("status")["env_steps"]
    for i in range(75):
        asked.append(greedy.send("set", changes=[f"defaults.optimizer.learning_rate="
                                                 f"{0.001 * (1 + i % 2)}"]))
        asked.append(greedy.send("checkpoint"))
    while greedy.answers.keys() != set(asked):
        begin = time.monotonic()
        client.call("status")
        latency.append(time.monotonic() - begin)
        greedy.socket.settimeout(0.005)
        with contextlib.suppress(TimeoutError):
            greedy.receive()
    steps = client.call("status")["env_steps"] - steps
    print(f"# {steps / len(asked):.0f} steps for each of {len(asked)} requests; status within "
          f"{max(latency) * 1e3:.0f} ms")
    assert not any(error for error, _ in greedy.answers.values()), greedy.answers
    assert steps > 4 * len(asked), steps
    assert max(latency) < harness.allowed_s(1), max(latency)
    stop(p, client)


def test_respawn_of_a_paused_run_says_what_waits(w):
    p, client = start(w)
    client.call("pause")
    assert client.call("set", changes=["agents.agent_1.optimizer.beta1=0.5"])["waits"]
    assert "`brood continue` first" in refused(client, "respawn", agent="agent_1")
    client.call("respawn", agent="agent_0")  # nothing waits for it
    client.call("continue")
    client.call("respawn", agent="agent_1")
    assert "beta1=0.5" in (w.run_dir("a") / "journal").read_text()
    stop(p, client)


def test_too_many_clients_are_told_so(w):
    p, client = start(w)
    many = [connect(w, client) for _ in range(63)]
    client.call("status")
    one_more = connect(w, client)
    assert b"more than 64 clients" in one_more.recv(4096)
    assert one_more.recv(4096) == b""
    for s in [one_more, *many]:
        s.close()
    stop(p, client)


if __name__ == "__main__":
    harness.main()
