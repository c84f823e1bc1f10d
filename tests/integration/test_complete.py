"""`brood complete`, and the completion of bash, zsh and fish that it serves."""
import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import time

import harness

SCRIPTS = harness.SOURCE / "scripts" / "completion"


def after(w, *words):
    return w.brood("complete", "--", *words)[0].split()


def two_runs(w):
    """a is over, b is paused."""
    w.brood("run", w.small(steps=400), "--name", "a", "--set", "checkpoint.every_env_steps=200")
    w.brood("run", w.small(steps=10**9), "--name", "b", "--detach")
    w.brood("pause", "b")


def test_commands_and_their_options(w):
    listed = re.findall(r"^  ([a-z-]+)  ", w.brood("--help")[0], re.MULTILINE)
    assert after(w, "") == listed
    assert after(w, "ki") == ["kill"] and after(w, "fly") == []
    for name in listed:
        offered, text = after(w, name, "--"), w.brood(name, "--help")[0]
        assert "--help" in offered and "--runs-dir" in offered, (name, offered)
        for option in offered:
            assert option in text, (name, option)
        for option in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE):
            assert option in offered, (name, option)
    assert after(w, "run", "--seed") == ["--seed", "--seeds"]
    assert after(w, "nosuch", "--") == [] and not w.runs.exists()
    _, err = w.brood("complete", code=2)
    assert "expected the words of a command line after --" in err, err


def test_keys_and_values(w):
    assert after(w, "set", "x", "defaults.disc") == ["defaults.discount="]
    assert "run.env_steps=" in after(w, "run", "x.yaml", "--set", "run.")
    assert after(w, "run", "--set", "defaults.algorithm=vd") == ["defaults.algorithm=vdn"]
    assert sorted(after(w, "check", "--set", "env.id=simple_sp")) == [
        "env.id=simple_speaker_listener", "env.id=simple_spread"]
    assert after(w, "agent-check", "a.py", "--env", "simple_spr") == ["simple_spread"]
    assert after(w, "new", "simple", "--agent", "") == []
    assert after(w, "check", "--set", "env.verify=") == ["env.verify=true", "env.verify=false"]
    # A live run keeps it.
    assert after(w, "set", "x", "env.ver") == after(w, "set", "x", "env.verify=") == []
    assert sorted(after(w, "set", "x", "agents.agent_0.on_nonfinite=")) == [
        "agents.agent_0.on_nonfinite=continue", "agents.agent_0.on_nonfinite=stop"]
    assert after(w, "run", "") == [] and after(w, "inspect", "") == []
    assert "foraging" in after(w, "envs", "")
    # To cancel takes no value.
    assert after(w, "set", "x", "--cancel", "defaults.disc") == ["defaults.discount"]
    assert after(w, "set", "--cancel", "x", "defaults.polyak", "defaults.disc") == [
        "defaults.discount"]


def test_runs_agents_and_checkpoints(w):
    two_runs(w)
    assert after(w, "stop", "") == ["b"] and after(w, "resume", "") == ["a"]
    assert sorted(after(w, "report", "")) == ["a", "b"]
    assert sorted(after(w, "report", "b", "a", "")) == ["a", "b"]
    assert after(w, "edit", "b", "--from", "") == []  # files
    assert after(w, "resume", "a", "--from", "2") == ["200"]
    assert sorted(after(w, "kill", "b", "agent_")) == ["agent_0", "agent_1", "agent_2"]
    assert "agent_1" in after(w, "kill", "") and "b" in after(w, "kill", "")
    assert after(w, "eval", "a", "--checkpoint", "") == ["0", "200", "400"]
    assert after(w, "fork", "a@2") == ["a@200"]
    assert after(w, "fork", "--runs-dir", w.path / "none", "") == []
    assert after(w, "fork", f"--runs-dir={w.path / 'none'}", "") == []
    assert after(w, "eval", "--episodes=2", "a", "--checkpoint", "") == ["0", "200", "400"]
    w.brood("stop", "b")
    w.brood("wait", "b", code=4)
    assert after(w, "stop", "") == [] and sorted(after(w, "resume", "")) == ["a", "b"]


def test_metrics_tags_states_and_keys_of_a_run(w):
    for name, tag in (("a", "paper"), ("b", "draft")):
        w.brood("run", w.small(steps=400), "--name", name)
        w.brood("tag", name, tag, "both")
    assert "eval/team_return/agent" in after(w, "report", "a", "--metric", "eval/")
    assert after(w, "report", "x", "--metric", "eval/") == []
    assert "train/agent_0/critic_loss" in after(w, "replay", "a", "--until", "train/")
    assert after(w, "replay", "a", "--from", "") == ["0", "400"]
    assert after(w, "tag", "a", "--remove", "") == ["paper", "both"]
    assert sorted(after(w, "tag", "a", "")) == ["both", "draft", "paper"]
    assert after(w, "runs", "--where", "") == ["state=", "tag=", "name=", "env=", "algorithm="]
    assert after(w, "runs", "--where", "state=do") == ["state=done"]
    assert w.brood("complete", "--", "runs", "--where", "state=done tag=p")[0] == \
        "state=done tag=paper\n"
    assert after(w, "runs", "--where", "algorithm=mapp") == ["algorithm=mappo"]
    assert after(w, "set", "a", "agents.agent_1") == ["agents.agent_1."]
    assert after(w, "inspect", "a@0", "agent_1") == ["agent_1"]
    assert after(w, "inspect", "a@4") == ["a@400"]
    assert "defaults.discount=" in after(w, "set", "a", "") and "run.seed=" not in after(w, "set", "a", "")
    assert after(w, "logs", "-n", "3", "a", "agent_1") == ["agent_1"]
    w.write("lr.yaml", "base: small.yaml\nsearch: {defaults.discount: [0.9]}\n")
    w.brood("sweep", "lr.yaml")
    assert "lr" in after(w, "rm", "") and "lr" in after(w, "runs", "") and after(w, "attach", "l") == []


def environment():
    return {**os.environ, "PATH": f"{harness.BROOD.parent}:{os.environ['PATH']}", "TERM": "dumb"}


def test_bash_completes_the_word_behind_an_equals_sign(w):
    script = f"""
source {SCRIPTS}/brood.bash
compopt() {{ echo "compopt $*"; }}
try() {{ COMP_LINE=$1 COMP_POINT=${{#1}} COMPREPLY=(); _brood brood; echo "${{COMPREPLY[*]}}"; }}
try "brood resu"
try "brood set x defaults.disc"
try "brood run x.yaml --set defaults.algorithm=vd"
try "brood inspect "
try "brood fork a@2"
try "brood run x.yaml --init-from a@2"
"""
    w.brood("run", w.small(steps=400), "--name", "a", "-q", "--set",
            "checkpoint.every_env_steps=200")
    out = subprocess.run(["bash", "-c", script], env=environment(), cwd=w.path, check=True,
                         text=True, stdout=subprocess.PIPE).stdout
    assert out.splitlines() == ["resume", "compopt -o nospace", "defaults.discount=", "vdn", "a",
                                "@200", "@200"], out
    with terminal("bash", "--norc", "--noprofile", "-i", folder=w.path) as say:
        say(f"source {SCRIPTS}/brood.bash; echo rea''dy\n", "ready")
        say("brood fork a@2\t", "brood fork a@200 ")
        say("\x15brood run x --set defaults.algorithm=vd\t", "=vdn")


@contextlib.contextmanager
def terminal(*shell, folder="."):
    """A shell in a terminal: a function that types a text and waits for what is to be seen."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(shell[0], [*shell], environment())
    screen = ""

    def say(text, expected):
        nonlocal screen
        os.write(fd, text.encode())
        end = time.monotonic() + harness.DEADLINE_S
        while expected not in screen:
            assert time.monotonic() < end, (expected, screen)
            if select.select([fd], [], [], 1)[0]:
                screen += os.read(fd, 65536).decode(errors="replace")
        screen = ""
    try:
        yield say
    finally:
        os.close(fd)
        os.waitpid(pid, 0)


def test_zsh_completes(w):
    if shutil.which("zsh") is None:
        raise harness.Skip("zsh is not installed")
    with terminal("zsh", "-f", "-i", folder=w.path) as say:
        say(f"fpath=({SCRIPTS} $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n",
            "ready")
        say("brood resu\t", "brood resume ")
        say("\x15brood set x defaults.disco\t", "unt=")
        say("\x15brood run x --set defaults.algorithm=vd\t", "=vdn")


def test_fish_completes(w):
    if shutil.which("fish") is None:
        raise harness.Skip("fish is not installed")
    w.brood("run", w.small(steps=400), "--name", "a", "-q", "--set",
            "checkpoint.every_env_steps=200")

    def candidates(line):
        return subprocess.run(["fish", "--no-config", "-c", f"source {SCRIPTS}/brood.fish\n"
                               'complete --do-complete "$argv[1]"', line], cwd=w.path, check=True,
                              env=environment(), text=True, stdout=subprocess.PIPE).stdout.split()
    for line, wanted in (("brood resu", ["resume"]), ("brood set x defaults.disc", [
            "defaults.discount="]), ("brood run x --set defaults.algorithm=vd", [
                "defaults.algorithm=vdn"]), ("brood fork a@2", ["a@200"]),
                         ("brood check sm", ["small.yaml"])):  # a file
        assert candidates(line) == wanted, (line, candidates(line))


if __name__ == "__main__":
    harness.main()
