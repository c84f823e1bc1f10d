"""Commands around runs: `brood new`, `tag`, and which of them `runs` lists."""
import json

import harness


# ---- brood new ----

# These take part in no game by themselves.
WITHOUT_POLICY = {"critic", "graph", "frozen"}
LIKE_CLIMBING = {"penalty", "prisoners_dilemma", "stag_hunt"}


def names(w, command, key):
    return [x[key] for x in harness.json_lines(w.brood(command, "--json")[0])]


def test_every_pair_is_written_or_refused_in_a_line(w):
    """What `new` writes, `check` accepts, with as many agents; what `check` refuses, `new`
    refuses in one line that names the key."""
    envs, algorithms = names(w, "envs", "id"), names(w, "algorithms", "name")
    envs = [e for e in envs if e not in LIKE_CLIMBING]
    if harness.SANITIZED:
        envs, algorithms = envs[::6], algorithms[::5]
    made, refused = {}, set()
    for env in envs:
        started = [(a, w.start("new", env, "--algorithm", a, "--out", f"{env}-{a}.yaml"))
                   for a in algorithms if env == envs[0] or a not in WITHOUT_POLICY]
        for a, p in started:
            file = f"{env}-{a}.yaml"
            if p.wait(timeout=harness.DEADLINE_S) == 0:
                made[file] = a
                continue
            text = p.log.read_text()
            assert p.returncode == 2 and len(text.splitlines()) == 1, (file, text)
            assert text.startswith("brood new: ") and f" {a} " in f" {text}", (file, text)
            assert not (w.path / file).exists()
            refused.add(a)
    assert refused <= WITHOUT_POLICY | {"heuristic"}, refused
    out, err = w.brood("check", *made)
    good = [line for line in out.splitlines() if ": ok: " in line]
    assert [line.split(":")[0] for line in good] == list(made) and not err, (out, err)
    assert all(f", {a}, " in line for line, a in zip(good, made.values())), good


def test_a_written_configuration_explains_itself_and_trains_alike(w):
    text, _ = w.brood("new", "simple_tag", "--algorithm", "mappo", "--set",
                      "run.env_steps=60", "--set", "env.params={adversaries: 2}", "--set",
                      "env.copies=2", "--set", "evaluation.every_env_steps=0")
    help_text = w.brood("check", "--help")[0]
    for line in help_text.split("what it is for:")[1].splitlines():
        key, _, doc = line.strip().partition(" ")
        if key in ("run.seed", "checkpoint.max_to_keep", "defaults.settings.clip_ratio",
                   "experience.priority", "agents"):
            assert f"# {doc.split(maxsplit=1)[-1]}\n" in text or doc.strip() in text, line
    assert "\n    adversaries: 2 " in text and "\n  adversary_0: {}\n" in text, text
    assert "\n  # update_every:" in text and "\n  env_steps: 60 " in text, text
    w.write("long.yaml", text)
    w.write("short.yaml", "run: {env_steps: 60}\nenv: {id: simple_tag, params: {adversaries: 2}, "
            "copies: 2}\nevaluation: {every_env_steps: 0}\ndefaults: {algorithm: mappo}\n")
    for name in ("long", "short"):
        w.brood("run", f"{name}.yaml", "--name", name, "-q")
    long, short = (harness.tree_bytes(w.run_dir(name) / "checkpoints" / "60",
                                      lambda p: p.name != "run.state")
                   for name in ("long", "short"))
    assert long
    harness.assert_same_files(long, short)


def test_no_file_is_replaced_unasked(w):
    w.write("a.yaml", "mine\n")
    _, err = w.brood("new", "simple", "--out", "a.yaml", code=2)
    assert err == "brood new: a.yaml exists already; --force replaces it\n", err
    assert (w.path / "a.yaml").read_text() == "mine\n"
    out, _ = w.brood("new", "simple", "--out", "a.yaml", "--force", "--json")
    assert harness.json_lines(out) == [{"env": "simple", "algorithm": "maddpg",
                                        "file": "a.yaml"}], out
    assert "id: simple " in (w.path / "a.yaml").read_text()
    printed, = harness.json_lines(w.brood("new", "simple", "--json")[0])
    assert printed["file"] is None and printed["text"] == (w.path / "a.yaml").read_text()
    for words, why in ((["simpel"], "there is no environment 'simpel'; did you mean 'simple'?"),
                       (["simple", "--algorithm", "magic"], "'magic'"),
                       (["simple", "--set", "run.speed=1"], "run.speed: unknown key"),
                       (["simple", "--out", "no/a.yaml"], "no/a.yaml: No such file"),
                       ([], "expected the name of one environment")):
        _, err = w.brood("new", *words, code=1 if "--out" in words else 2)
        assert why in err and len(err.splitlines()) == 1, err


# ---- brood tag, brood runs --where ----


def listed(w, *words):
    return [x["run"] for x in harness.json_lines(w.brood("runs", "--json", *words)[0])]


def test_runs_are_tagged_and_found(w):
    config = w.small(steps=40, evaluate=0)
    for name, more in (("one", ()), ("two", ("--set", "defaults.algorithm=ippo"))):
        w.brood("run", config, "--name", name, "-q", *more)
    out, _ = w.brood("tag", "one", "paper", "fig3", "--note", "the left curve")
    assert out == "one: paper, fig3; the left curve\n", out
    assert w.brood("tag", "two", "paper")[0] == "two: paper\n"
    out, _ = w.brood("tag", "one", "--remove", "fig3", "best", "paper", "--json")
    assert harness.json_lines(out) == [{"run": "one", "tags": ["paper", "best"],
                                        "note": "the left curve"}], out
    assert w.brood("tag", "one")[0] == "one: paper, best; the left curve\n"
    status, = harness.json_lines(w.brood("status", "one", "--json")[0])
    assert status["tags"] == ["paper", "best"] and status["note"] == "the left curve", status

    table = w.brood("runs")[0].splitlines()
    assert table[0].endswith("  tags") and [line.split("  ")[-1] for line in table[1:]] == \
        ["paper", "paper, best"], table
    assert listed(w) == ["two", "one"]
    for where, found in (("tag=paper", ["two", "one"]), ("tag=be*", ["one"]),
                         ("state=done algorithm=ippo", ["two"]), ("name=?ne", ["one"]),
                         ("env=simple_spread tag=best", ["one"]), ("env=simple", []),
                         ("state=failed", []), ("algorithm=m* tag=paper", ["one"])):
        assert listed(w, "--where", where) == found, where
    assert w.brood("runs", "--where", "state=failed")[0].count("\n") <= 1
    w.brood("tag", "two", "--remove", "paper")
    w.brood("tag", "one", "--remove", "paper", "--remove", "best", "--note", "")
    assert w.brood("tag", "one")[0] == "one: no tags\n"
    assert "tags" not in w.brood("runs")[0]


def test_a_live_run_is_tagged(w):
    w.start("run", w.small(steps=100000000, evaluate=0, checkpoint=1000000000), "--name", "a")
    harness.wait_until("the rounds", lambda: harness.rows(w.run_dir("a")) > 0)
    w.brood("tag", "a", "watched")
    assert listed(w, "--where", "tag=watched state=running") == ["a"]
    status, = harness.json_lines(w.brood("status", "a", "--json")[0])
    assert status["state"] == "running" and status["tags"] == ["watched"], status
    w.brood("stop", "a")
    assert listed(w, "--where", "tag=watched state=stopped") == ["a"]


def test_wrong_tags_and_conditions_are_one_line(w):
    w.brood("run", w.small(steps=40, evaluate=0), "--name", "a", "-q")
    for words, why, code in (
            (("tag", "a", "two words"), "'two words' is no tag, expected a name", 2),
            (("tag", "a", "--remove", "x"), "a: it has no tag x", 2),
            (("tag", "a", "--note", "two\nlines"), "the note is not one line", 2),
            (("tag", "b", "x"), "there is no run b", 3),
            (("tag",), "expected a run", 2),
            (("runs", "--where", "colour=red"), "there is no field 'colour', expected state, "
             "tag, name, env or algorithm", 2),
            (("runs", "--where", "done"), "'done': expected FIELD=VALUE", 2),
            (("runs", "--where", " "), "--where: it is empty", 2)):
        _, err = w.brood(*words, code=code)
        assert why in err and len(err.splitlines()) == 1, (words, err)
    assert not (w.run_dir("a") / "tags").exists()


if __name__ == "__main__":
    harness.main()
