"""evaluation.render: each evaluation of a run leaves a picture of an episode."""
import subprocess

import harness
from test_exactness import outcome

CONFIG = """\
run: {{name: seen, seed: 2, env_steps: 640}}
env: {env}
experience: {{capacity: 200, batch_size: 16, warmup: 100, update_every: 20}}
checkpoint: {{every_env_steps: 160, max_to_keep: 0}}
evaluation: {{every_env_steps: 80, episodes: 3}}
log: {{every_env_steps: 80}}
defaults: {{actor: {{hidden: [8]}}, critic: {{hidden: [8]}}}}
"""
SPREAD = "{id: simple_spread, copies: 4, max_steps: 10}"
DATA = ("--set", "evaluation.render=jsonl")


def config(w, env=SPREAD):
    return w.write("seen.yaml", CONFIG.format(env=env))


def rows_of(run):
    """Of the index: [(step, return, file)]."""
    head, *lines = (run / "renders" / "index.csv").read_text().splitlines()
    assert head == "env_steps,team_return,file", head
    return [(int(step), float(value), file)
            for step, value, file in (line.split(",") for line in lines)]


def pictures(run):
    """The index and all that it names; nothing else is there."""
    files = harness.tree_bytes(run / "renders")
    assert sorted(files) == sorted([file for _, _, file in rows_of(run)] + ["index.csv"]), files
    return files


def test_each_evaluation_leaves_a_picture_and_no_other_trace(w):
    w.brood("run", config(w), "--name", "plain")
    w.brood("run", config(w), "--name", "all", *DATA)
    assert not (w.run_dir("plain") / "renders").exists()
    harness.assert_same_files(outcome(w.run_dir("plain")), outcome(w.run_dir("all")))
    text = (w.run_dir("plain") / "config.yaml").read_text()
    assert "render" not in text and "renders" not in (w.run_dir("all") / "journal").read_text()

    run, files = w.run_dir("all"), pictures(w.run_dir("all"))
    rows = rows_of(run)
    assert [row[0] for row in rows] == list(range(80, 641, 80)), rows
    head, *lines = harness.progress_without_times(run)
    column = head.index("eval/team_return/agent")
    assert [row[1] for row in rows] == [float(line[column]) for line in lines], rows
    # It is the first episode of the evaluation.
    w.brood("eval", "all", "--checkpoint", 480, "--episodes", 3, "--render", "x.jsonl")
    assert files["480.jsonl"] == (w.path / "x.jsonl").read_bytes()

    # Of many the newest stay, and the best.
    w.brood("run", config(w), "--name", "few", *DATA, "--set", "evaluation.max_to_keep=2")
    best = max(rows, key=lambda row: (row[1], -row[0]))
    kept = [row for row in rows if row in rows[-2:] or row == best]
    assert rows_of(w.run_dir("few")) == kept, (rows_of(w.run_dir("few")), rows)
    harness.assert_same_files({file: files[file] for _, _, file in kept},
                              {name: data for name, data in pictures(w.run_dir("few")).items()
                               if name != "index.csv"})
    for kind, begins in (("gif", b"GIF89a"), ("svg", b"<?xml")):
        w.brood("run", config(w), "--name", kind, "--set", f"evaluation.render={kind}", "--set",
                "evaluation.max_to_keep=1", "--set", "run.env_steps=160")
        assert pictures(w.run_dir(kind))[f"160.{kind}"].startswith(begins)


def test_a_run_that_was_killed_draws_again_what_is_later(w):
    keep = ("--set", "evaluation.max_to_keep=3")
    p = w.start("run", config(w), "--name", "killed", *DATA, *keep, "--set",
                f"run.env_steps={harness.FOREVER}")
    run = w.run_dir("killed")
    harness.wait_until("pictures", lambda: p.poll() is not None or
                       (harness.checkpoints(run) or [0])[-1] >= 800 and
                       (run / "renders" / "index.csv").exists())
    harness.kill_holder(p, run)
    steps = harness.checkpoints(run)[-1] + 1600
    for name in ("index.csv.tempstate1000", f"{steps}.jsonl.tempstate1000", "99999999.jsonl"):
        (run / "renders" / name).write_text("left over")
    w.brood("resume", run, "--set", f"run.env_steps={steps}")
    w.brood("run", config(w), "--name", "calm", *DATA, *keep, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(pictures(w.run_dir("calm")), pictures(run))
    # What is later than the checkpoint goes, and comes again; also what was not asked for then.
    first = harness.checkpoints(run)[-5]
    w.brood("resume", run, "--from", first, "--until", first, code=4)
    assert all(step <= first for step, _, _ in rows_of(run)) and pictures(run)
    w.brood("resume", run, "--set", "evaluation.max_to_keep=4")
    assert rows_of(run)[-3:] == rows_of(w.run_dir("calm"))[-3:]


def test_a_checkpoint_promises_its_pictures(w):
    """Whenever the supervisor dies: a resume does not draw what is older than its checkpoint."""
    kind = ("--set", "evaluation.render=gif", "--set", "evaluation.max_to_keep=20")
    _, err = w.brood("check", config(w), *kind[:2], code=None)
    if "pictures cannot be drawn" in err:
        raise harness.Skip("cairo is not installed")
    w.brood("run", config(w), "--name", "r", *kind)  # which a picture names
    for at in (160, 320, 480):
        run = w.path / str(at) / "r"
        p = w.start("run", config(w), "--name", "r", "--runs-dir", run.parent, *kind)
        harness.wait_until("the checkpoint", lambda: p.poll() is not None or
                           at in harness.checkpoints(run))
        if p.poll() is None:
            harness.kill_holder(p, run)
        w.brood("resume", run)
        harness.assert_same_files(pictures(w.run_dir("r")), pictures(run))


def test_an_index_that_cannot_be_read_loses_no_pictures(w):
    w.brood("run", config(w), "--name", "r", *DATA)
    run = w.run_dir("r")
    index, away = run / "renders" / "index.csv", w.path / "away"
    before = sorted(p.name for p in run.glob("renders/*"))
    index.rename(away)
    index.mkdir()
    _, err = w.brood("resume", run, "--set", "run.env_steps=100000", code=1)
    assert "renders/index.csv: " in err, err
    assert sorted(p.name for p in run.glob("renders/*")) == before


def test_a_fork_has_the_pictures_of_its_checkpoint(w):
    """And those that it draws itself, as the other run has them."""
    w.brood("run", config(w), "--name", "a", *DATA)
    w.brood("fork", "a@320", "--name", "b", "--until", "324", code=4)
    assert [step for step, _, _ in rows_of(w.run_dir("b"))] == [80, 160, 240, 320]
    pictures(w.run_dir("b"))
    w.brood("resume", "b")
    harness.assert_same_files(pictures(w.run_dir("a")), pictures(w.run_dir("b")))


def test_what_cannot_be_written_is_told_once(w):
    """Also that the key can be changed in a live run."""
    w.brood("run", config(w), "--name", "plain")
    w.brood("run", config(w), "--name", "full", "--until", "4", code=4)
    run = w.run_dir("full")
    (run / "renders").write_text("no folder")
    p = w.start("resume", run, "--set", f"run.env_steps={harness.FOREVER}")
    harness.wait_until("its start", lambda: p.poll() is not None or
                       harness.checkpoints(run)[-1] >= 160)
    w.brood("set", run, "evaluation.render=svg")
    assert "  render: svg\n" in (run / "config.yaml").read_text()
    log = run / "logs" / "supervisor.log"
    harness.wait_until("a warning", lambda: p.poll() is not None or
                       "was not drawn" in log.read_text())
    at = harness.checkpoints(run)[-1]
    harness.wait_until("more rounds", lambda: p.poll() is not None or
                       harness.checkpoints(run)[-1] > at + 320)
    assert log.read_text().count("was not drawn") == 1, log.read_text()
    (run / "renders").unlink()
    harness.wait_until("pictures", lambda: p.poll() is not None or
                       (run / "renders" / "index.csv").exists())
    out, _ = w.brood("set", run, "evaluation.render=none")
    assert "on: evaluation.render=none\n" in out, out
    assert "render" not in (run / "config.yaml").read_text()
    harness.set_last_step(w, run, 160)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    assert pictures(run)


def test_what_cannot_be_drawn_is_refused(w):
    alone = w.program_with_agent(harness.AGENT)
    _, err = w.brood("run", config(w), *DATA, program=alone, code=2)
    assert "evaluation.render: pictures cannot be drawn: " in err and err.count("\n") == 1, err
    file = w.write("none.yaml", "env: {id: none}\nevaluation: {render: gif}\n"
                   "agents: {a: {observation: 1, action: 1}}\n")
    _, err = w.brood("check", file, code=2)
    assert "none.yaml:2: evaluation.render: none cannot be drawn" in err, err
    _, err = w.brood("check", config(w), "--set", "evaluation.render=png", code=2)
    assert "found 'png', expected none, gif, svg or jsonl" in err, err


def test_a_live_run_is_told_too(w):
    env = "{id: two_step, copies: 4, max_steps: 10}"
    p = w.start("run", config(w, env), "--name", "a", "--set", f"run.env_steps={harness.FOREVER}")
    run = w.run_dir("a")
    harness.wait_until("a checkpoint", lambda: p.poll() is not None or
                       harness.checkpoints(run)[-1:] > [0])
    _, err = w.brood("set", run, "evaluation.render=svg", code=2)
    assert "set: evaluation.render: two_step cannot be drawn" in err and err.count("\n") == 1, err
    w.brood("stop", run)
    p.wait(timeout=harness.DEADLINE_S)
    last = harness.checkpoints(run)[-1]
    _, err = w.brood("fork", f"a@{last}", "--name", "b", "--set", "evaluation.render=svg", "--set",
                     f"run.env_steps={last + 320}", code=2)
    assert "evaluation.render: two_step cannot be drawn" in err and err.count("\n") == 1, err
    assert not w.run_dir("b").exists()


LAMP = """
import sys
sys.path.insert(0, {examples!r})
from hallway import Hallway


class Pixels:
    \"\"\"What the bridge looks at of an array of NumPy.\"\"\"
    shape, dtype = (2, 4, 3), "uint8"

    def __init__(self, level):
        self.level = level

    def __getitem__(self, part):
        return self

    def tobytes(self):
        return bytes([self.level, 0, 255] * 8)


class Lamp(Hallway):
    def __init__(self, render_mode=None, **more):
        super().__init__(**more)
        self.render_mode = render_mode

    def render(self):
        return Pixels(min(10 * self.time, 255)) if self.render_mode == "rgb_array" else None


class Dark(Hallway):
    pass
"""


def test_an_environment_that_draws_itself_is_shown(w):
    """One that cannot is told at the beginning, and the run goes on."""
    if subprocess.run(["/usr/bin/python3", "-c", "import msgpack"], stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        raise harness.Skip("no python3-msgpack")
    examples = harness.SOURCE / "tests" / "examples"
    (w.path / "lamp.py").write_text(LAMP.format(examples=str(examples)))
    bridge = harness.SOURCE / "scripts" / "pettingzoo_bridge.py"
    file = config(w, f"{{command: [/usr/bin/python3, {bridge}, 'lamp.py:Lamp'], copies: 4}}")
    err = w.brood("check", file, "--set", "evaluation.render=jsonl", code=2)[1]
    assert ("evaluation.render: found 'jsonl', expected gif or none: an environment's own "
            "pictures are animated") in err and err.count("evaluation.render: ") == 1, err
    for kind in ("Lamp", "Dark"):
        file = config(w, f"{{command: [/usr/bin/python3, {bridge}, 'lamp.py:{kind}'], "
                         "copies: 4, processes: 2}")
        w.brood("run", file, "--name", f"{kind}-plain")
        _, err = w.brood("run", file, "--name", kind, "--set", "evaluation.render=gif")
        harness.assert_same_files(outcome(w.run_dir(kind)), outcome(w.run_dir(f"{kind}-plain")))
        if kind == "Lamp":
            assert all(data[:10] == b"GIF89a\4\0\2\0" for name, data
                       in pictures(w.run_dir(kind)).items() if name != "index.csv")
        else:
            assert "evaluations are not drawn: " in err and "takes no render_mode" in err, err
            assert not (w.run_dir(kind) / "renders").exists()


if __name__ == "__main__":
    harness.main()
