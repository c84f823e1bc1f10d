"""Sends a run's rows of metrics to an experiment tracker: Weights & Biases or MLflow.

    python3 -m brood.track wandb [RUN_DIR] [--project NAME] [--offline]
    python3 -m brood.track mlflow [RUN_DIR] [--project NAME] [--uri URI]

sends what has not been sent yet, of a live run or one that is over, and ends. So it can be the
program of an event, by which the run's curves grow while it trains:

    on:
      row: [python3, -m, brood.track, wandb, --project, spread]
      end: [python3, -m, brood.track, wandb, --project, spread]
      deadline: 1m

RUN_DIR is then $BROOD_RUN_DIR. What was sent is noted in the run's logs/track-wandb.json. Steps
are environment steps, names those of the columns of metrics/progress.csv; the configuration goes
along. A `resume` from an earlier step sends no row of a step that was sent before; a call that is
killed while it sends is followed by one that may send some rows again.

wandb finds its key in ~/.netrc, where `wandb login` puts it: programs of events have no other
variables of the environment. With --offline it writes to the run's folder `wandb`, a part for each
call (so call it at the run's end), which `wandb sync --append` sends later. mlflow writes to
the URI, by default the file `mlflow.db` beside the run's directory; `mlflow ui` reads it.
"""
from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import math
import os
import pathlib
import secrets
import sys
from typing import Any

from .client import Run
from .errors import Error

State = dict[str, Any]  # "id": the tracker's name of the run; "step": of the last row sent
Row = tuple[int, dict[str, float]]
_TAG_MAX = 5000  # mlflow's servers take no longer ones


def _rows_after(run: Run, step: int) -> list[Row]:
    """(env_steps, values) of the rows after that step, without the values that a row lacks."""
    table = run.metrics()
    names = [n for n in table.dtype.names or () if n != "env_steps"]
    return [(int(row["env_steps"]),
             {n: float(row[n]) for n in names if math.isfinite(row[n])})
            for row in table if row["env_steps"] > step]


class _Noted:
    """The file of what was sent. Written in place, in one piece: a program may be killed at any
    moment, and the next one goes on from there."""
    SIZE = 512

    def __init__(self, path: pathlib.Path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(self.fd, fcntl.LOCK_EX)  # one program at a time
        text = os.pread(self.fd, self.SIZE, 0)
        try:
            self.state: State = json.loads(text) if text.strip() else {"step": -1}
        except ValueError:
            raise Error(f"{path}: expected JSON; remove it to send all rows again") from None

    def __setitem__(self, key: str, value: Any) -> None:
        self.state[key] = value
        os.pwrite(self.fd, json.dumps(self.state).ljust(self.SIZE - 1).encode() + b"\n", 0)


def _config(run: Run) -> str:
    return (run.path / "config.yaml").read_text(encoding="utf-8")


def _send_to_wandb(run: Run, rows: list[Row], noted: _Noted, wish: argparse.Namespace) -> None:
    wandb: Any = importlib.import_module("wandb")
    fresh = "id" not in noted.state
    if fresh:
        noted["id"] = secrets.token_hex(4)
    with wandb.init(project=wish.project, id=noted.state["id"], name=run.name,
                    dir=str(run.path), mode="offline" if wish.offline else "online",
                    resume=None if wish.offline else "allow",
                    settings=wandb.Settings(console="off", silent=True)) as sent:
        if fresh:
            sent.config.update({"config.yaml": _config(run)})
        for step, values in rows:
            sent.log(values, step=step)
    noted["step"] = rows[-1][0]  # not before wandb has written all


def _send_to_mlflow(run: Run, rows: list[Row], noted: _Noted, wish: argparse.Namespace) -> None:
    mlflow: Any = importlib.import_module("mlflow")
    mlflow.set_tracking_uri(wish.uri or f"sqlite:///{run.path.parent / 'mlflow.db'}")
    mlflow.set_experiment(wish.project)
    with mlflow.start_run(run_id=noted.state.get("id"), run_name=run.name) as sent:
        if "id" not in noted.state:
            noted["id"] = sent.info.run_id
            mlflow.set_tag("config.yaml", _config(run)[:_TAG_MAX])
        for step, values in rows:
            mlflow.log_metrics(values, step=step)
            noted["step"] = step


_TRACKERS = {"wandb": _send_to_wandb, "mlflow": _send_to_mlflow}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m brood.track", description=(__doc__ or "")
                                     .split("\n", 1)[0])
    parser.add_argument("tracker", choices=_TRACKERS)
    parser.add_argument("run", nargs="?", default=os.environ.get("BROOD_RUN_DIR"), metavar="RUN_DIR")
    parser.add_argument("--project", default="brood", help="of wandb; the experiment of mlflow")
    parser.add_argument("--offline", action="store_true", help="wandb: into the run's directory")
    parser.add_argument("--uri", help="mlflow: where it writes")
    wish = parser.parse_intermixed_args()
    try:
        if wish.run is None or not pathlib.Path(wish.run, "config.yaml").is_file():
            raise Error(f"expected a run's directory, found {wish.run}")
        run = Run(pathlib.Path(wish.run))
        noted = _Noted(run.path / "logs" / f"track-{wish.tracker}.json")
        rows = _rows_after(run, noted.state["step"])
        if rows:
            _TRACKERS[wish.tracker](run, rows, noted, wish)
    except ModuleNotFoundError as e:
        sys.exit(f"brood.track: there is no {e.name}: pip install {wish.tracker}")
    except (Error, OSError) as e:
        sys.exit(f"brood.track: {e}")
    except Exception as e:  # the tracker's own: there is no list of them
        sys.exit(f"brood.track: {wish.tracker}: {e}")


if __name__ == "__main__":
    main()
