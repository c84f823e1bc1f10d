"""Steering a live run: changes at a step, respawns, and clients that drive its agents."""
import contextlib
import os
import pty
import re
import signal
import subprocess
import sys

import harness
from test_changes import end, final, journal, start

DRIVE = harness.SOURCE / "scripts" / "drive_critics.py"
PYTHON = "/usr/bin/python3"


def need_msgpack():
    if subprocess.run([PYTHON, "-c", "import msgpack"], capture_output=True).returncode:
        raise harness.Skip("no python3-msgpack")


def kill_agents(p):
    """Kill those that there are; how many."""
    agents = harness.agents_of(p.pid)
    for pid in agents.values():
        harness.kill(pid)
    return len(agents)


def changed(run, key):
    return [line for line in journal(run, "changed") if key in line]


def test_a_change_at_a_step_survives_kills_and_a_resume(w):
    """The same change without them gives the same bytes."""
    p, run = start(w, "killed")
    kill_agents(p)
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run)[-1] > 2000)
    w.brood("pause", run)
    at = harness.checkpoints(run)[-1] + 4000
    rate = f"agents.agent_0.optimizer.learning_rate=0.02 to 0.001 over {at + 3000}"
    out, _ = w.brood("set", run, rate, "--at-step", at)
    assert f"from step {at} on: {rate}" in out, out
    kill_agents(p)
    end(p, run)
    last = at + 4000
    calm = w.path / "calm"
    harness.copy_run(run, calm)
    n_deaths = len(journal(run, "respawn"))
    p = w.start("resume", run, "--set", f"run.env_steps={last}")
    harness.wait_until("agents", lambda: kill_agents(p) or p.poll() is not None)
    harness.wait_until("the change", lambda: changed(run, "learning_rate") or
                       p.poll() is not None)
    kill_agents(p)
    p.wait(timeout=harness.DEADLINE_S)
    assert p.returncode == 0, p.log.read_text()
    assert f" step={at} " in changed(run, "learning_rate")[0]
    assert len(journal(run, "respawn")) > n_deaths
    w.brood("resume", calm, "--from", "0", "--set", f"run.env_steps={last}")
    assert final(run, last) == final(calm, last)


def test_what_cannot_be_set_is_told(w):
    p, run = start(w, "live")
    for words, code, says in (
            (["agents.agent_0.polyac=1"], 2, "did you mean 'polyak'"),
            (["defaults.discount=2"], 2, "brood set: defaults.discount=2: defaults.discount: "),
            (["env.copies=8"], 2, "env.copies cannot change while the run lives"),
            (["defaults.polyak=0.5", "--at-step", "1"], 2, "step 1 is past"),
            (["run.env_steps=100"], 2, "run.env_steps: 100 is past at step "),
            (["run.env_steps=90000000", "--at-step", "90000000"], 2,
             "run.env_steps: 90000000 is past at step 90000000; `brood stop` ends"),
            (["run.env_steps=", "run.episodes=1"], 2, "run.episodes: 1 is past"),
            (["defaults.optimizer.learning_rate=1e300"], 2, "finite in 32 bits"),
            (["extends=base.yaml"], 2, "extends: not read here"),
            (["agents.agent_1.settings.policy=deterministic"], 2,
             "agent_1: settings.policy: deterministic needs a bounded continuous action"),
            ([], 2, "expected KEY=VALUE")):
        _, err = w.brood("set", run, *words, code=code)
        assert says in err and len(err.splitlines()) == 1, err
    assert not journal(run, "set") and not journal(run, "changed")
    assert oct((run / "control.sock").stat().st_mode)[-3:] == "600"
    end(p, run)
    _, err = w.brood("set", run, "defaults.polyak=0.5", code=3)
    assert "not running" in err or "ended before" in err, err


def test_a_respawn_brings_what_waits_for_it(w):
    p, run = start(w, "waits")
    out, _ = w.brood("set", run, "agents.agent_0.optimizer.beta1=0.5")
    assert "brood respawn" in out and "beta1=0.5" in out, out
    out, _ = w.brood("set", run, "defaults.discount=0.9", "--json")
    answer = harness.json_lines(out)[0]
    assert answer["changes"] == {"defaults.discount": 0.9} and answer["at"] > 0, answer
    before = harness.agents_of(p.pid)
    w.brood("respawn", run, "agent_0")
    harness.wait_until("the change", lambda: journal(run, "changed"))
    harness.wait_until("a new process", lambda: harness.agents_of(p.pid).get(
        "agent_0", before["agent_0"]) != before["agent_0"])
    assert harness.agents_of(p.pid)["agent_1"] == before["agent_1"]
    assert_resumes_are_equal(w, p, run)


def test_the_kind_of_learning_changes_in_a_live_run(w):
    """own_batches takes effect at once; another kind of policy, with a new process."""
    p, run = start(w, "kind", "--set", "env.actions=continuous")
    out, _ = w.brood("set", run, "agents.agent_0.settings.own_batches=true")
    assert "from step" in out, out
    out, _ = w.brood("set", run, "agents.agent_1.settings.policy=deterministic")
    assert "brood respawn" in out, out
    w.brood("respawn", run, "agent_1")
    changed = harness.wait_until("both", lambda: len(found := journal(run, "changed")) == 2
                                 and found)
    assert "own_batches=true" in changed[0] and "policy=deterministic" in changed[1], changed
    kill_agents(p)
    assert_resumes_are_equal(w, p, run)


def assert_resumes_are_equal(w, p, run):
    """Resumes from before the changes, which make them again, and from after them."""
    at = max(int(re.search(r" at=(\d+) ", line).group(1)) for line in journal(run, "set"))
    harness.wait_until("a checkpoint behind it", lambda: harness.checkpoints(run)[-1] > at)
    end(p, run)
    last = harness.checkpoints(run)[-1] + 1000
    again = w.path / "again"
    harness.copy_run(run, again)
    w.brood("resume", run, "--set", f"run.env_steps={last}")
    w.brood("resume", again, "--from", "0", "--set", f"run.env_steps={last}")
    assert final(run, last) == final(again, last)


def test_what_is_taken_back_waits_no_more(w):
    p, run = start(w, "back")
    key = "agents.agent_0.optimizer.beta1"
    for value, waits in (("0.5", {key: 0.5}), ("0.9", {}), ("0.5", {key: 0.5}), ("0.5", {})):
        out, _ = w.brood("set", run, f"{key}={value}", "--json")
        answer = harness.json_lines(out)[0]
        assert (answer["changes"], answer["waits"]) == ({}, waits), (value, answer)
    out, _ = w.brood("set", run, f"{key}=0.9")
    assert out == "nothing changes: the values are these already\n", out
    assert len(journal(run, "waits")) == 4 and f" changes={key}=0.9\n" in \
        journal(run, "waits")[-1], journal(run, "waits")
    assert "beta1: 0.5" not in (run / "config.yaml").read_text()
    w.brood("set", run, "defaults.optimizer.beta1=0.5", "defaults.polyak=0.2")
    out, _ = w.brood("set", run, "defaults.optimizer.beta1=0.9", "--at-step", 10**9)
    assert "nothing changes" in out, out
    end(p, run)


def test_an_edit_applies_the_difference(w):
    p, run = start(w, "edited")
    out, _ = w.brood("edit", run, env={"VISUAL": "true", "EDITOR": "false"})
    assert out == "nothing changes: the values are these already\n", out
    w.brood("edit", run, env={"EDITOR": "sed -i 's/discount: 0.95/discount: 0.9/'"})
    harness.wait_until("the change", lambda: journal(run, "changed"))
    assert "changes=defaults.discount=0.9\n" in journal(run, "changed")[0]
    _, err = w.brood("edit", run, code=2, env={"EDITOR": "sed -i s/copies:/copees:/"})
    assert "did you mean 'copies'" in err, err
    end(p, run)


def kept_texts(run):
    return sorted(run.glob("edit-*.yaml"))


def test_no_edited_text_is_lost(w):
    p, run = start(w, "kept")
    none = {"VISUAL": "", "EDITOR": "", "PATH": str(w.path)}
    _, err = w.brood("edit", run, code=1, env=none)
    assert err.endswith("there is no editor vi: set VISUAL or EDITOR to one; nothing "
                        "changes\n"), err
    vi = w.write("vi", "#!/bin/sh\necho \"$1\" >opened\n")
    vi.chmod(0o755)
    assert "nothing changes" in w.brood("edit", run, env=none)[0]
    assert str(run) in (w.path / "opened").read_text(), run
    _, err = w.brood("edit", run, code=1, env={"EDITOR": "false"})
    assert "false failed: nothing changes" in err, err
    assert not kept_texts(run)  # as it was given
    # What cannot be read, what cannot be applied, an editor that dies.
    for editor, code, says in (
            ("sed -i s/discount:/discuont:/", 2, "did you mean 'discount'"),
            ("sed -i 's/copies: 4/copies: 8/'", 2, "env.copies cannot change"),
            ("sh -c 'sed -i s/polyak:.*/polyak:\\ 0.02/ \"$1\"; false' sh", 1,
             "failed: nothing changes")):
        _, err = w.brood("edit", run, code=code, env={"EDITOR": editor})
        text = kept_texts(run)[0]
        assert says in err and err.endswith(
            f"the text is kept: `brood edit {run} --from {text}` continues with it\n"), err
        if "polyak" not in editor:
            text.unlink()
    w.brood("edit", run, "--from", text, env={"EDITOR": "sed -i 's/discount: 0.95/discount: 0.9/'"})
    harness.wait_until("the change", lambda: journal(run, "changed"))
    changed = journal(run, "changed")[0]
    assert "polyak=0.02" in changed and "discount=0.9" in changed, changed
    assert not kept_texts(run)
    _, err = w.brood("edit", run, code=1, env={"EDITOR": "rm"})
    assert "the text is kept" not in err, err
    _, err = w.brood("edit", run, code=3, env={
        "EDITOR": f"sh -c 'sed -i s/polyak:.*/polyak:\\ 0.03/ $1; {harness.BROOD} stop {run}' sh"})
    assert "the run ended before it answered" in err, err
    assert err.endswith(f"the text is kept in {kept_texts(run)[0]}\n"), err
    p.wait(timeout=harness.DEADLINE_S)


def test_a_wrong_text_is_edited_again_on_a_terminal(w):
    p, run = start(w, "again")
    (w.path / "editor").write_text(
        "#!/bin/sh\nif grep -q 'discount: 7' \"$1\"; then sed -i 's/: 7$/: 0.9/' \"$1\"\n"
        "else sed -i 's/discount: 0.95/discount: 7/' \"$1\"; fi\n")
    (w.path / "editor").chmod(0o755)
    for answer, code in ((b"\x03", 2), (b"n\n", 2), (b"\n", 0)):
        pid, terminal = pty.fork()
        if pid == 0:
            harness.fork_from_leader()
            os.environ["VISUAL"] = str(w.path / "editor")
            os.execv(harness.BROOD, ["brood", "edit", str(run)])
        said = b""
        while b"edit again? [Y/n] " not in said:
            said += os.read(terminal, 4096)
        os.write(terminal, answer)
        with contextlib.suppress(OSError):
            while more := os.read(terminal, 4096):
                said += more
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, said
        assert (b"the text is kept" in said) == (code == 2), said
        os.close(terminal)
    harness.wait_until("the change", lambda: journal(run, "changed"))
    assert "discount=0.9" in journal(run, "changed")[0]
    end(p, run)


def drive(w, run, *more):
    return subprocess.Popen([PYTHON, str(DRIVE), str(run), *map(str, more)],
                            stdout=open(run / "driven", "ab"), stderr=subprocess.STDOUT)


def serve(w, name, **more):
    p = w.start("run", harness.SOURCE / "configs" / "node_critics.yaml", "--name", name,
                **more)
    run = w.run_dir(name)
    harness.wait_until("the agents", lambda: len(journal(run, "ready")) >= 4)
    return p, run


def kill_critics(p, client):
    """Kill six of them while a client drives them. It stands still during the first kill,
    before which it cannot be over."""
    client.send_signal(signal.SIGSTOP)
    for i in range(6):
        pid = harness.wait_until("a critic", lambda: client.poll() is not None or
                                 harness.agents_of(p.pid).get(f"node_{i % 4 + 1}"))
        if pid is True:
            return
        harness.kill_and_wait(pid)
        client.send_signal(signal.SIGCONT)


def test_four_critics_are_driven_through_kills(w):
    need_msgpack()
    updates = 60
    results = {}
    for name in ("calm", "killed"):
        p, run = serve(w, name)
        client = drive(w, run, "--updates", updates, "--stop")
        if name == "killed":
            kill_critics(p, client)
        client.wait(timeout=harness.DEADLINE_S)
        p.wait(timeout=harness.DEADLINE_S)
        log = (run / "driven").read_text()
        assert client.returncode == 0 and p.returncode == 4, log + p.log.read_text()
        assert name == "calm" or journal(run, "respawn"), p.log.read_text()
        results[name] = final(run, 4 * updates)
        assert len(results[name]) >= 4 * 3 and f"update {updates}:" in log, log
    assert results["calm"] == results["killed"]


def test_a_driven_run_is_resumed(w):
    """Its critics end with the same bytes as those of an undisturbed run."""
    need_msgpack()
    results = []
    for name in ("calm", "killed"):
        p, run = serve(w, name)
        assert drive(w, run, "--updates", 5).wait(timeout=harness.DEADLINE_S) == 0
        harness.wait_until("its checkpoint", lambda: 20 in harness.checkpoints(run))
        if name == "killed":
            lost = drive(w, run, "--updates", 100_000)
            harness.wait_until("more", lambda: w.status(run)["env_steps"] > 40)
            end(p, run)
            assert lost.wait(timeout=harness.DEADLINE_S) != 0
            p = w.start("resume", run)
            harness.wait_until("the socket",
                               lambda: "continues from step 20" in p.log.read_text())
        client = drive(w, run, "--updates", 5, "--stop")
        assert client.wait(timeout=harness.DEADLINE_S) == 0, (run / "driven").read_text()
        p.wait(timeout=harness.DEADLINE_S)
        assert p.returncode == 4 and harness.checkpoints(run)[-1] == 40, p.log.read_text()
        results.append(final(run, 40))
    harness.assert_same_files(*results)


def test_a_run_with_an_environment_is_looked_at(w):
    """Clients fetch tensors of its agents while it runs, and more while it is paused; it
    ends with the bytes of a run that nobody looked at."""
    need_msgpack()
    sys.path.insert(0, str(harness.SOURCE / "scripts"))
    from drive_critics import Run, floats
    config = w.small(steps=10_000_000)
    p = w.start("run", config, "--name", "seen")
    run = w.run_dir("seen")
    harness.wait_until("its folder", lambda: run.is_dir() or p.poll() is not None)
    client = Run(run)
    harness.wait_until("the start", lambda: client.call("status")["state"] != "starting")
    names = [f"agent_{i}/p_func/fully_connected/weights:0" for i in range(3)]

    def ask(i, **more):
        return client.send("run", agent=f"agent_{i}", fetches=[names[i]], **more)

    before = [floats(client.answer(ask(i))["fetched"][0]) for i in range(3)]
    client.call("pause")
    paused = [floats(client.answer(ask(i))["fetched"][0]) for i in (0, 0, 1, 2)]
    assert paused[0] == paused[1] and len(paused[0]) == len(before[0]) == 18 * 16
    for wrong, says in (({"targets": ["init"]}, "clients may fetch"),
                        ({"feeds": {"nothing:0": [1, [], b"1234"]}}, "nothing")):
        try:
            client.answer(ask(0, **wrong))
        except RuntimeError as e:
            assert says in str(e), e
        else:
            raise AssertionError(f"{wrong} was done")
    asked = [ask(i % 3) for i in range(60)]
    client.call("continue")
    late = [ask(i % 3) for i in range(60)]
    kill_agents(p)
    # Requests that come in a round which ends in a pause are answered in the pause.
    for _ in range(5):
        pausing = client.send("pause")
        in_round = [ask(i) for i in range(3)]
        client.answer(pausing)
        for request in in_round:
            client.answer(request)
        client.call("continue")
    assert floats(client.answer(asked[0])["fetched"][0]) == paused[0]
    for request in asked[1:] + late:
        client.answer(request)
    steps = harness.set_last_step(w, run, 1000)
    p.wait(timeout=harness.DEADLINE_S)
    assert p.returncode == 0, p.log.read_text()
    w.brood("run", config, "--name", "calm", "--set", f"run.env_steps={steps}")
    harness.assert_same_files(final(run, steps), final(w.run_dir("calm"), steps))


if __name__ == "__main__":
    harness.main()
