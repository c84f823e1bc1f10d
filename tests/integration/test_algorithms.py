"""Algorithms are what brood-agent says of them: `brood algorithms`, and nothing in brood that
names one."""
import csv
import json
import re

import harness

# Words that name an algorithm and have other meanings: a graph of TensorFlow, the part of an
# agent that values actions, a random axis of a sweep, what an agent does when it was given up.
OTHER_MEANINGS = {"critic", "frozen", "graph", "noop", "random"}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def described(w):
    return [json.loads(line) for line in w.brood("algorithms", "--json")[0].splitlines()]


def test_nothing_but_agents_names_an_algorithm(w):
    """Neither a text of brood's sources is an algorithm's name, nor a part of an identifier."""
    names = {a["name"] for a in described(w)} - OTHER_MEANINGS
    assert {"maddpg", "qmix", "iql"} <= names
    found = []
    for top in ("common", "supervisor"):
        for path in sorted((harness.SOURCE / top).rglob("*.[ch]")):
            code = COMMENT.sub("", path.read_text())
            texts = set(TEXT.findall(code))
            words = set(re.findall(r"[a-z0-9]+", TEXT.sub('""', code).lower()))
            found += [(path.name, name) for name in sorted(names & (texts | words))]
    assert not found, found


def test_every_algorithm_lists_its_settings(w):
    keys = w.brood("check", "--help")[0]
    for a in described(w):
        text = w.brood("algorithms", a["name"])[0]
        assert a["summary"] in text
        for line in a.get("method", []):
            assert f"\n    {line}\n" in text, line
        for s in a["settings"]:
            assert re.search(rf"^    {s} +", text, re.MULTILINE), (a["name"], s, text)
            assert f"defaults.settings.{s} " in keys, s
        for s in a["scalars"]:
            assert re.search(rf"^    {s['name']} +{re.escape(s['meaning'])}", text, re.MULTILINE), s
    assert [a["name"] for a in described(w) if "rows" in a and not a.get("method")] == []
    text = w.brood("algorithms", "happo")[0]
    assert re.search(r"^    epochs +5 +passes over each window of rows$", text, re.MULTILINE), text
    assert [a["name"] for a in described(w) if a["default"]] == ["maddpg"]
    _, err = w.brood("algorithms", "madpg", code=2)
    assert "did you mean 'maddpg'?" in err, err


def header_and_rows(run):
    with open(run / "metrics" / "progress.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    return list(rows[0]), rows


def test_algorithms_report_what_they_declare(w):
    """All of it, nothing else, and with columns before anything is learnt; alone and shared."""
    for a in described(w):
        if "rows" not in a:
            continue
        declared = {s["name"] for s in a["scalars"]}
        assert all(s["meaning"] for s in a["scalars"]) and len(declared) > 5, a
        for share in ["none"] + ["team"] * a["shares"]:
            name = f"{a['name']}-{share}"
            config = w.write(name + ".yaml", f"""
run: {{env_steps: 600}}
env: {{id: simple_spread, copies: 4, reward: team_mean}}
log: {{every_env_steps: 20}}
defaults: {{algorithm: {a["name"]}, share: {share}}}
experience: {{warmup: 100, update_every: 100}}
evaluation: {{every_env_steps: 0}}
""")
            batch = [] if a["rows"] == "window" else ["--set", "experience.batch_size=16"]
            w.brood("run", config, "--name", name, *batch)
            header, rows = header_and_rows(w.run_dir(name))
            if not harness.SANITIZED:
                w.brood("run", config, "--name", name + "-begun", "--until", "40", *batch, code=4)
                assert header == header_and_rows(w.run_dir(name + "-begun"))[0], name
            reported = {k.split("/", 2)[2] for row in rows for k, v in row.items()
                        if v and k.startswith("train/")}
            assert reported == declared, (name, reported ^ declared)
            last = rows[-1]
            shares = [float(v) for k, v in last.items() if v and k.endswith("clip_fraction")]
            assert all(0 <= x <= 1 for x in shares), last
            assert all(float(v) >= 0 for k, v in last.items()
                       if v and k.endswith(("approx_kl", "td_error", "grad_norm"))), last


def test_a_setting_of_another_algorithm_is_named(w):
    config = w.write("x.yaml", "env: {id: simple_spread}\n"
                              "defaults: {algorithm: ddpg, settings: {gae: 0.9}}\n")
    _, err = w.brood("check", config, "--set", "defaults.settings.epsilon=0.5", code=2)
    assert "epsilon is no setting of ddpg" in err, err
    _, err = w.brood("check", w.write("y.yaml", "env: {id: simple_spread}\n"
                                               "defaults: {algorithm: ddpg, settings: {gea: 1}}\n"),
                     code=2)
    assert "y.yaml:2" in err and "unknown key" in err, err


if __name__ == "__main__":
    harness.main()
