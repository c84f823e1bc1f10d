"""Agents that are programs of the user's: what they say of themselves, and the same promise."""
import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import textwrap

import harness
from test_exactness import outcome

PLAIN = harness.SOURCE / "tests" / "support" / "plain_program.py"
EXAMPLES = harness.SOURCE / "tests" / "examples" / "agents"
TORCH = os.environ.get("BROOD_TORCH_PYTHON", "python3")  # a Python that has torch
CONFIG = """
env: {{id: simple_spread}}
run: {{env_steps: {steps}, seed: 5}}
defaults:
  algorithm: program
  command: [python3, agents/plain_program.py]
  settings: {{step: 0.5 to 0.125 over 500}}
experience: {{batch_size: 8, warmup: 50, update_every: 20}}
checkpoint: {{every_env_steps: 500, max_to_keep: none}}
evaluation: {{every_env_steps: 500, episodes: 2}}
"""


def needs_msgpack():
    if importlib.util.find_spec("msgpack") is None:
        raise harness.Skip("Python has no msgpack")


def program(w, steps=2000, **faults):
    """A configuration whose agents are the program of tests/support, in a folder beside it."""
    needs_msgpack()
    (w.path / "agents").mkdir(exist_ok=True)
    shutil.copy(PLAIN, w.path / "agents")
    text = CONFIG.format(steps=steps)
    if faults:
        text += "".join(f"agents: {{agent_1: {{environment: {{FAULT: {f}}}}}}}\n"
                        for f in faults.values())
    return w.write("program.yaml", text)


def pids(w, run):
    return {a["name"]: a["pid"] for a in w.status(run)["agents"] if a.get("pid")}


def test_a_program_is_described_and_configured(w):
    config = program(w)
    out, _ = w.brood("check", config)
    assert "ok: 3 agents, program" in out, out
    for key, why in (("settings.step=2", "at most 1"), ("settings.stop=1", "unknown key"),
                     ("settings.words=none", "few or many"), ("polyak=x", "a number"),
                     ("command=[]", "at least one word"),
                     ("command=[nothing]", "No such file or directory"),
                     ("environment={A: [1]}", "environment")):
        _, err = w.brood("check", config, "--set", f"defaults.{key}", code=2)
        assert why in err and err.count("\n") == 1, (key, err)
    _, err = w.brood("check", config, "--set", "defaults.algorithm=ddpg", code=2)
    assert "ddpg has no command, expected algorithm: program" in err, err
    for key in ("threads=4", "exact=reported", "environment={A: b}"):
        _, err = w.brood("check", w.small(), "--set", f"defaults.{key}", code=2)
        assert f"has no {key.split('=')[0]}, expected algorithm: program" in err, err
    _, err = w.brood("check", w.small(), "--set", "defaults.algorithm=program", code=2)
    assert "expected the words that start the program" in err, err


def test_a_program_that_does_not_describe_itself_is_refused(w):
    for fault, why in (("exit", "it has no time"), ("raise", "plain_program.py"), ("text", ""),
                       ("write", "" if harness.SANITIZED else "of_a_program")):
        if fault == "write" and harness.SANITIZED:
            continue  # nothing is confined
        _, err = w.brood("check", program(w, fault=fault), code=2)
        assert "agents.agent_1.command: the program does not say what it is" in err, err
        assert why in err, err
        assert not os.path.exists("/tmp/of_a_program")


def test_a_process_that_is_killed_while_it_describes_itself_is_replaced(w):
    """Three times, then the line says so."""
    for kills, code in ((2, 0), (3, 2)):
        go = w.path / f"go{kills}"
        p = w.start("check", program(w), "--set",
                    f"defaults.environment={{FAULT: waits, GO: {go}}}")
        killed = set()
        while len(killed) < kills:
            pid = harness.wait_until("a process", lambda: next(
                (pid for pid, (state, _, line) in harness.children(p.pid).items()
                 if state != "Z" and "plain_program.py" in line and pid not in killed), None))
            harness.kill(pid)
            killed.add(pid)
        go.touch()
        assert p.wait(timeout=harness.DEADLINE_S) == code, p.log.read_text()
    assert "killed by SIGKILL in describe" in p.log.read_text(), p.log.read_text()


def killed_as_calm(w, config, kills, *options):
    """A run whose agents are killed at random moments ends with the bytes of a calm one."""
    with open(config, "a", encoding="ascii") as f:
        f.write("agents: {agent: {restart: {max_restarts: 1000000, delay: 0s}}}\n")
    w.brood("run", config, "--name", "calm", *options)
    p = w.start("run", config, "--name", "killed", *options)
    killed = 0
    harness.wait_until("the run", lambda: harness.checkpoints(w.run_dir("killed")))
    while p.poll() is None and killed < kills:
        for name, pid in pids(w, "killed").items():
            if p.poll() is None and pid in harness.processes():
                harness.kill(pid)
                killed += 1
    assert p.wait() == 0 and killed >= 3, killed
    assert "event=respawn" in (w.run_dir("killed") / "journal").read_text()
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("killed")))
    assert not [line for _, _, line in harness.processes().values() if str(w.path) in line]


def test_kills_change_no_byte(w):
    killed_as_calm(w, program(w), 12)


def test_many_requests_are_repeated(w):
    """BROOD_SNAPSHOT_AFTER makes copies of the variables rare: a process that replaces one that
    died in the middle of an update does again what all updates before it did."""
    options = ["--set", "checkpoint.every_env_steps=100000", "--set",
               "evaluation.every_env_steps=0"]
    w.brood("run", program(w, 4000), "--name", "calm", *options,
            env={"BROOD_SNAPSHOT_AFTER": "seldom"})
    assert "BROOD_SNAPSHOT_AFTER=seldom: a number of requests expected" in \
        (w.run_dir("calm") / "logs/supervisor.log").read_text()
    for run, after, least, most in (("usual", "", 0, 100), ("rare", "1000", 99, 100),
                                    ("often", "8", 0, 8)):
        w.brood("run", program(w, 4000, fault="dies"), "--name", run, *options,
                env={"BROOD_SNAPSHOT_AFTER": after})
        journal = (w.run_dir(run) / "journal").read_text()
        replayed = [int(n) for n in re.findall(r"event=ready .*replayed=(\d+)", journal)]
        assert journal.count("event=respawn") == 1, journal
        assert least <= sum(replayed) <= most and len(replayed) <= 1, (run, replayed)
        a, b = ({name: x for name, x in outcome(w.run_dir(r)).items() if "run.state" not in name}
                for r in ("calm", run))  # which says how the program was started
        harness.assert_same_files(a, b)


def test_what_cannot_be_exact_is_reported(w):
    """A program with a counter outside of its block gives other bytes when it is replaced: with
    `exact: reported` the run goes on, and says that it is not exact, and from when on."""
    config = program(w, 4000, fault="dies+hidden")
    env = {"BROOD_SNAPSHOT_AFTER": "1000"}
    _, err = w.brood("run", config, "--name", "required", env=env, code=1)
    assert "not reproducible: asked again after a restart, it answered" in err, err
    w.brood("run", config, "--name", "reported", "--set", "agents.agent_1.exact=reported", env=env)
    journal = (w.run_dir("reported") / "journal").read_text()
    assert journal.count("event=respawn") == 1 and journal.count("event=inexact") == 1, journal
    assert "a process was replaced, and the program of agent_1 need not repeat its bits" in journal
    assert not w.status("reported")["exact"]
    config = program(w, 4000)
    w.brood("run", config, "--name", "calm", "--set", "defaults.exact=reported", "--set",
            "agents={agent_1: {exact: required, confine: {threads: true}}}", "--until", "2000", code=None)
    assert w.status("calm")["exact"]
    w.brood("resume", "calm")
    journal = (w.run_dir("calm") / "journal").read_text()
    assert "the run was resumed, and the program of agent_0 need not" in journal, journal
    assert not w.status("calm")["exact"]


def test_a_scalar_gets_a_column_when_it_comes(w):
    """The program declares none. The file is replaced once; its rows stay."""
    w.brood("run", program(w, 500), "--name", "a", "--set", "log.every_env_steps=20")
    lines = (w.run_dir("a") / "metrics/progress.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    assert rows[0][-4:] == ["time/learn_ms"] + [f"train/agent_{i}/first_weight" for i in range(3)]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert rows[1][-3:] == ["", "", ""] and "" not in rows[-1][-3:], rows
    at = [rows[0].index(f"train/agent_{i}/critic_loss") for i in range(3)]
    assert all([row[i] for i in at] == row[-3:] for row in rows[1:])
    assert sorted(p.name for p in (w.run_dir("a") / "metrics").iterdir())[1:] == ["progress.csv"]


def needs_torch():
    found = subprocess.run([TORCH, "-c", "import torch, msgpack"], capture_output=True,
                           check=False)
    if found.returncode != 0:
        raise harness.Skip(f"{TORCH} has no torch")


def example(w, name, more="", python="python3"):
    """A configuration whose agents are one of tests/examples/agents."""
    needs_msgpack()
    text = CONFIG.format(steps=3000).replace("[python3, agents/plain_program.py]",
                                             f"[{python}, {EXAMPLES / name}]")
    return w.write("example.yaml", text.replace("  settings: {step: 0.5 to 0.125 over 500}\n", "")
                   + more)


def test_an_example_in_numpy_is_killed_and_resumed(w):
    if importlib.util.find_spec("numpy") is None:
        raise harness.Skip("Python has no numpy")
    config = example(w, "numpy_q.py")
    killed_as_calm(w, config, 9)
    w.brood("run", config, "--name", "halves", "--until", "1000", code=None)
    w.brood("resume", "halves")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("halves")))


def test_a_run_that_failed_says_why(w):
    """Wherever somebody looks at it: the line, whose agent, and where in its program."""
    needs_msgpack()
    if importlib.util.find_spec("numpy") is None:
        raise harness.Skip("Python has no numpy")
    w.brood("new", "simple_spread", "--agent", "raises.py")
    code, head = (w.path / "raises.py").read_text(), "def learn(self, batch, ctx):\n"
    at = code.index(head) + len(head)
    (w.path / "raises.py").write_text(code[:at] + "        raise ValueError('no good')\n" + code[at:])
    line = code[:at].count("\n") + 1
    out, err = w.brood("run", "raises.yaml", "--name", "raises", "--json",
                       "--set", "experience.warmup=100", code=1)
    end = json.loads(out.splitlines()[-1])
    listed = harness.json_lines(w.brood("runs", "--json")[0])[0]
    for said in end, listed, w.status("raises"):
        assert f"ValueError: no good (raises.py:{line} in learn)" in said["failure"], said
        assert said["failure_agent"] in said["failure"] and said["failure"] in err, (said, err)
        assert (said["failure_file"], said["failure_line"]) == ("raises.py", line), said
    assert f"\n  why: {end['failure']}\n" in w.brood("status", "raises")[0]
    assert end["failure"][:60] in w.brood("runs")[0]


def test_the_configurations_that_examples_show(w):
    needs_msgpack()
    needs_torch()
    for file in sorted(EXAMPLES.glob("*.py")):
        shown = ast.get_docstring(ast.parse(file.read_text())).partition("\n\n")[2]
        text = textwrap.dedent(shown).replace("tests/", f"{harness.SOURCE}/tests/")
        text = text.replace("scripts/", f"{harness.SOURCE}/scripts/")
        if "env:" not in text:
            text = "env: {id: simple_spread}\n" + text
        elif "{copies: " in text:
            text = text.replace("{copies: ", "{id: simple_spread, copies: ")
        text = text.replace(f"[python3, {EXAMPLES}", f"[{TORCH}, {EXAMPLES}")
        out, err = w.brood("check", w.write(f"{file.stem}.yaml", text))
        assert "program" in out and "dropped" not in err, (file.name, out, err)


def test_an_example_in_pytorch_is_killed(w):
    needs_torch()
    killed_as_calm(w, example(w, "dqn.py", python=TORCH), 6)


def test_proposals_of_programs_survive_kills(w):
    """An update of three stages, two of which write; the second needs everyone's first."""
    needs_torch()
    killed_as_calm(w, example(w, "maddpg.py", python=TORCH), 6)


def test_a_memory_survives_kills_and_a_resume(w):
    """Windows that begin in the middle of episodes, with the memory of then."""
    needs_torch()
    config = example(w, "recurrent_ppo.py", python=TORCH)
    windows = ("--set", "env.copies=4", "--set", "experience.update_every=80",
               "--set", "defaults.settings.epochs=2")
    killed_as_calm(w, config, 6, *windows)
    w.brood("run", config, "--name", "halves", "--until", "1000", *windows, code=None)
    w.brood("resume", "halves")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("halves")))


def lua():
    """A Lua of 5.3 or newer with MessagePack: packages lua5.4 and lua-messagepack."""
    path = 'package.path = package.path .. ";/usr/share/lua/5.3/?.lua"; require "MessagePack"'
    for name in ("lua5.4", "lua5.3"):
        if shutil.which(name) and subprocess.run([name, "-e", path], check=False,
                                                 capture_output=True).returncode == 0:
            return name
    raise harness.Skip("there is no Lua with MessagePack (lua5.4, lua-messagepack)")


def test_an_example_in_lua_is_killed_resumed_and_checked(w):
    config = example(w, "linear_q.lua").read_text().replace("python3", lua())
    config = w.write("lua.yaml", config)
    if importlib.util.find_spec("numpy") is not None:
        for actions in ((), ("--actions", "masked")):
            out, _ = w.brood("agent-check", config, *actions)
            assert "agent_0: no faults, no notes in 10 checks" in out, out
    _, err = w.brood("check", config, "--set", "env.actions=continuous", code=2)
    assert "linear_q.lua chooses one of several actions" in err and err.count("\n") == 1, err
    killed_as_calm(w, config, 9)
    w.brood("run", config, "--name", "halves", "--until", "1000", code=None)
    w.brood("resume", "halves")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("halves")))
    shutil.copy(EXAMPLES / "linear_q.lua", w.path)  # what the run keeps is what goes on
    config = w.write("kept.yaml", config.read_text().replace(f"{EXAMPLES}/", ""))
    w.brood("run", config, "--name", "kept", "--until", "1000", code=None)
    (w.path / "linear_q.lua").unlink()
    w.brood("resume", "kept")
    calm, kept = outcome(w.run_dir("calm")), outcome(w.run_dir("kept"))
    for files in (calm, kept):
        del files["run.state"]  # it has the command
    harness.assert_same_files(calm, kept)


def test_programs_run_on_nodes(w):
    config = program(w)
    w.brood("run", config, "--name", "here")
    w.brood("run", config, "--name", "there", "--set", "cluster={launcher: local, nodes: 2}")
    harness.assert_same_files(
        {k: v for k, v in outcome(w.run_dir("here")).items() if k.startswith("agent_")},
        {k: v for k, v in outcome(w.run_dir("there")).items() if k.startswith("agent_")})


def test_a_program_is_sent_to_nodes(w):
    """Nodes that see neither the run's folder nor the program's get its files, also a node that
    replaces a lost one; and nothing of them stays. The folders are hidden by mounts."""
    hide = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
    found = subprocess.run([*hide, "mount", "-t", "tmpfs", "none", w.path], capture_output=True,
                           check=False)
    if found.returncode != 0:
        raise harness.Skip("no mounts of one's own here")
    program(w, harness.FOREVER).rename(w.path / "here.yaml")
    (w.path / "agents" / "data.txt").write_text("1\n" * 800000)  # of two pieces
    scratch = w.path / "scratch"
    scratch.mkdir()
    config = w.write("there.yaml", (w.path / "here.yaml").read_text() + f"""
cluster:
  launcher: command
  nodes: 2
  listen: 127.0.0.1
  command: [{', '.join(hide)}, sh, -c, 'mount -t tmpfs none {w.runs} &&
            mount -t tmpfs none {w.path}/agents && exec "$@"', sh]
""")
    env = {"TMPDIR": str(scratch)}
    p = w.start("run", config, "--name", "there", "--set", "defaults.sources=[agents/data.txt]",
                env=env)
    harness.wait_until("the files", lambda: list(scratch.glob("*/*/files/agents/data.txt")))
    harness.wait_until("updates", lambda: max(harness.checkpoints(w.run_dir("there")), default=0))
    harness.kill(harness.wait_until("a node", lambda: w.status("there")["nodes"][0]["pid"]))
    harness.wait_until("its loss", lambda: "is lost" in p.log.read_text())
    steps = harness.set_last_step(w, "there", 500)
    assert p.wait() == 0, p.log.read_text()
    harness.wait_until("no files", lambda: not list(scratch.glob("brood-scratch-*")))
    w.brood("run", "here.yaml", "--name", "here", "--set", "defaults.sources=[agents/data.txt]",
            "--set", f"run.env_steps={steps}")
    here, there = outcome(w.run_dir("here")), outcome(w.run_dir("there"))
    harness.assert_same_files({k: v for k, v in here.items() if k.startswith("agent_")},
                              {k: v for k, v in there.items() if k.startswith("agent_")})
    p = w.start("run", config, "--name", "gone", env=env)
    harness.wait_until("updates", lambda: max(harness.checkpoints(w.run_dir("gone")), default=0))
    node = harness.wait_until("a node", lambda: w.status("gone")["nodes"][0]["pid"])
    shutil.rmtree(w.run_dir("gone") / "programs")
    harness.kill(node)
    assert p.wait() != 0
    assert "what the run kept of the program is gone" in p.log.read_text(), p.log.read_text()


def test_a_run_is_resumed_from_what_it_keeps(w):
    """Neither the run's page nor its status starts the program; the resumed run is exact."""
    config = program(w)
    w.brood("run", config, "--name", "whole")
    w.brood("run", config, "--name", "halves", "--until", "1000", code=None)
    text = (w.run_dir("halves") / "config.yaml").read_text()
    kept, = (w.run_dir("halves") / "programs").iterdir()
    assert f"program: {kept.name}" in text, text
    moved = w.path / "moved"
    (w.path / "agents").rename(moved)
    step = w.status("halves")["env_steps"]
    assert w.brood("complete", "--", "set", "halves", "defaults.settings.st")[0].split() == [
        "defaults.settings.step="]
    w.brood("report", "--html", w.path / "page.html", "halves")
    w.brood("resume", "halves")  # from its copy
    harness.assert_same_files(outcome(w.run_dir("whole")), outcome(w.run_dir("halves")))
    w.brood("fork", f"halves@{step}", "--name", "fork", "--set", "defaults.settings.step=1")
    _, err = w.brood("fork", f"halves@{step}", "--name", "none", "--set", "defaults.settings.step=3",
                     code=2)
    assert "at most 1" in err, err
    (kept / "description").unlink()
    _, err = w.brood("eval", "halves", "--episodes", "1", code=None)
    assert "what the program is, is not known here" in err, err


def test_a_run_keeps_its_program(w):
    """What is edited, moved or removed after the start changes nothing, also for a respawned
    agent and for a fork; what the run keeps is checked where it is continued."""
    config = program(w)
    agents = w.path / "agents"
    (agents / "data").mkdir()
    (agents / "data" / "step.txt").write_text("1\n")
    (agents / "data" / ".hidden").write_text("1\n")
    (agents / "data" / "outside").symlink_to("/etc/passwd")
    (agents / "venv").mkdir()
    (agents / "venv" / "pyvenv.cfg").write_text("")
    (agents / "helper.sh").write_text("#!/bin/sh\n")
    (agents / "helper.sh").chmod(0o755)
    text = config.read_text().replace("command: [python3, agents/plain_program.py]",
                                      "command: [python3, plain_program.py]\n"
                                      "  sources: [data, venv, '*.sh']")
    config = agents / "program.yaml"
    config.write_text(text)
    options = "--set", "agents={agent: {restart: {delay: 0s}}}"
    w.brood("run", config, "--name", "calm", *options)
    folder, = (w.run_dir("calm") / "programs").iterdir()
    assert sorted(str(p.relative_to(folder / "files")) for p in (folder / "files").rglob("*")
                  if p.is_file()) == ["data/step.txt", "helper.sh", "plain_program.py"]
    assert os.access(folder / "files" / "helper.sh", os.X_OK)
    p = w.start("run", config, "--name", "edited", *options)
    harness.wait_until("the run", lambda: harness.checkpoints(w.run_dir("edited")))
    (agents / "plain_program.py").write_text("raise SystemExit('edited')\n")
    found = pids(w, "edited")
    for pid in found.values():
        harness.kill(pid)
    assert p.wait() == 0
    assert not found or "event=respawn" in (w.run_dir("edited") / "journal").read_text()
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("edited")))
    shutil.rmtree(agents)
    step = sorted(int(c.name) for c in (w.run_dir("calm") / "checkpoints").iterdir())[2]
    w.brood("fork", f"calm@{step}", "--name", "fork")
    w.brood("resume", "fork", code=None)
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("fork")))


def test_a_check_that_starts_nothing(w):
    """It says what it left out, and finds what it can."""
    config = program(w, fault="exit")
    out, _ = w.brood("check", config, "--no-start")
    assert "ok: 3 agents, program" in out, out
    assert "not started, and so not checked: agents.agent_0, agents.agent_1, agents.agent_2" in out
    out, _ = w.brood("check", config, "--no-start", "--json")
    assert json.loads(out)["not_started"] == "agents.agent_0, agents.agent_1, agents.agent_2"
    for key, why in (("discount=2", "at most 1"), ("command=[]", "at least one word"),
                     ("colour=red", "unknown key")):
        _, err = w.brood("check", config, "--no-start", "--set", f"defaults.{key}", code=2)
        assert why in err and err.count("\n") == 1, (key, err)
    text = "env: {command: [python3, nothing.py]}\nagents: {a: {}, b: {}}\n"
    out, _ = w.brood("check", w.write("foreign.yaml", text), "--no-start")
    assert "2 agents" in out and "not checked: env.command" in out, out
    out, _ = w.brood("check", w.small(), "--no-start")
    assert "not checked" not in out and "of memory" in out, out


def test_devices_are_checked(w):
    """A GPU is for programs that compute with torch; the rest is said by the program."""
    config = program(w)
    for base, device, why in (
            (w.small(), "cuda:0", "found 'cuda:0', but maddpg computes on the CPU: GPUs are for"),
            (config, "cuda:x", "expected a device such as cuda:0"),
            (config, "/job:worker/task:0/device:GPU:x", "or cuda:0")):
        _, err = w.brood("check", base, "--set", f"defaults.device={device}", code=2)
        assert why in err and err.count("\n") == 1, (device, err)
    w.brood("check", config, "--set", "defaults.device=cuda:0")  # it does not ask for it
    if importlib.util.find_spec("numpy") is not None:
        _, err = w.brood("check", example(w, "numpy_q.py"), "--set", "defaults.device=cuda:0",
                         code=2)
        assert "the agent has not imported torch, which computes on it" in err, err


def test_sources_are_checked(w):
    config = program(w)
    for sources, why in (("[nothing]", "is 'nothing'"), ("[/etc/passwd]", "of the program's folder"),
                         ("[../x]", "of the program's folder")):
        _, err = w.brood("check", config, "--set", f"defaults.sources={sources}", code=2)
        assert why in err and err.count("\n") == 1, (sources, err)
    with open(w.path / "agents" / "large", "wb") as f:
        f.truncate(65 << 20)
    _, err = w.brood("check", config, "--set", "defaults.directory=" + str(w.path), "--set",
                     "defaults.sources=[agents]", code=2)
    assert "larger than 64 MiB" in err and err.count("\n") == 1, err


def test_a_changed_program_continues_only_anyway(w):
    w.brood("run", program(w), "--name", "changed", "--until", "1000", code=None)
    folder, = (w.run_dir("changed") / "programs").iterdir()
    with open(folder / "files" / "agents" / "plain_program.py", "a", encoding="ascii") as f:
        f.write("# another line\n")
    _, err = w.brood("resume", "changed", code=2)
    assert "the program of agent_0 is not what the run began with" in err, err
    assert "plain_program.py" in err and "--anyway" in err, err
    w.brood("resume", "changed", "--anyway")
    assert "event=inexact" in (w.run_dir("changed") / "journal").read_text()


def test_a_program_is_no_policy_to_load(w):
    w.brood("run", program(w, 500), "--name", "mine")
    found = subprocess.run(
        ["python3", "-c", "import brood, sys; brood.load_policy(sys.argv[1], 'agent_0')",
         w.run_dir("mine")], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(harness.SOURCE / "scripts")})
    if "No module named 'numpy'" in found.stderr:
        raise harness.Skip("Python has no numpy")
    assert "agent_0 is a program of its own" in found.stderr.splitlines()[-1], found.stderr


def test_a_program_that_others_wrote_needs_trust(w):
    w.brood("run", program(w), "--name", "mine", "--until", "1000", code=None)
    folder, = (w.run_dir("mine") / "programs").iterdir()
    file = folder / "files" / "agents" / "plain_program.py"

    def refused(why):
        for command in (("resume", "mine"), ("eval", "mine"), ("replay", "mine", "--to", "500"),
                        ("fork", "mine", "--name", "forked")):
            _, err = w.brood(*command, code=2)
            assert why in err and "--trust" in err and err.count("\n") == 1, (command, err)

    file.chmod(0o666)
    refused(f"everybody may write its programs/{folder.name}/files/agents/plain_program.py")
    file.chmod(0o640)
    folder.chmod(0o777)
    refused(f"everybody may write its programs/{folder.name}:")
    folder.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        refused("plain_program.py belongs to nobody")
        w.brood("eval", "mine", "--episodes", "2", "--trust")
        os.chown(file, 0, 0)
    w.brood("resume", "mine")


def test_programs_play_beside_other_agents(w):
    config = program(w)
    w.brood("run", config, "--name", "mixed", "--set", "agents.agent_0={algorithm: ddpg, command: ~}",
            code=2)
    text = CONFIG.format(steps=2000).replace("defaults:\n", "defaults: {algorithm: ddpg}\n"
                                             "agents:\n agent_2:\n")
    w.brood("run", w.write("mixed.yaml", text), "--name", "mixed")
    assert w.status("mixed")["state"] == "done"
    w.brood("run", config, "--name", "other", "--until", "1000", code=None, *(
        word for key in ("agents.agent_0.algorithm=ddpg", "defaults.exact=reported",
                         "defaults.threads=2", "defaults.confine={threads: true}")
        for word in ("--set", key)))
    w.brood("resume", "other")  # its file takes from agent_0 what the defaults have


FROZEN = CONFIG.replace("defaults:\n", """
defaults: {{algorithm: ddpg, restart: {{max_restarts: 1000000, delay: 0s}}}}
agents:
  agent_1: {{algorithm: frozen, settings: {{from: teacher@512}}}}
  agent_2:
   algorithm: frozen
   settings: {{from: teacher, agent: agent_0, choose: sample}}
spare:
""")


def frozen(w, steps=2000):
    """One learner beside two agents that act as agents of the run `teacher`, programs, did."""
    text, spare = FROZEN.format(steps=steps).split("spare:\n")
    return w.write("frozen.yaml", text + spare[spare.index("experience:"):])


def weights_of(run, step, agent):
    """The bytes of an agent's variables in a checkpoint."""
    data, = (run / "checkpoints" / str(step) / agent).glob("*.data-00000-of-00001")
    return data.read_bytes()


def test_frozen_programs_act_and_never_learn(w):
    """They are copied from the run that they come from, which may go; kills, a resume and a fork
    change nothing."""
    w.brood("run", program(w, 1000), "--name", "teacher")
    teacher = w.run_dir("teacher")
    taught = weights_of(teacher, 512, "agent_1")
    config = frozen(w)
    assert "ok: 3 agents, ddpg, program" in w.brood("check", config)[0]
    shutil.rmtree(w.path / "agents")
    w.brood("run", config, "--name", "calm")
    calm = w.run_dir("calm")
    last = max(int(c.name) for c in (calm / "checkpoints").iterdir() if c.name.isdigit())
    for step in (0, last):
        assert weights_of(calm, step, "agent_1") == taught, step
    for agent in "agent_1", "agent_2":
        assert f"{agent}/first_weight" not in (calm / "metrics" / "progress.csv").read_text()
    p = w.start("run", config, "--name", "killed")
    harness.wait_until("the run", lambda: harness.checkpoints(w.run_dir("killed")))
    shutil.rmtree(teacher)
    for pid in pids(w, "killed").values():
        if p.poll() is None and pid in harness.processes():
            harness.kill(pid)
    assert p.wait() == 0
    harness.assert_same_files(outcome(calm), outcome(w.run_dir("killed")))
    _, err = w.brood("check", config, code=2)
    assert "frozen.yaml:7: agents.agent_1.settings.from: there is no run teacher" in err, err
    _, err = w.brood("check", calm / "config.yaml", code=2)  # as a file of one's own
    assert "agents.agent_1.policy.from: " in err and err.count("\n") == 1, err
    step = sorted(int(c.name) for c in (calm / "checkpoints").iterdir() if c.name.isdigit())[1]
    w.brood("fork", f"calm@{step}", "--name", "fork")
    w.brood("resume", "fork")
    harness.assert_same_files(outcome(calm), outcome(w.run_dir("fork")))
    first, again = (w.brood("eval", "calm", "--episodes", "4", "--json")[0] for _ in range(2))
    assert first == again


def test_what_a_frozen_program_needs(w):
    """Another version of what it depends on is no hindrance for a new run; another world, or a file
    that others may write, is."""
    w.brood("run", program(w, 1000), "--name", "teacher")
    config = frozen(w)
    kept, = (w.run_dir("teacher") / "programs").iterdir()
    file = kept / "files" / "agents" / "plain_program.py"
    with open(file, "a", encoding="ascii") as f:
        f.write("# another version\n")
    w.brood("run", config, "--name", "mine", "--until", "1000", code=None)
    mine, = (w.run_dir("mine") / "programs").iterdir()
    assert mine.name != kept.name
    w.brood("resume", "mine")
    for key, why in (("env.params.agents=4", "it was trained with env.params.agents: 3"),
                     ("agents.agent_1.settings.agent=agent_7", "agent_7"),
                     ("agents.agent_1.command=[python3, x.py]", "frozen has no command")):
        _, err = w.brood("check", config, "--set", key, code=2)
        assert why in err and err.count("\n") == 1, (key, err)
    file.chmod(0o666)
    _, err = w.brood("run", config, code=2)
    assert "agent_1.settings.from: the agent is a program" in err, err
    assert "everybody may write" in err and "brood fork --trust" in err, err


def test_two_programs_learn_in_groups_of_their_own(w):
    """Each group draws rows by a key of its own: agent_0 and agent_2 learn as if agent_1 were no
    program."""
    config = program(w)
    text = (w.path / "agents" / "plain_program.py").read_text()
    (w.path / "agents" / "other_program.py").write_text(text + "# another one\n")
    other = ("--set", "agents.agent_1.command=[python3, agents/other_program.py]")
    w.brood("run", config, "--name", "two", *other)
    w.brood("run", config, "--name", "one")
    two, one = outcome(w.run_dir("two")), outcome(w.run_dir("one"))
    weights = [k for k in one if k.startswith("agent_") and ".data-" in k]
    assert len(weights) == 3 and [k for k in weights if two[k] != one[k]] == [
        k for k in weights if k.startswith("agent_1")], weights


def test_programs_are_swept_and_seeded(w):
    config = program(w, steps=600)
    w.brood("run", config, "--name", "seeded", "--seeds", "1,2")
    study = w.write("study.yaml", f"base: {config.name}\n"
                                  "search: {defaults.settings.step: [0.25, 0.75]}\n")
    w.brood("sweep", study)
    assert len(list((w.runs / "study").glob("*/config.yaml"))) == 2
    assert harness.json_lines(w.brood("status", "study", "--json")[0])[0]["state"] == "done"


def test_settings_change_while_it_runs(w):
    p = w.start("run", program(w, steps=harness.FOREVER), "--name", "live")
    harness.wait_until("steps", lambda: w.run_dir("live").exists()
                       and w.status("live")["env_steps"] > 0)
    w.brood("set", "live", "agents.agent_1.settings.step=0.75")
    _, err = w.brood("set", "live", "defaults.settings.words=many", code=None)
    assert "words" in err, err
    w.brood("stop", "live")
    p.wait()
    assert "settings.step=0.75" in (w.run_dir("live") / "journal").read_text()


def test_a_run_goes_on_while_a_change_is_tried(w):
    go = w.path / "go"
    p = w.start("run", program(w, steps=harness.FOREVER), "--name", "live", "--set",
                f"defaults.environment={{GO: {go}}}")
    harness.wait_until("steps", lambda: w.run_dir("live").exists()
                       and w.status("live")["env_steps"] > 0)

    supervisor = harness.supervisor_of(p.pid)

    def is_tried():
        return sum("plain_program.py" in line and state != "Z"
                   for state, _, line in harness.children(supervisor).values()) == 4

    slow = w.start("set", "live", "agents.agent_1.settings.pace=slow")
    harness.wait_until("the process that tries it", is_tried)
    later = w.start("set", "live", "agents.agent_1.settings.step=0.75")
    steps = w.status("live")["env_steps"]
    harness.wait_until("further rounds", lambda: w.status("live")["env_steps"] > steps + 8)
    assert slow.poll() is None and later.poll() is None
    go.touch()
    assert slow.wait() == 0 and later.wait() == 0
    changes = [line for line in (w.run_dir("live") / "journal").read_text().splitlines()
               if " event=waits " in line or " event=set " in line]
    assert len(changes) == 2 and "pace=slow" in changes[0] and "step=0.75" in changes[1], changes
    w.brood("respawn", "live", "agent_1")
    go.unlink()
    slow = w.start("set", "live", "agents.agent_0.settings.pace=slow")
    harness.wait_until("the process that tries it", is_tried)
    w.brood("stop", "live")
    p.wait()
    assert slow.wait() != 0 and "the run is ending" in slow.log.read_text(), slow.wait()


def test_what_is_edited_while_a_change_is_tried_is_tried_too(w):
    go = w.path / "go"
    p = w.start("run", program(w, steps=harness.FOREVER), "--name", "live", "--set",
                f"defaults.environment={{GO: {go}}}", start_new_session=True)
    run = w.run_dir("live")
    harness.wait_until("steps", lambda: run.exists() and w.status("live")["env_steps"] > 0)
    supervisor = harness.supervisor_of(p.pid)
    file, text = run / "config.yaml", (run / "config.yaml").read_text()

    def edit(agent_1):
        """Both agents have a section, where the file names its agents."""
        file.write_text(re.sub(r"(?<=pace: )even", agent_1, text, count=1))

    assert "pace: even" in text, text
    edit("slow")
    harness.kill(supervisor, harness.signal.SIGHUP)
    harness.wait_until("the process that tries it", lambda: sum(
        "plain_program.py" in line and state != "Z"
        for state, _, line in harness.children(supervisor).values()) == 4)
    edit("never")
    go.touch()
    harness.wait_until("the refusal", lambda: "event=refused" in (run / "journal").read_text())
    refused = [line for line in (run / "journal").read_text().splitlines()
               if " event=refused " in line]
    assert len(refused) == 1 and "it never begins" in refused[0], refused
    w.brood("stop", "live")
    p.wait()


def test_programs_are_checked(w):
    """In any language: plain_program.py is on the protocol alone."""
    if importlib.util.find_spec("numpy") is None:
        raise harness.Skip("Python has no numpy")
    config = program(w)
    out, _ = w.brood("agent-check", config, "--updates", "2")
    *found, last = out.splitlines()
    assert all(line.startswith("ok     ") for line in found) and len(found) == 10, out
    assert "replay: 6 requests repeated by fresh processes" in out, out
    assert last == f"{config} agent_0: no faults, no notes in 10 checks", out
    config = program(w, fault="hidden")  # of agent_1: agent_0 has none
    out, _ = w.brood("agent-check", config, "--json", "--updates", "2", code=1)
    lines = harness.json_lines(out)
    faults = [x for x in lines if x["state"] == "fault"]
    assert [x["program"][-7:] for x in lines if x["state"] == "done"] == ["agent_0", "agent_1"], out
    assert [x["check"] for x in faults] == ["replay"], out
    assert faults[0]["method"] == "learn" and faults[0]["tensor"] == "agent_1/w", out
    _, err = w.brood("agent-check", w.small(), code=2)
    assert "none of its agents is a program" in err, err
    out, _ = w.brood("agent-check", PLAIN, "--env", "simple_tag", "--set", "env.copies=2",
                     "--updates", "1")
    assert out.count("act of 2 ") == 2 and out.count("\n") == 22, out
    assert all(f"plain_program.py {name}_0: no faults" in out for name in ("adversary", "agent")), out
    _, err = w.brood("agent-check", EXAMPLES / "none.py", code=2)
    assert "No such file" in err and err.count("\n") == 1, err
    if not harness.SANITIZED:  # nothing is confined there
        _, err = w.brood("agent-check", program(w, fault="write"), "-q", code=2)
        assert "of_a_program" in err, err


# ---- brood new --agent ----


def test_an_agent_to_start_from_is_written_checked_and_trained(w):
    needs_msgpack()
    if importlib.util.find_spec("numpy") is None:
        raise harness.Skip("Python has no numpy")
    envs = [x["id"] for x in harness.json_lines(w.brood("envs", "--json")[0])]
    for env in envs[::6 if harness.SANITIZED else 3]:
        w.brood("new", env, "--agent", f"{env}.py")
        out, _ = w.brood("check", f"{env}.yaml")
        assert f"{env}.yaml: ok: " in out and ", program, " in out, out
    short = ("--set", "run.env_steps=2000", "--set", "experience.warmup=200", "--set",
             "evaluation.episodes=2", "--set", "checkpoint.every_env_steps=0")
    for kind, say in (("discrete", "Q-learning with one hidden layer"),
                      ("continuous", "An actor-critic on random features")):
        made, = harness.json_lines(w.brood(
            "new", "simple_reference", "--agent", f"my_{kind}.py", "--set", "run.seed=3",
            "--set", f"env.actions={kind}", *short, "--json")[0])
        assert made == {"env": "simple_reference", "algorithm": "program", "file":
                        f"my_{kind}.yaml", "agent": f"my_{kind}.py"}
        text = (w.path / f"my_{kind}.py").read_text()
        assert f"class My{kind.capitalize()}(brood.Agent):" in text and say in text, text
        assert f"brood run my_{kind}.yaml" in text and "Starting" not in text
        text = (w.path / f"my_{kind}.yaml").read_text()
        assert "  seed: 3 " in text and "# rows of one update" in text, text
        out, _ = w.brood("agent-check", f"my_{kind}.yaml", "--updates", "1")
        assert "no faults, no notes in 11 checks" in out, out
        w.brood("run", f"my_{kind}.yaml", "--name", kind)
        assert w.status(kind)["state"] == "done"
    before = (w.path / "my_discrete.py").read_text()
    for arguments, why in (
            (("--agent", "my_discrete.py"), "my_discrete.py exists already; --force replaces it"),
            (("--agent", "agent"), "a name such as my_agent.py expected"),
            (("--agent", "3.py"), "a name such as my_agent.py expected"),
            (("--agent", "a.py", "--algorithm", "iql"), "neither --algorithm nor --out"),
            (("--agent", "a.py", "--set", "env.nothing=1"), "env.nothing: unknown key"),
            (("--torch",), "expected --agent FILE.py with it")):
        _, err = w.brood("new", "simple", *arguments, code=2)
        assert why in err and err.count("\n") == 1, err
    assert (w.path / "my_discrete.py").read_text() == before and not (w.path / "a.py").exists()
    w.brood("new", "simple", "--agent", "my_discrete.py", "--torch", "--force")
    assert "import torch" in (w.path / "my_discrete.py").read_text()


if __name__ == "__main__":
    harness.main()
