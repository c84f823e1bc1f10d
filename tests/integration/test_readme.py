"""Every command of README.md, and every example of `--help` and the manual pages, works as it
is printed, in their order, in a folder with the configurations of the repository."""
import importlib.util
import os
import re
import shutil
import signal
import subprocess

import harness
from test_live_view import Terminal

README = (harness.SOURCE / "README.md").read_text()
# The shipped run in 32 rounds without training, and one that lasts until it is stopped.
SHORT = (("copies: 32 ", "copies: 19532 "), ("batch_size: 1024", "warmup: 1000000"),
         ("update_every: 100 ", "update_every: 100000 "),
         ("actor: {hidden: [64, 64]", "actor: {hidden: [8, 8]"))
LIVE = (("env_steps: 625000", "env_steps: 1000000000"), ("copies: 32 ", "copies: 1 "),
        ("batch_size: 1024", "warmup: 1000000"))
FOLLOWS = ("attach ", " -f", "brood web ", "brood serve ")   # until the run ends, or an interrupt
NOT_HERE = ("scripts/test", "kill -9")


class Clone:
    """What a clone has for these commands; scripts/brood is the built program."""

    def __init__(self, w):
        self.w = w
        for folder in ("configs", "scripts", "tests/examples"):
            shutil.copytree(harness.SOURCE / folder, w.path / folder)
        (w.path / "scripts" / "brood").unlink()
        (w.path / "scripts" / "brood").symlink_to(harness.BROOD)

    def becomes(self, changes):
        text = (harness.SOURCE / "configs" / "simple_spread.yaml").read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        (self.w.path / "configs" / "simple_spread.yaml").write_text(text)

    def start(self, command):
        words = command.replace("EDITOR=nano ", "EDITOR=true ")
        words = re.sub(r"(^|&& )brood ", r"\1scripts/brood ", words)
        words = words.replace("TOR=true brood", "TOR=true scripts/brood")
        return subprocess.Popen(
            ["bash", "-c", words], cwd=self.w.path, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def execute(self, command):
        """What it prints."""
        p = self.start(command)
        if any(word in command for word in FOLLOWS):
            first = p.stdout.readline()
            assert first, command
            harness.signal_group(p.pid, signal.SIGINT)
            return (first + p.communicate()[0]).decode()
        text = p.communicate()[0].decode()
        assert p.returncode == harness.code_of(command), (command, p.returncode, text)
        return text

    def live(self, name):
        """A run of that name that lasts."""
        shutil.rmtree(self.w.run_dir(name), ignore_errors=True)
        self.becomes(LIVE)
        self.detach(f"scripts/brood run configs/simple_spread.yaml --name {name} --detach", name)

    def detach(self, command, name):
        """Begin a run that lasts; commands that need a checkpoint of it may follow."""
        self.execute(command)
        harness.wait_until("a checkpoint", lambda: harness.checkpoints(self.w.run_dir(name)))

    def short(self, name):
        """A run of that name that is over."""
        self.becomes(SHORT)
        self.execute(f"scripts/brood run configs/simple_spread.yaml --name {name} -q")

    def stop(self, name):
        self.execute(f"scripts/brood stop {name}")

    def close(self):
        """Ends what a failure has left: its command line does not tell whose it is."""
        for lock in self.w.runs.glob("*/lock"):
            pid = harness.holder_of(lock.parent)
            if harness.alive(pid):
                harness.kill(pid)


def sections():
    """heading -> its commands."""
    found = {}
    for part in re.split(r"^## ", README, flags=re.MULTILINE)[1:]:
        commands = re.findall(r"^\$ (.*)$", part, re.MULTILINE)
        found[part.splitlines()[0]] = [c for c in commands if not c.startswith(NOT_HERE)]
    return found


def without_numbers(text):
    return re.sub(r"[\d.,]+", "N", text)


def in_a_clone(test):
    def wrapped(w):
        if harness.SANITIZED:
            raise harness.Skip("the commands are executed once, by the release build")
        clone = Clone(w)
        try:
            test(w, clone)
        finally:
            clone.close()
    return wrapped


@in_a_clone
def test_the_readme(w, clone):
    todo = sections()
    assert sum(len(c) for c in todo.values()) >= 23, todo

    def do(heading):
        for command in todo.pop(heading):
            clone.execute(command)

    clone.becomes(SHORT)
    do("Two commands")
    *first, detached = todo["Launch"]
    assert "--detach" in detached
    todo["Launch"] = first
    do("Launch")
    clone.becomes(LIVE)
    clone.detach(detached, "away")
    do("Watch")
    do("Edit")
    kill_and_respawn(clone)
    do("Kill and respawn")
    assert w.status("away")["state"] == "stopped"
    clone.becomes(SHORT)
    do("Resume")
    do("Use a policy")
    do("Evaluate")
    do("Inspect")
    assert not [c for commands in todo.values() for c in commands], todo
    assert (w.path / "episode.gif").exists() and (w.path / "curves.svg").exists()


def test_the_command_builds_what_it_executes(w):
    """Its targets contain every program and module."""
    line = re.search(r"^ *build .* release (.*)$",
                     (harness.SOURCE / "scripts" / "brood").read_text(), re.MULTILINE)
    commands = subprocess.run(["ninja", "-C", str(harness.BUILD), "-t", "commands",
                               *line[1].split()], capture_output=True, text=True, check=True)
    made = [path.relative_to(harness.BUILD) for folder in ("supervisor", "agent")
            for path in (harness.BUILD / folder).glob("**/brood*")
            if path.is_file() and os.access(path, os.X_OK)]
    assert len(made) >= 3, made
    left_out = [str(path) for path in made if f" -o {path} " not in commands.stdout]
    assert not left_out, (left_out, line[1])


def kill_and_respawn(clone):
    """What the README says of an agent's death is what the run's log says."""
    says = [without_numbers(line) for line in re.findall(
        r"^agent_1 .*(?:SIGKILL|respawned).*$", README, re.MULTILINE)]
    assert len(says) == 2, says
    clone.execute("scripts/brood kill away agent_1")
    harness.wait_until("both lines of the README", lambda: all(
        line in without_numbers(clone.execute("scripts/brood logs away"))
        for line in says))


def shape(line):
    """The words of a line of the view; numbers are N, states are S, bars are left out."""
    line = re.sub(r"[^\x00-\x7f]+", " ", line)
    line = re.sub(r"[-\d.,:]*\d", "N", re.sub(r"simple_spread-1|agent_\d", "NAME", line))
    return re.sub(r"^(NAME +N +)[a-z]+ ", r"\1S ", line).split()


@in_a_clone
def test_the_view_of_the_readme(w, clone):
    """The picture below the first command is what that command shows: the same words in the
    same order, and the same columns."""
    picture = re.search(r"^```\n(simple_spread-1  .*?)^```", README, re.M | re.S)[1].splitlines()
    t = Terminal(w, "run", w.path / "configs" / "simple_spread.yaml", "--set",
                 "run.env_steps=60000", "--set", "evaluation.every_env_steps=30000",
                 columns=100, env={"LC_ALL": "C.UTF-8"})
    lines, _ = t.end()
    head = [shape(line) for line in lines if line.startswith("simple_spread-1  ")][-1]
    assert shape(picture[0]) == [*head, "N", "left"], (picture[0], lines)
    assert picture[2] in lines, lines
    shown = [shape(line) for line in lines]
    for line in (picture[1], *picture[3:]):
        assert shape(line) in shown, (line, shape(line), shown)


@in_a_clone
def test_the_examples_of_the_help_texts(w, clone):
    """As the manual pages have them, too (test_man.py)."""
    clone.short("simple_spread-1")
    clone.execute("scripts/brood run configs/simple_spread.yaml --name trial --seeds 1,2,3 -q")
    shutil.copytree(w.run_dir("simple_spread-1") / "checkpoints/625024/agent_0",
                    w.path / "model")
    for path in (w.path / "model").glob("model.ckpt-*"):
        path.rename(w.path / path.name.replace("model.ckpt-625024", "model.ckpt"))
    listed = re.findall(r"^  ([a-z-]+)  ", w.brood("--help")[0], re.MULTILINE)
    examples = {c: re.findall(r"^(?:example:|        ) ((?:EDITOR=nano )?brood .*)$",
                              w.brood(c, "--help")[0], re.MULTILINE) for c in listed}
    assert all(examples.values()), examples
    over = ("run", "eval", "replay", "diff", "inspect", "export", "check", "envs", "algorithms", "version",
            "runs", "report", "rm", "wait", "resume", "fork", "node")
    examples["graph"] = []   # its graph is made up: test_graph.py
    examples["sweep"] = []   # so is its study: test_sweep.py
    for command in examples.pop("submit"):   # without Slurm: test_slurm.py
        assert "#SBATCH" in clone.execute(command.replace(" submit ", " submit --dry-run "))
    if not importlib.util.find_spec("numpy") or not importlib.util.find_spec("msgpack"):
        del examples["agent-check"]
    for name in over:
        for command in examples.pop(name):
            clone.execute(command)
    clone.live("simple_spread-1")
    with open(w.run_dir("simple_spread-1") / "logs" / "agent_0.log", "a") as log:
        log.write("something to follow\n")
    examples["stop"] = examples.pop("stop")   # the last one
    clone.execute("brood set simple_spread-1 defaults.discount=0.9 --at-step 900000000")
    for commands in examples.values():
        for command in commands:
            clone.execute(command)


if __name__ == "__main__":
    harness.main()
