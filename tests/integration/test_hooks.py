"""Programs that a configuration names for events of the run (`on`)."""
import csv
import json
import os
import signal
import socket
import subprocess
import sys

import harness
from test_changes import journal
from test_exactness import outcome

NOBODY = 65534

# Appends what it gets to a file, as one line and so in one write: others may do so, too.
NOTE = r"""#!/bin/sh
line=$(cat)
printf '%s\t%s\n' "$line" "$BROOD_EVENT $BROOD_RUN $BROOD_RUN_DIR $PWD $*" >> "$1"
echo "noted $BROOD_EVENT"
"""
# Leaves two processes that nothing but the run's end, or the deadline, ends.
HANG = """#!/bin/sh
setsid sleep 4242 &
echo $! >> hanging
echo $$ >> hanging
sleep 4243
"""
# Waits until somebody has opened `gate` for writing.
GATED = """#!/bin/sh
echo $$ >> begun
: < gate
cat >> ended
"""
# Packages with the interfaces of the trackers that brood.track uses; they write to `sent`, and are
# killed then if there is a file `kill`.
TRACKERS = {"wandb": """
import contextlib, json, os, signal, types

def Settings(**given):
    return given

@contextlib.contextmanager
def init(project, id, name, mode, **given):
    def log(values, step):
        with open("sent", "a") as f:
            print(json.dumps([project, id, name, mode, step, values]), file=f)
        if os.path.exists("kill"):
            os.remove("kill")
            signal.raise_signal(signal.SIGKILL)
    yield types.SimpleNamespace(log=log, config={})
""", "mlflow": """
import contextlib, json, os, signal, types

def set_tracking_uri(uri):
    now.uri = uri

def set_experiment(name):
    now.project = name

def set_tag(key, text):
    assert "agent_0" in text, text

@contextlib.contextmanager
def start_run(run_id, run_name):
    now.run = [now.project, run_id or "made", run_name, now.uri]
    yield types.SimpleNamespace(info=types.SimpleNamespace(run_id="made"))

def log_metrics(values, step):
    with open("sent", "a") as f:
        print(json.dumps([*now.run, step, values]), file=f)
    if os.path.exists("kill"):
        os.remove("kill")
        signal.raise_signal(signal.SIGKILL)

now = types.SimpleNamespace()
"""}
# The limits of supervisor/run/hooks.h.
MAX_RUNNING, MAX_WAITING, LOG_MAX_BYTES = 4, 256, 16 << 20


def script(w, name, text):
    w.write(name, text).chmod(0o755)
    return f"./{name}"


def start(w, name, on, *more, **options):
    return w.start("run", w.small(**options), "--name", name, "--set", f"on={on}", *more)


def noted(path):
    """[(event, "its variables and arguments")...]"""
    pairs = [line.split("\t") for line in path.read_text().splitlines()]
    return [(json.loads(event), said) for event, said in pairs]


def hook_log(run):
    return (run / "logs" / "hooks.log").read_text()


def test_a_program_gets_what_json_prints(w):
    note = script(w, "note.sh", NOTE)
    on = ", ".join(f"{e}: [{note}, {e}]" for e in
                   ("give_up", "exit", "checkpoint", "evaluation", "start", "end"))
    on += f", failed: [{note}, failed], continue: [sh, -c, exit 3], deadline: 1h"
    p = start(w, "noted", f"{{{on}}}",
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
    on = f"on={{checkpoint: [{note}, c], deadline: 1h}}"
    for name, on in (("plain", ()), ("hooked", ("--set", on))):
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
    harness.signal_process(p.pid, signal.SIGTERM)
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


def pause_and_continue(control, times):
    """So many `pause` and `continue` events. Each request is msgpack-rpc: [0, 1, method, {}];
    it is answered with [1, 1, nil, ...]."""
    for method in (b"pause", b"continue") * times:
        control.sendall(b"\x94\x00\x01" + bytes([0xa0 + len(method)]) + method + b"\x80")
        answer = control.recv(4096)
        assert answer.startswith(b"\x94\x01\x01\xc0"), answer


def test_four_programs_run_and_256_events_wait(w):
    """Those that come then are dropped. The run does not wait for any."""
    gated = script(w, "gated.sh", GATED)
    os.mkfifo(w.path / "gate")
    begun, ended = w.write("begun", ""), w.write("ended", "")
    kept, times = MAX_RUNNING + MAX_WAITING, 135
    assert kept < 2 * times
    p = start(w, "many", f"{{pause: [{gated}], continue: [{gated}], deadline: 1h}}",
              steps=harness.FOREVER, checkpoint=harness.FOREVER, evaluate=0)
    run = w.run_dir("many")
    harness.wait_until("the first round", lambda: harness.rows(run))
    control = socket.socket(socket.AF_UNIX)
    control.settimeout(harness.DEADLINE_S)
    control.connect(str(run / "control.sock"))
    pause_and_continue(control, times)
    dropped = f"further events, dropped: {MAX_WAITING} events wait already"
    harness.wait_until("a dropped event", lambda: dropped in hook_log(run))
    harness.wait_until("the programs", lambda: begun.read_text().count("\n") >= MAX_RUNNING)
    pids = {pid for pid, (_, _, command) in harness.children(harness.holder_of(run)).items()
            if "gated.sh" in command}
    assert len(pids) == MAX_RUNNING, pids
    assert pids == {int(pid) for pid in begun.read_text().split()}, (pids, begun.read_text())
    assert ended.read_text() == ""
    gate = os.open(w.path / "gate", os.O_RDWR)  # does not wait for a reader
    try:
        harness.wait_until("the others", lambda: ended.read_text().count("\n") >= kept)
        # There is room again. No event but the dropped ones was lost before these.
        pause_and_continue(control, 1)
        harness.wait_until("two more", lambda: ended.read_text().count("\n") >= kept + 2)
    finally:
        os.close(gate)
        control.close()
    w.brood("stop", run)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    events = [e["event"] for e in harness.json_lines(ended.read_text())]
    assert events.count("pause") == events.count("continue") == kept // 2 + 1, events
    assert hook_log(run).count(dropped) == 1, hook_log(run)


def test_a_program_stops_its_run(w):
    """And does not wait for an end that waits for it: the deadline is no way out here."""
    stop = script(w, "stop.sh", f"""#!/bin/sh
{harness.BROOD} stop "$BROOD_RUN_DIR" && echo over > "$1"
""")
    p = start(w, "ended", f"{{checkpoint: [{stop}, over], deadline: 1h}}",
              steps=harness.FOREVER, checkpoint=400)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert (w.path / "over").read_text() == "over\n"
    assert "stopped at step" in hook_log(w.run_dir("ended"))


def test_rows_go_to_a_tracker(w):
    """Each once, also if steps are made again, and if some calls have failed; a call that is
    killed is followed by one that sends a row again, to the same run of the tracker."""
    (w.path / "trackers").mkdir()
    for tracker, text in TRACKERS.items():
        sent = w.path / "sent"
        sent.unlink(missing_ok=True)
        w.write(f"trackers/{tracker}.py", text)
        program = ('#!/bin/sh\nPYTHONPATH="$PYTHONPATH:$PWD/trackers" exec '
                   f'{sys.executable} -m brood.track {tracker} --project p\n')
        command = script(w, tracker, program)
        (w.path / "kill").touch()
        start(w, tracker, f"{{row: [{command}], end: [{command}], deadline: 10m}}", "--set",
              "log.every_env_steps=500", "--until", "2000", steps=4000, checkpoint=500).wait()
        assert len(sent.read_text().splitlines()) == 5
        script(w, tracker, "#!/bin/sh\nexit 1\n")
        w.brood("resume", tracker, "--from", "1000", "--until", "3000", code=4)
        script(w, tracker, program)
        w.brood("resume", tracker)
        lines = [json.loads(line) for line in sent.read_text().splitlines()]
        with open(w.run_dir(tracker) / "metrics" / "progress.csv", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        assert [*dict.fromkeys((line[4], line[5]["rollout/team_return/agent"])
                               for line in lines)] == \
            [(int(row["env_steps"]), float(row["rollout/team_return/agent"])) for row in rows]
        assert len(rows) == 8 and len(lines) == 9 and not (w.path / "kill").exists()
        assert lines[0][0] == "p" and len({line[1] for line in lines}) == 1
    p = subprocess.run([sys.executable, "-m", "brood.track", "wandb", w.path], text=True,
                       capture_output=True, env={**os.environ, "PYTHONPATH": str(
                           harness.SOURCE / "scripts" / "python")}, check=False)
    assert p.returncode == 1 and p.stderr.startswith("brood.track: expected a run's directory"), p


def test_a_full_log_gets_no_more_output(w):
    talk = script(w, "talk.sh", "#!/bin/sh\necho printed\ncat >> events\nexit 7\n")
    w.brood("run", w.small(steps=1200, checkpoint=400, evaluate=400), "--name", "full",
            "--until", "400", "--set", f"on={{checkpoint: [{talk}], deadline: 1h}}", code=4)
    run, events = w.run_dir("full"), w.path / "events"
    log = run / "logs" / "hooks.log"
    assert "printed\n" in hook_log(run), hook_log(run)
    before = events.read_text().count("\n")
    os.truncate(log, LOG_MAX_BYTES)
    w.brood("resume", run)
    more = events.read_text().count("\n") - before
    says = log.read_bytes()[LOG_MAX_BYTES:].decode()
    assert more >= 2 and says.count("exited with code 7\n") == more, (more, says)
    assert says.count("this log is full: no more output of programs is kept\n") == 1, says
    assert "printed" not in says, says


def test_programs_of_another_users_run_need_trust(w):
    if os.geteuid() != 0:
        raise harness.Skip("another user's run needs root to make")
    note = script(w, "note.sh", NOTE)
    w.brood("run", w.small(steps=800, checkpoint=400, evaluate=400), "--name", "theirs",
            "--until", "400", "--set",
            f"on={{start: [{note}, out], resume: [{note}, out], deadline: 1h}}", code=4)
    run, out = w.run_dir("theirs"), w.path / "out"
    out.unlink()
    os.chown(run / "config.yaml", NOBODY, NOBODY)
    for command in (("resume", run), ("fork", run, "--name", "forked")):
        _, err = w.brood(*command, code=2)
        assert "--trust" in err and not out.exists(), (command, err)
    w.brood("fork", run, "--name", "forked", "--trust")
    assert [e["event"] for e, _ in noted(out)] == ["resume"], out.read_text()
    w.brood("resume", run, "--trust")
    assert [e["event"] for e, _ in noted(out)] == ["resume"] * 2, out.read_text()


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
