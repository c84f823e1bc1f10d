"""Where a run's time goes (`brood trace`), and what its processes log on request."""
import json
import os
import re
import resource
import subprocess

import harness
from test_changes import journal
from test_control import refused, start, stop


def traced(w, run, steps):
    """The printed facts and the events of a trace."""
    out, _ = w.brood("trace", run, "--steps", steps, "--json")
    facts = json.loads(out)
    return facts, json.loads((w.run_dir(run) / "trace.json").read_text())["traceEvents"]


def test_a_trace_shows_every_process(w):
    p, client = start(w)
    facts, events = traced(w, "a", 200)
    assert facts["rounds"] == 200 and facts["left_out"] == 0, facts
    names = {e["pid"]: e["args"]["name"] for e in events
             if e["ph"] == "M" and e["name"] == "process_name"}
    assert sorted(names.values()) == ["agent_0", "agent_1", "agent_2", "supervisor"], names
    assert {pid: n for pid, n in names.items() if n != "supervisor"} == \
        {pid: n for n, pid in harness.agents_of(p.pid).items()}
    spans = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and 0 <= e["ts"] and e["pid"] in names for e in spans)
    for name in ("agent_0", "agent_1", "agent_2"):
        own = sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in spans
                     if names[e["pid"]] == name and "on its way" not in e["name"])
        assert sum(work == "act" for _, _, work in own) >= 199, own
        assert {"propose", "critic", "learn"} <= {work for _, _, work in own}, own
        # One process does one thing at a time.
        assert all(a[1] <= b[0] + 0.002 for a, b in zip(own, own[1:])), (name, own)
    works = {e["name"] for e in spans if names[e["pid"]] == "supervisor"}
    assert {"act", "step", "update", "answers"} <= works, works
    for share in facts["shares"]:
        assert 0 <= share["seconds"] <= facts["seconds"], share
    stop(p, client)


def test_the_table_names_the_file(w):
    """Also a file with a long path."""
    name = "n" * 63
    p, client = start(w, name)
    out, _ = w.brood("trace", name, "--steps", 2)
    first, _, *lines = out.splitlines()
    assert first.startswith("2 rounds in ") and first.endswith(f": runs/{name}/trace.json")
    assert lines[0].split()[0] == "supervisor" and "agent_2" in out, out
    stop(p, client)


def test_a_trace_is_written_whole_or_not_at_all(w):
    """The copy (--out) and the run's own file."""
    p, client = start(w)
    run, out = w.run_dir("a"), w.path / "shown.json"
    w.brood("trace", "a", "--steps", 2, "--out", out)
    whole = out.read_bytes()
    assert whole == (run / "trace.json").read_bytes() and json.loads(whole)["traceEvents"]

    def lower():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    _, text = w.brood("trace", "a", "--steps", 20, "--out", out, code=1, preexec_fn=lower)
    assert text.count("\n") == 1 and f"{out}: write: File too large" in text, text
    assert out.read_bytes() == whole and (run / "trace.json").stat().st_size > len(whole)
    _, text = w.brood("trace", "a", "--out", w.path / "none" / "x.json", code=1)
    assert text.count("\n") == 1 and "none/x.json: create: No such file" in text, text

    os.mkfifo(w.path / "fifo")
    copy = w.path / "copy.json"
    with open(copy, "wb") as file, subprocess.Popen(["cat", w.path / "fifo"], stdout=file):
        w.brood("trace", "a", "--steps", 2, "--out", w.path / "fifo")
    assert copy.read_bytes() == (run / "trace.json").read_bytes()
    (w.path / "link.json").symlink_to(copy)
    w.brood("trace", "a", "--steps", 2, "--out", w.path / "link.json")
    assert (w.path / "link.json").is_symlink()
    assert copy.read_bytes() == (run / "trace.json").read_bytes()

    (run / "trace.json").unlink()
    (run / "trace.json" / "x").mkdir(parents=True)
    _, text = w.brood("trace", "a", "--steps", 2, code=1)
    assert text.count("\n") == 1 and "trace.json: rename: " in text, text
    left = [f for folder in (run, w.path) for f in folder.iterdir() if ".tempstate" in f.name]
    assert not left, left
    stop(p, client)


def test_a_trace_changes_no_byte(w):
    """Compares the last checkpoint of a run that is traced repeatedly, also while all its
    agents are killed, and of one that is left alone."""
    p, _ = start(w, "traced", steps=harness.FOREVER)
    w.brood("trace", "traced", "--steps", 5)
    agents = harness.agents_of(p.pid).values()
    for pid in agents:
        harness.kill(pid)
    for _ in range(5):
        w.brood("trace", "traced", "--steps", 20)
    assert len(journal(w.run_dir("traced"), "respawn")) == len(agents) == 3
    steps = harness.set_last_step(w, "traced", 200)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", w.path / "small.yaml", "--name", "calm", "-q", "--set",
            f"run.env_steps={steps}")
    harness.assert_same_files(*(harness.tree_bytes(
        w.run_dir(name) / "checkpoints", lambda f: ".data" in f.name or f.suffix == ".index")
        for name in ("calm", "traced")))


def test_tracing_is_refused_with_a_reason(w):
    p, client = start(w)
    refused(client, "trace", rounds=0)
    refused(client, "trace")
    client.call("pause")
    both = [w.start("trace", "a", "--steps", 3) for _ in range(2)]
    late = harness.wait_until("one to be refused", lambda: next(
        (t for t in both if t.poll() is not None), None))
    assert "this run is being traced already" in late.log.read_text()
    client.call("continue")
    assert sorted(t.wait(timeout=harness.DEADLINE_S) for t in both) == [0, 1]
    stop(p, client)
    w.brood("trace", "a", code=3)
    w.brood("trace", "--steps", "0", code=2)


def test_a_client_that_leaves_ends_its_trace(w):
    """Whoever asks next is answered."""
    p, client = start(w)
    long = [w.start("trace", "a", "--steps", 100_000)]

    def answer():
        t = w.start("trace", "a", "--steps", 1)
        return t.wait(timeout=harness.DEADLINE_S), t.log.read_text()

    def long_one_runs():
        """A short trace may have come first, and the long one was refused: start it again."""
        if long[-1].poll() is not None:
            long.append(w.start("trace", "a", "--steps", 100_000))
        return "traced already" in answer()[1] and long[-1].poll() is None

    harness.wait_until("the long trace", long_one_runs)
    harness.kill(long[-1].pid)
    harness.wait_until("another trace", lambda: answer()[0] == 0)
    stop(p, client)


def test_the_run_may_end_first(w):
    p, client = start(w)
    both = [w.start("trace", "a", "--steps", 100000) for _ in range(2)]
    harness.wait_until("one to be refused", lambda: any(t.poll() is not None for t in both))
    stop(p, client)
    assert [t.wait(timeout=harness.DEADLINE_S) for t in both] == [1, 1]
    assert any("the run ended before" in t.log.read_text() for t in both)


def frames(text, pattern):
    return [(m.group(1), int(m.group(2))) for m in re.finditer(pattern, text)]


def test_both_ends_log_every_frame(w):
    w.brood("run", w.small(steps=600), "--name", "v", "-q", "-vv")
    logs = w.run_dir("v") / "logs"
    supervisor = (logs / "supervisor.log").read_text()
    assert "starting -> configuring" in supervisor
    for name in ("agent_0", "agent_1", "agent_2"):
        own = (logs / f"{name}.log").read_text()
        sent = frames(supervisor, rf"debug .*: to {name}: (\w+), request (\d+)")
        read = frames(own, r"debug .*: read (\w+), request (\d+)")
        answered = frames(own, r"debug .*: answered (\w+), request (\d+), after [0-9.]+ us")
        assert sent == read == answered and len(sent) > 100, (len(sent), len(read))


def test_a_quiet_run_logs_no_frames(w):
    w.brood("run", w.small(steps=600), "--name", "q", "-q")
    for log in (w.run_dir("q") / "logs").iterdir():
        assert "debug" not in log.read_text() and "verbose" not in log.read_text(), log


def test_states_and_replays_without_frames(w):
    p = w.start("run", w.small(steps=100000000, evaluate=0), "--name", "r",
                env={"BROOD_LOG": "verbose"})
    agents = harness.wait_until("the rounds", lambda: harness.rows(w.run_dir("r")) > 2 and
                                harness.agents_of(p.pid))
    log = w.run_dir("r") / "logs" / "supervisor.log"
    harness.kill(agents["agent_1"])
    harness.wait_until("the second process", lambda: re.search(
        r"agent agent_1: exit, .*agent agent_1: replayed, ", log.read_text(), re.DOTALL))
    harness.kill(p.pid, 2)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert " debug " not in log.read_text()


def test_the_states_of_a_run_are_logged(w):
    p = w.start("run", w.small(steps=100000000, evaluate=0), "--name", "s", "-v")
    harness.wait_until("the rounds", lambda: harness.rows(w.run_dir("s")) > 2)
    for command in "pause", "checkpoint", "continue", "pause", "stop":
        w.brood(command, "s")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    log = (w.run_dir("s") / "logs" / "supervisor.log").read_text()
    steps = re.findall(r" run: ([^,]+), (.+) -> (.+)", log)
    at = "loading"
    for _, before, after in steps:
        assert before == at, steps
        at = after
    assert at == "over", steps
    for step in (("opened", "loading", "connecting"), ("connected", "connecting", "starting"),
                 ("driven", "starting", "playing"),
                 ("paused", "playing", "paused"), ("continue", "paused", "playing"),
                 ("stop", "paused", "finishing"), ("done", "finishing", "stopping"),
                 ("closed", "saving", "over")):
        assert step in steps, (step, steps)


def test_pure_requests_are_checked_in_real_agents(w):
    """The variable is in the agents' environment."""
    p = w.start("run", w.small(steps=100000000, evaluate=0), "--name", "c",
                env={"BROOD_CHECK_PURE": "1", "BROOD_DEBUG": "1"})
    agents = harness.wait_until("the agents", lambda: harness.rows(w.run_dir("c")) > 0 and
                                harness.agents_of(p.pid))
    for pid in agents.values():
        with open(f"/proc/{pid}/environ", "rb") as f:
            assert b"BROOD_CHECK_PURE=1" in f.read().split(b"\0")
    harness.kill(p.pid, 2)
    assert p.wait(timeout=harness.DEADLINE_S) == 4


if __name__ == "__main__":
    harness.main()
