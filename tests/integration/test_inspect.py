"""`brood inspect` on checkpoints that TensorFlow wrote, and on files that are none."""
import json
import os
import pathlib

import harness


def checkpoints():
    folder = pathlib.Path(os.environ["BROOD_SHARED_DIR"], "data", "tf-checkpoints")
    if not folder.is_dir():
        raise harness.Skip("no checkpoints of TensorFlow here")
    return folder


def test_every_checkpoint_is_listed_and_read(w):
    indexes = sorted(checkpoints().rglob("*.index"))
    indexes += sorted(p for p in checkpoints().rglob(".index") if p not in indexes)
    assert indexes
    for index in indexes:
        prefix = str(index)[:-len(".index")]
        facts = harness.json_lines(w.brood("inspect", prefix, "--json", "--values")[0])
        names = [f["name"] for f in facts]
        assert names and names == sorted(names), prefix
        for fact in facts:
            size = 1
            for n in fact["shape"]:
                size *= n
            assert len(fact["values"]) == size, (prefix, fact["name"])
        assert w.brood("inspect", prefix, "--names")[0].split("\n") == names + [""]


def test_a_directory_means_its_newest_or_its_nameless_one(w):
    nameless = checkpoints() / "01-mbeliaev1-maddpg" / "policy" / "h10s5" / "5"
    out, _ = w.brood("inspect", nameless)
    assert len(out.splitlines()) == 105
    assert out == w.brood("inspect", f"{nameless}/")[0]
    assert out.splitlines()[0] == \
        "agent_0/agent_0/p_func/fully_connected/biases/Adam (DT_FLOAT) [32]"
    assert out.splitlines()[-1] == "# Total number of params: 30808"
    moved = checkpoints() / "20-Shanky007-regressionModel" / "ckpt"
    assert w.brood("inspect", moved) == w.brood("inspect", moved / "model.ckpt")


def test_one_tensor_is_printed_as_tensorflow_would(w):
    prefix = checkpoints() / "20-Shanky007-regressionModel" / "ckpt" / "model.ckpt"
    out, _ = w.brood("inspect", prefix, "--tensor", "deep_regression/fc1/weights")
    lines = out.splitlines()
    assert lines[0] == "tensor: deep_regression/fc1/weights (float32) [1, 32]"
    assert lines[1].startswith("[[") and lines[-1].endswith("]]")
    fact = json.loads(w.brood("inspect", prefix, "--json", "--tensor",
                              "deep_regression/fc1/weights")[0])
    assert fact["dtype"] == "float32" and fact["shape"] == [1, 32]


def test_what_is_no_checkpoint_is_one_line(w):
    (w.path / "empty").mkdir()
    (w.path / "text").write_text("text")
    (w.path / "bad.index").write_text("text")
    for path, says in (("nothing", "there is no checkpoint nothing"),
                       ("empty", "there is no empty/checkpoint"),
                       ("text", "V1 checkpoint"), ("bad", "bad.index: not a table"),
                       ("nothing.index", "named by its prefix: nothing")):
        out, err = w.brood("inspect", path, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (path, err)
    w.brood("inspect", code=2)


if __name__ == "__main__":
    harness.main()
