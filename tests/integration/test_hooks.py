"""Programs that a configuration names for events of the run (`on`)."""
import json
import os
import signal

import harness
from test_changes import journal
from test_exactness import outcome

# Appends what it gets to a file.
NOTE = """#!/bin/sh
{ cat; echo "$BROOD_EVENT $BROOD_RUN $BROOD_RUN_DIR $PWD $*"; } >> "$1"
echo "noted $BROOD_EVENT"
"""
# Leaves two processes that nothing but the run's end, or the deadline, ends.
HANG = """#!/bin/sh
setsid sleep 4242 &
echo $! >> hanging
echo $$ >> hanging
sleep 4243
"""


def script(w, name, text):
    w.write(name, text).chmod(0o755)
    return f"./{name}"


def start(w, name, on, *more, **options):
    return w.start("run", w.small(**options), "--name", name, "--set", f"on={on}", *more)


def noted(path):
    """[event, "its variables and arguments"...] as pairs of lines."""
    lines = path.read_text().splitlines()
    return [(json.loads(a), b) for a, b in zip(lines[::2], lines[1::2])]


def hook_log(run):
    return (run / "logs" / "hooks.log").read_text()


def test_a_program_gets_what_json_prints(w):
    note = script(w, "note.sh", NOTE)
    on = ", ".join(f"{e}: [{note}, {e}]" for e in
                   ("give_up", "exit", "checkpoint", "evaluation", "start", "end"))
    p = start(w, "noted", f"{{{on}, failed: [{note}, failed], continue: [sh, -c, exit 3]}}",
              "--json", "--set", "agents.agent_1.restart={policy: temporary, on_give_up: noop}",
              steps=harness.FOREVER, evaluate=400, checkpoint=400)
    run = w.run_dir("noted")
    harness.wait_until("an evaluation", (w.path / "evaluation").exists)
    w.brood("kill", run, "agent_1")
    harness.wait_until("the give-up", lambda: journal(run, "give-up"))
    w.brood("pause", run)
    w.brood("continue", run)
    harness.wait_until("a log", lambda: "continue: sh exited with code 3" in hook_log(run))
    w.brood("stop", run)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    printed = harness.json_lines(harness.output(p))
    for event in ("give_up", "exit", "checkpoint", "evaluation"):
        says = noted(w.path / event)
        assert {said for _, said in says} == {f"{event} noted {run} {w.path} {event}"}, says
        # Programs that run side by side may note in another order.
        assert sorted(json.dumps(e) for e, _ in says) == \
            sorted(json.dumps(e) for e in printed if e["event"] == event), (says, printed)
    [(begun, _)] = noted(w.path / "start")
    assert begun["event"] == "start" and begun["env_steps"] == 0, begun
    [(end, _)] = noted(w.path / "end")
    assert end["event"] == "end" and end["state"] == "stopped" and end["code"] == 4, end
    assert f"step={end['env_steps']} event=end" in (run / "journal").read_text()
    assert not (w.path / "failed").exists()
    for event in ("give_up", "checkpoint", "end"):
        assert f"noted {event}\n" in hook_log(run), hook_log(run)


def test_a_hook_changes_no_bytes(w):
    note = script(w, "note.sh", NOTE)
    files = []
    for name, on in (("plain", ()), ("hooked", ("--set", f"on={{checkpoint: [{note}, c]}}"))):
        w.brood("run", w.small(steps=400, checkpoint=200, evaluate=200), "--name", name, *on)
        files.append({k: v for k, v in outcome(w.run_dir(name)).items()
                      if not k.endswith("run.state")})  # it has the configuration
    assert (w.path / "c").exists()
    harness.assert_same_files(*files)


def test_a_program_that_hangs_is_killed(w):
    """The run does not wait for it, and its end no longer than the deadline."""
    hang = script(w, "hang.sh", HANG)
    hanging = w.write("hanging", "")
    p = start(w, "hangs", f"{{start: [{hang}], end: [{hang}], deadline: 1s}}",
              steps=400, checkpoint=400, evaluate=400)
    run = w.run_dir("hangs")
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    log = hook_log(run)
    for event in ("start", "end"):
        assert f"{event}: {hang} was killed: it took longer" in log, log
    pids = [int(pid) for pid in hanging.read_text().split()]
    assert not any(map(harness.alive, pids)), pids
    # A signal cuts the wait short.
    hanging.write_text("")
    p = start(w, "cut", f"{{end: [{hang}], deadline: 1h}}", steps=400, checkpoint=400,
              evaluate=400)
    harness.wait_until("its end", lambda: hanging.read_text().count("\n") == 2)
    pids = [int(pid) for pid in hanging.read_text().split()]
    assert all(map(harness.alive, pids)), pids
    os.kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert not any(map(harness.alive, pids)), pids


def test_a_program_ends_with_the_supervisor(w):
    hang = script(w, "hang.sh", HANG)
    p = start(w, "killed", f"{{start: [{hang}], end: [{hang}], deadline: 1h}}",
              steps=harness.FOREVER)
    run, hanging = w.run_dir("killed"), w.path / "hanging"
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    harness.wait_until("the program",
                       lambda: hanging.exists() and hanging.read_text().count("\n") == 2)
    pids = [int(pid) for pid in hanging.read_text().split()]
    assert all(map(harness.alive, pids)), pids
    harness.kill_holder(p, run)
    assert not any(map(harness.alive, pids)), pids
    # A fork keeps them; a resume, too, and it does not need the program to be there.
    (w.path / "hang.sh").unlink()
    config = (run / "config.yaml").read_text()
    assert "start: [./hang.sh]" in config and f"directory: {w.path}\n" in config, config
    step = harness.checkpoints(run)[-1]
    w.brood("fork", run, "--name", "forked", "--until", step + 400, code=4)
    assert "start: [./hang.sh]" in (w.run_dir("forked") / "config.yaml").read_text()
    w.brood("resume", run, "--until", step + 400, code=4)
    for over in run, w.run_dir("forked"):
        assert "brood-agent launch: ./hang.sh: No such file" in hook_log(over)
    _, err = w.brood("resume", run, "--set", "on.start=[sh]", code=2)
    assert "had 'start: [./hang.sh]', now it has 'start: [sh]'" in err, err


def test_a_program_that_is_not_there_is_refused(w):
    (w.path / "plain").write_text("no program")
    for word, why in (("./absent", f"there is no executable file of that name in {w.path}"),
                      ("./plain", f"there is no executable file of that name in {w.path}"),
                      ("/absent/a", "there is no executable file of that name in that place"),
                      ("absent-program", "PATH has none of that name")):
        file = w.small("absent.yaml")
        lines = file.read_text().count("\n")
        file.write_text(file.read_text() + f"on:\n  end: [{word}]\n")
        says = f"{file}:{lines + 2}: on.end: found '{word}', expected a program: {why}\n"
        assert w.brood("check", file, code=2)[1] == says, (word, says)
    _, err = w.brood("run", file, "--name", "never", code=2)
    assert err.endswith(says), err
    assert not w.run_dir("never").exists()
    keys, _ = w.brood("check", "--help")
    assert "  on.give_up  " in keys and "  on.deadline  " in keys, keys


if __name__ == "__main__":
    harness.main()
