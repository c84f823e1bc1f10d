"""Algorithms are what brood-agent says of them: `brood algorithms`, and nothing in brood that
names one."""
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
        for s in a["settings"]:
            assert re.search(rf"^    {s} +", text, re.MULTILINE), (a["name"], s, text)
            assert f"defaults.settings.{s} " in keys, s
    text = w.brood("algorithms", "happo")[0]
    assert re.search(r"^    epochs +5 +passes over each window of rows$", text, re.MULTILINE), text
    assert [a["name"] for a in described(w) if a["default"]] == ["maddpg"]
    _, err = w.brood("algorithms", "madpg", code=2)
    assert "did you mean 'maddpg'?" in err, err


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
