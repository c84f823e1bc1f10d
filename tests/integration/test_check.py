"""`brood check`: one line per file, every file looked at, code 2 if any is wrong."""
import json
import os
import re
import shutil
import subprocess

import harness

GOOD = "env: {id: simple_spread, params: {agents: 4}}\n"
BAD = "env: {id: simple_spread}\nexperience:\n  batchsize: 3\n"


def test_each_file_gets_its_line(w):
    (w.path / "good.yaml").write_text(GOOD)
    (w.path / "bad.yaml").write_text(BAD)
    out, err = w.brood("check", "bad.yaml", "good.yaml", "gone.yaml", code=2)
    first, memory, disk = out.splitlines()
    assert first == "good.yaml: ok: 4 agents, maddpg, 625000 steps", out
    assert re.fullmatch(r"  about \d\d MB of memory: [\d.]+ MB weights, [\d.]+ MB batches, "
                        r"\d+ kB messages, \d+ MB processes", memory), out
    assert re.fullmatch(r"  about \d{3} MB of disk: \d{3} MB log \(625024 rows of \d{3} B\), "
                        r"[\d.]+ MB checkpoints", disk), out
    lines = err.splitlines()
    assert len(lines) == 2, err
    assert lines[0].startswith("bad.yaml:3: experience.batchsize: unknown key"), err
    assert lines[0].endswith("did you mean 'batch_size'?"), err
    assert lines[1].startswith("gone.yaml: "), err


LIMITED = """\
env: {id: simple_spread}
agents:
  agent_1:
    memory_limit: VALUE
"""


def test_a_memory_limit_has_a_unit_and_leaves_room(w):
    """`check` and `run` refuse what would kill the agent again and again; also at a later step."""
    least = "and its process takes about 2.1M at least (agent agent_1)"
    for value, says in (("512", "found '512', expected none or a size with its unit, such as 512M "
                         "(B, K, M, G, T)"),
                        ("512B", f"found 512B, {least}"), ("2M", f"found 2M, {least}"),
                        ("{at: {0: 1G, 5000: 1M}}", f"found 1M, {least}")):
        file = w.write("limited.yaml", LIMITED.replace("VALUE", value))
        for command in ("check", "run"):
            _, err = w.brood(command, "limited.yaml", code=2)
            assert err.endswith(f"limited.yaml:4: agents.agent_1.memory_limit: {says}\n"), err
    for value in ("64M", "1G", "none", "{at: {0: 1G, 700000: 1M}}"):  # after the end
        file = w.write("limited.yaml", LIMITED.replace("VALUE", value))
        w.brood("check", file)


def test_the_estimate_is_of_the_length_that_the_run_will_have(w):
    """And of the checkpoints that it will write: with values for later steps, the most counts."""
    def check(length, *sets):
        found, = harness.json_lines(w.brood(
            "check", "planned.yaml", "--json", "--set", f"run.{length}", *sets)[0])
        return found
    w.write("planned.yaml", GOOD)
    short, whole = check("env_steps=50000"), check("env_steps=90000")
    planned = check("env_steps={at: {0: 50000, 40000: 90000}}")
    assert planned["env_steps"] == whole["env_steps"] == 90000
    assert planned["estimated_bytes"]["log"] == whole["estimated_bytes"]["log"] \
        > short["estimated_bytes"]["log"]
    out, _ = w.brood("check", "planned.yaml", "--set", "run.env_steps={at: {0: 50000, "
                     "40000: 90000}}")
    assert "maddpg, 90000 steps" in out and "log (90016 rows of " in out, out
    out, _ = w.brood("check", "planned.yaml", "--set",  # the same, of the whole section
                     "run={at: {0: {env_steps: 50000}, 40000: {env_steps: 90000}}}")
    assert "maddpg, 90000 steps" in out and "log (90016 rows of " in out, out
    # How many steps the episodes take is not known.
    _, err = w.brood("check", "planned.yaml", "--set",
                     "run.episodes={at: {0: 100, 1600: 4000}}", code=2)
    assert "the run ends after 100 episodes, which may be before step 1600" in err, err
    all_kept = "checkpoint={max_to_keep: none, every_env_steps: EVERY}"
    often = check("env_steps=90000", "--set", all_kept.replace("EVERY", "1000"))
    later = check("env_steps=90000", "--set", all_kept.replace(
        "EVERY", "{at: {0: 50000, 100: 1000}}"))
    assert later["estimated_bytes"]["checkpoints"] == often["estimated_bytes"]["checkpoints"]


def test_standard_input_is_checked_too(w):
    w.write("good.yaml", GOOD)
    w.write("bad.yaml", BAD)
    for name, code in (("good.yaml", 0), ("bad.yaml", 2)):
        with open(w.path / name) as stdin:
            p = subprocess.run([harness.BROOD, "check", "-"], stdin=stdin, cwd=w.path,
                               capture_output=True, text=True, check=False)
        assert p.returncode == code, p
        if code == 0:
            assert p.stdout.startswith("-: ok: 4 agents, maddpg, 625000 steps\n"), p
        else:
            assert p.stderr.startswith("-:3: experience.batchsize: unknown key"), p


def test_a_tab_is_named(w):
    for text, line in (("env:\n\tid: simple\n", 2),
                       ("env:\n  id: simple\n\trules: mpe2\n", 3),
                       ("env:\n  id: simple\nrun:\n  \tseed: 1\n", 4)):
        w.write("tab.yaml", text)
        _, err = w.brood("check", "tab.yaml", code=2)
        assert err == f"tab.yaml:{line}: a tab indents this line, expected spaces\n", err


def test_every_configuration_is_right_in_a_fresh_clone(w):
    """With the files of the repository alone, nothing built beside them."""
    for folder in ("configs", "scripts", "tests/examples"):
        shutil.copytree(harness.SOURCE / folder, w.path / folder)
    files = sorted(f"configs/{f.name}" for f in (w.path / "configs").glob("*.yaml"))
    out, _ = w.brood("check", *files)
    assert [line.split(": ok: ")[0] for line in out.splitlines() if ": ok: " in line] == files


def test_what_has_no_length_has_no_steps(w):
    config = harness.SOURCE / "configs" / "node_critics.yaml"
    out, _ = w.brood("check", config)
    assert out.startswith(f"{config}: ok: 4 agents, critic, until it is stopped\n"), out
    assert " 0 B log (0 rows" in out, out
    assert json.loads(w.brood("check", "--json", config)[0])["env_steps"] is None


def test_facts_are_json_when_asked(w):
    (w.path / "good.yaml").write_text(GOOD)
    (w.path / "bad.yaml").write_text(BAD)
    out, _ = w.brood("check", "--json", "good.yaml", "bad.yaml", code=2)
    good, bad = (json.loads(line) for line in out.splitlines())
    needs = good.pop("estimated_bytes")
    assert sum(needs[k] for k in ("weights", "batches", "messages", "processes")) == \
        needs["memory"] and needs["log"] + needs["checkpoints"] == needs["disk"], needs
    assert good == {"config": "good.yaml", "ok": True, "agents": 4,
                    "algorithms": "maddpg", "env_steps": 625000,
                    "warning": None}, good
    assert bad["config"] == "bad.yaml" and bad["ok"] is False
    assert bad["error"].startswith("bad.yaml:3: "), bad


def test_a_run_that_trains_nothing_is_named_by_check_and_at_its_end(w):
    config = w.small(steps=400)
    says = ("experience.warmup: nothing is trained: the first update comes after 1000 steps, "
            "and the run ends after 400")
    late = ("--set", "experience.warmup=1000")
    out, err = w.brood("check", config, *late)
    assert "ok: 3 agents" in out and err == f"{config}: {says}\n", (out, err)
    (told,) = harness.json_lines(w.brood("check", "--json", config, *late)[0])
    assert told["warning"] == says, told
    _, err = w.brood("run", config, "--name", "late", *late)
    assert f"\n{says}\n" in err, err
    assert says in (w.run_dir("late") / "logs" / "supervisor.log").read_text()

    # Where nothing is given, the warm-up follows the length.
    w.write("bare.yaml", "run: {env_steps: 640}\nenv: {id: simple_spread}\n")
    out, err = w.brood("check", "bare.yaml")
    assert not err, err
    _, err = w.brood("run", "bare.yaml", "--name", "bare")
    assert "nothing is trained" not in err, err
    assert "warmup: 64\n" in (w.run_dir("bare") / "config.yaml").read_text()
    assert "updates=6 " in (w.run_dir("bare") / "journal").read_text()


def test_a_complete_configuration_takes_another_algorithm(w):
    w.brood("run", w.small(steps=40, evaluate=0), "--name", "a")
    saved = w.run_dir("a") / "config.yaml"
    saved.write_text(saved.read_text().replace("algorithm: maddpg", "algorithm: iql"))
    out, err = w.brood("check", saved)
    assert out.startswith(f"{saved}: ok: 3 agents, iql, 40 steps"), out
    line = next(i for i, text in enumerate(saved.read_text().splitlines(), 1)
                if "logit_penalty" in text)
    assert f"{saved}:{line}: defaults.settings: dropped logit_penalty, temperature, policy, " \
        "execute and exploration_noise: no setting of iql\n" in err, err
    _, err = w.brood("run", saved, "--name", "b", "--set", "defaults.optimizer.type=sgd")
    assert "dropped beta1, beta2 and epsilon: no setting of the optimizer sgd\n" in err, err
    assert "type: sgd" in (w.run_dir("b") / "config.yaml").read_text()


def test_files_extend_others_and_teams_have_sections(w):
    w.small(steps=200, evaluate=0)
    w.write("top.yaml", "extends: small.yaml\nenv: {id: simple_tag, params: ~}\n"
            "defaults: {optimizer: &fast {learning_rate: 0.01}}\n"
            "agents:\n  adversary: {algorithm: ddpg, optimizer: *fast}\n"
            "  adversary_1: {algorithm: maddpg}\n")
    out, _ = w.brood("check", "top.yaml", "--set", "agents.agent.algorithm=iql")
    assert out.startswith("top.yaml: ok: 4 agents, ddpg, maddpg, iql, 200 steps"), out
    w.brood("run", "top.yaml", "--name", "tag", "--set", "run.env_steps=1000000", "--detach")
    out, _ = w.brood("set", "tag", "agents.adversary.discount=0.5")
    for i in range(3):
        assert f"agents.adversary_{i}.discount=0.5" in out, out
    w.brood("stop", "tag")
    saved = (w.run_dir("tag") / "config.yaml").read_text()
    assert "extends" not in saved and saved.count("discount: 0.5") == 3, saved
    w.write("top.yaml", "extends: gone.yaml\n")
    _, err = w.brood("run", "top.yaml", code=2)
    assert err == "brood run: top.yaml:1: extends: gone.yaml: No such file or directory\n", err


def test_what_does_not_fit_a_base_is_blamed_on_the_file_that_extends_it(w):
    """The base is right in its other uses."""
    w.write("base.yaml", "env: {id: simple_spread}\nrun: {env_steps: 4000}\nexperience: {capacity: "
            "2000, batch_size: 32, warmup: 200}\ncheckpoint: {every_env_steps: 500}\nagents:\n"
            "  agent_0: {discount: 0.9}\n")
    for text, says in (
            ("experience: {capacity: 10}", "experience.batch_size: found 32, expected at most "
             "experience.capacity, 10"),
            ("run: {episodes: 30}", "run: env_steps and episodes are both given"),
            ("checkpoint: {every_seconds: 9}", "checkpoint: every_env_steps and every_seconds are both"),
            ("env: {command: [x]}", "env: id and command are both given"),
            ("agents: {agent_1: {discount: 2}}", "agents.agent_1.discount: found '2'"),
            ("agents: {agent_0: {optimizer: {type: adm}}}", "agents.agent_0.optimizer.type: found 'adm'"),
            ("run: {env_stps: 1}", "run.env_stps: unknown key")):
        _, err = w.brood("check", w.write("child.yaml", f"extends: base.yaml\n# two\n{text}\n"), code=2)
        assert f"child.yaml:3: {says}" in err and err.count("\n") == 1, err
    _, err = w.brood("check", w.write("child.yaml", "extends: base.yaml\nenv: {id: foraging}\n"), code=2)
    assert "base.yaml:6: agents: found 'agent_0', expected player_0, player_1 or player" in err, err
    assert re.search(r"; \S*child.yaml:2 chooses another environment$", err, re.M), err
    _, err = w.brood("check", "base.yaml", "--set", "experience.capacity=10", code=2)
    assert err.startswith("--set experience.capacity=10: experience.batch_size: found 32"), err


def test_a_fifo_that_nobody_writes_into_is_not_waited_for(w):
    good = (w.path / "good.yaml")
    good.write_text(GOOD)
    os.mkfifo(w.path / "fifo")
    for command in (("check", "fifo"), ("run", "fifo"), ("sweep", "fifo")):
        p = w.start(*command)
        assert p.wait(timeout=harness.allowed_s(5)) in (1, 2), p.log.read_text()
        assert "fifo: a fifo that nobody opens for writing" in \
            p.log.read_text() + harness.output(p), (command, p.log.read_text())

    # One that somebody writes into is read to its end, also when that takes a while.
    p = w.start("check", "fifo")
    with open(w.path / "fifo", "w", encoding="utf-8") as f:
        for c in GOOD:
            f.write(c)
            f.flush()
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    for written, code in ((f"cat {good}", 0), ("echo 1", 2)):
        p = subprocess.run(["bash", "-c", f"{harness.BROOD} check <({written})"], check=False,
                           cwd=w.path, capture_output=True)
        assert p.returncode == code, p


def test_what_does_not_fit_is_refused(w):
    """The disk of the runs, and the memory; each line names the key and its place."""
    w.write("big.yaml", "env: {id: simple_spread}\nrun:\n  env_steps: 1000000000000000\n"
            "experience:\n  capacity: 100000000000\n")
    for sets, says in (
            ([], r"big.yaml:5: experience.capacity: 100000000000 rows of \d+ bytes take \d+ TB, "
             r"more than the disk of runs has \(\S+ .B\)"),
            (["run.env_steps=10000000000"],
             r"--set run.env_steps=10000000000: run.env_steps: 10000000000 rows of \d+ bytes "
             r"take \S+ TB, more than the disk of runs has \(\S+ .B\)"),
            (["experience.capacity=1000000", "env.copies=1048576", "env.params.agents=64"],
             r"--set env.copies=1048576: env.copies: the run takes about \S+ .B of memory "
             r"\(messages: \S+ .B\), and this machine has \S+ .B")):
        words = [word for s in sets for word in ("--set", s)]
        for command in ("check", "run"):
            out, err = w.brood(command, "big.yaml", *words, code=2)
            assert re.fullmatch(says + "\n", err.removeprefix("brood run: ")), err
            assert not out, out
    assert not w.runs.exists()


def test_a_disk_that_may_fill_up_is_warned_of(w):
    """A run may be stopped long before its end, and waits for space on a full disk."""
    config = w.write("long.yaml", "env: {id: simple_spread}\nrun: {env_steps: 1000000000000}\n"
                     "experience: {capacity: 1000, batch_size: 8, warmup: 8}\n"
                     "checkpoint: {every_env_steps: 0}\n")
    out, err = w.brood("check", config)
    assert out.startswith(f"{config}: ok"), out
    assert re.fullmatch(r".*long.yaml: warning: run.env_steps: the run takes about \S+ TB of "
                        r"disk, and runs has \S+ .B free\n", err), err
    told, = harness.json_lines(w.brood("check", config, "--json")[0])
    assert re.fullmatch(r"run.env_steps: the run takes about \S+ TB of disk, and runs has \S+ .B free",
                        told["warning"]), told


def test_the_estimate_of_the_disk_is_what_a_run_takes(w):
    config = w.small(steps=2000, evaluate=0)
    (told,) = harness.json_lines(w.brood("check", "--json", config)[0])
    w.brood("run", config, "--name", "a", "--set", "experience.keep=true")
    run, needs = w.run_dir("a"), told["estimated_bytes"]
    header = 1 << 20  # of the log, which is a hole
    assert os.stat(run / "experience").st_size == needs["log"] + header, needs
    data = sum(f.stat().st_size for f in run.glob("checkpoints/*/*/*.data*"))
    assert needs["checkpoints"] / 3 < data < needs["checkpoints"], (data, needs)


def test_values_are_set_on_the_command_line(w):
    (w.path / "good.yaml").write_text(GOOD)
    out, _ = w.brood("check", "good.yaml", "--set", "run.episodes=7",
                     "--set", "agents.agent_3.algorithm=ddpg")
    assert out.startswith("good.yaml: ok: 4 agents, maddpg, ddpg, 7 episodes\n"), out
    _, err = w.brood("check", "good.yaml", "--set", "run.episodes=x", code=2)
    assert err.startswith("--set run.episodes=x: run.episodes: found 'x'"), err
    _, err = w.brood("check", "good.yaml", "--set", "env.id=simple_spred", code=2)
    assert err.startswith("--set env.id=simple_spred: env.id: "), err


def test_what_a_frozen_agent_acts_by_is_looked_for(w):
    """The message names file and line of the value, as for any other key."""
    env = "env: {id: simple_spread}\n"
    w.write("one.yaml", env + "agents:\n  agent_0:\n    algorithm: frozen\n"
            "    settings: {from: nowhere}\n")
    w.write("all.yaml", env + "defaults:\n  algorithm: frozen\n  settings: {from: nowhere}\n")
    for words, where in (
            (["one.yaml"], "one.yaml:5: agents.agent_0.settings.from: "),
            (["all.yaml"], "all.yaml:4: agents.agent_0.settings.from: "),
            (["one.yaml", "--set", "agents.agent_0.settings.from=none"],
             "--set agents.agent_0.settings.from=none: agents.agent_0.settings.from: ")):
        name = "none" if "--set" in words else "nowhere"
        _, err = w.brood("check", *words, code=2)
        assert err == f"{where}there is no run {name} in runs\n", err
        _, err = w.brood("run", *words, code=2)
        assert err == f"brood run: {where}there is no run {name} in runs\n", err


def test_what_an_algorithm_cannot_play_has_its_place_and_leaves_no_run(w):
    box = "env: {id: simple, actions: continuous}\n"
    said = "iql needs a discrete action space, of at most 4096 choices (agent agent_0)"
    for name, text, says in (
            ("defaults", box + "defaults:\n  algorithm: iql\n",
             f"3: defaults.algorithm: {said}"),
            ("own", box + "agents:\n  agent_0: {\n    algorithm: iql}\n",
             f"4: agents.agent_0.algorithm: {said}"),
            ("settings", box + "defaults: {settings: {policy: deterministic}}\n"
             "agents:\n  agent_0: {optimizer: {type: accept_reject}, algorithm: iql}\n",
             f"4: agents.agent_0.algorithm: {said}"),
            ("last", "env: {id: simple_spread, params: {agents: 3}}\nagents:\n  agent_2:\n"
             "    settings: {policy: deterministic}\n",
             "4: agents.agent_2.settings.policy: deterministic needs a bounded continuous "
             "action space (agent agent_2)"),
            ("asymmetric", "env: {id: foraging}\ndefaults:\n"
             "  settings: {symmetry: env}\n",
             "3: defaults.settings.symmetry: env: foraging declares no symmetries (agent "
             "player_0)"),
            ("batches", "env: {id: simple_spread, copies: 8}\n"
             "experience: {update_every: 200}\ndefaults:\n  algorithm: ippo\n"
             "  settings: {minibatches: 300}\n",
             "5: defaults.settings.minibatches: 300 are more than the 200 rows of an update "
             "(experience.update_every)"),
            ("mixer", "env: {id: simple_spread, max_steps: 25, reward: team_mean}\n"
             "defaults: {algorithm: qmix}\nagents:\n"
             "  agent_1: {settings: {lambda: 0.5}}\n",
             "4: agents.agent_1.settings.lambda: the mixer computes the targets of agent_0 and "
             "agent_1, so that agent_1 cannot have a value of its own (agent agent_1)"),
            ("large", "env: {id: simple_spread, params: {agents: 70}}\n"
             "defaults: {settings: {symmetry: env}}\n",
             "2: defaults.settings.symmetry: env: symmetry: 4830 numbers to draw, at most "
             "4096 (agent agent_0)"),
            ("mixed", "env: {id: simple_spread}\nagents:\n  agent_1:\n"
             "    settings: {symmetry: env}\n",
             "1: agents.agent_0.settings.symmetry: none, but agent_1 has env: they read each "
             "other's proposals (agent agent_0)")):
        w.write(f"{name}.yaml", text)
        out, err = w.brood("check", f"{name}.yaml", code=2)
        assert (out, err) == ("", f"{name}.yaml:{says}\n"), (out, err)
        out, err = w.brood("run", f"{name}.yaml", code=2)
        assert (out, err) == ("", f"brood run: {name}.yaml:{says}\n"), (out, err)
    assert not w.runs.exists() or not list(w.runs.iterdir()), list(w.runs.iterdir())


def test_help_lists_every_key(w):
    out, _ = w.brood("check", "--help")
    for key in ("run.seed", "experience.batch_size", "defaults.optimizer.learning_rate"):
        assert f"  {key} " in out, key


def test_extreme_values_are_refused_in_a_line(w):
    def check(text, *more, code=2):
        err = w.brood("check", w.write("extreme.yaml", text), *more, code=code)[1]
        assert err.count("\n") == 1, err
        return err

    # The window that is the default is larger than the capacity that is the default.
    ppo = "run: {env_steps: 10}\nenv: {id: simple_spread, reward: team_mean}\n" \
          "defaults: {algorithm: mappo}\n"
    for copies, steps in ((32, 50000), (65536, 25), (32768, 562949953421312),
                          (16384, 10**15)):
        err = check(ppo, "--set", f"env.copies={copies}", "--set", f"env.max_steps={steps}")
        assert "experience.update_every: found" in err and "experience.capacity" in err, err
    # The row numbers of an update would be no message.
    err = check("run: {env_steps: 10}\n"
                "env: {id: simple_spread, max_steps: 10000, reward: team_mean}\n"
                "experience: {warmup: 20000000, capacity: 30000000}\n"
                "defaults: {algorithm: qmix}\n")
    assert "does not fit into a message" in err, err
    program = w.write("program", "#!/bin/sh\n")
    program.chmod(0o755)
    _, err = w.brood("run", w.small(), "--rescue", program, code=2)
    assert err == f"brood run: --rescue: {program} is no folder\n", err
    _, err = w.brood("run", w.small(), "--rescue", "", code=2)
    assert "the name of a folder is empty" in err, err
    err = check("x: {<<: [" + "{a: 1}," * 21 + "]}\n")
    assert "found 21 maps, expected at most 20" in err, err
    err = check("run: {env_steps: 10}\nenv: {id: simple_tag, teams: all}\n"
                "defaults: {algorithm: heuristic}\n")
    assert "algorithm" in err and "observes" in err, err


if __name__ == "__main__":
    harness.main()
