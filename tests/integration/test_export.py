"""`brood export` and `brood inspect --state`: a checkpoint in others' formats, and the file
that names the newest."""
import json
import struct
import subprocess

import harness

PYTHON = "/usr/bin/python3"


def trained(w):
    """The prefix of a checkpoint of ours."""
    w.brood("run", w.small(steps=400), "--name", "a")
    return w.run_dir("a") / "checkpoints" / "400" / "agent_0" / "model.ckpt-400"


def facts_of(w, prefix):
    return {f["name"]: f for f in harness.json_lines(
        w.brood("inspect", prefix, "--json", "--values")[0])}


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def read_safetensors(path):
    """name -> (dtype, shape, bytes), by the format's own description."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    body = data[8 + n:]
    ends = sorted(tuple(t["data_offsets"]) for t in header.values())
    assert ends[0][0] == 0 and ends[-1][1] == len(body), ends
    assert all(a[1] == b[0] for a, b in zip(ends, ends[1:])), "a gap between tensors"
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
            for name, t in header.items()}


def test_safetensors_hold_every_tensor(w):
    prefix, out = trained(w), w.path / "weights.safetensors"
    w.brood("export", prefix, "--out", out)
    found, wanted = read_safetensors(out), facts_of(w, prefix)
    assert found.keys() == wanted.keys()
    for name, (dtype, shape, data) in found.items():
        values = flat(wanted[name]["values"])
        assert dtype == "F32" and shape == wanted[name]["shape"], (name, dtype, shape)
        assert list(struct.unpack(f"<{len(values)}f", data)) == values, name


def test_npz_is_read_by_numpy(w):
    prefix, out = trained(w), w.path / "weights.npz"
    name = "agent_0/p_func/fully_connected/weights"
    wanted = facts_of(w, prefix)
    name = next(n for n in wanted if n.endswith("fully_connected/weights"))
    w.brood("export", prefix, "--out", out)
    script = ("import json, numpy, sys; z = numpy.load(sys.argv[1]); "
              "print(json.dumps({k: [str(z[k].dtype), list(z[k].shape), "
              "z[k].ravel().tolist()] for k in z.files}))")
    done = subprocess.run([PYTHON, "-c", script, str(out)], capture_output=True, text=True,
                          check=False)
    if "No module named 'numpy'" in done.stderr:
        raise harness.Skip("no python3-numpy")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() == wanted.keys()
    assert found[name] == ["float32", wanted[name]["shape"], flat(wanted[name]["values"])]


def test_one_tensor_and_what_cannot_be_exported(w):
    prefix, out = trained(w), w.path / "one.safetensors"
    name = next(iter(facts_of(w, prefix)))
    w.brood("export", prefix, "--tensor", name, "--out", out)
    assert list(read_safetensors(out)) == [name]
    out_text, _ = w.brood("export", prefix, "--tensor", name, "--out", out, "--json")
    assert harness.json_lines(out_text) == [{"file": str(out), "tensors": 1}], out_text
    assert w.brood("export", prefix, "--out", out, "-q") == ("", "")
    for args, code, says in (([prefix, "--tensor", name + "s", "--out", out], 1, name),
                             ([prefix, "--out", w.path / "x.txt"], 2, ".safetensors or .npz"),
                             ([prefix, "--tensor", name, "--tensor", name], 2, "given twice"),
                             ([w.path / "none"], 1, "none"),
                             ([prefix, "--out", w.path / "no" / "x.npz"], 1, "no/x.npz")):
        _, err = w.brood("export", *args, code=code)
        assert says in err and len(err.splitlines()) == 1, (args, err)
    assert not (w.path / "x.txt").exists()


def test_a_checkpoint_is_that_of_a_run_s_agent(w):
    folder = trained(w).parent.relative_to(w.path)
    for command in ("inspect", "graph"):
        assert w.brood(command, "a", "agent_0") == w.brood(command, folder), command
        assert w.brood(command, "a@0", "agent_0") == w.brood(
            command, folder.parent.parent / "0" / "agent_0"), command
        for words, says, code in ((["a"], "a is a run: give one of its agents, too (agent_0, ", 2),
                                  (["a", "agent_9"], "a has no agent 'agent_9' at step 400", 1),
                                  (["a@7", "agent_0"], "no checkpoint of step 7", 1),
                                  (["b", "agent_0"], "there is no run b", 1),
                                  ([], "expected a checkpoint, or a run and its agent", 2)):
            _, err = w.brood(command, *words, code=code)
            assert says in err and len(err.splitlines()) == 1, (command, words, err)
    w.brood("export", "a", "agent_0", "--out", "run.npz")
    w.brood("export", folder, "--out", "folder.npz")
    assert (w.path / "run.npz").read_bytes() == (w.path / "folder.npz").read_bytes()


def test_the_state_file_is_shown(w):
    folder = trained(w).parent
    out, _ = w.brood("inspect", folder, "--state")
    assert "model.ckpt-400" in out, out
    (fact,) = harness.json_lines(w.brood("inspect", folder, "--state", "--json")[0])
    assert any("model.ckpt-400" in str(v) for v in fact.values()), fact
    _, err = w.brood("inspect", w.path, "--state", code=1)
    assert len(err.splitlines()) == 1, err


if __name__ == "__main__":
    harness.main()
