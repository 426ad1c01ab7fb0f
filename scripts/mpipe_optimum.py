#!/usr/bin/env python3
r"""The shortest step of an encoder before a pipeline that any order can have, from an exact solver: what `just_in_time` is held against.

    pip install ortools
    scripts/mpipe_optimum.py --body 1f1b --pp 4 --microbatches 8 --encoder 4

The body's compute steps keep the order that `ppctl plan` prints for them on each rank; a stage takes 10 for a forward, 10 for dx and 10 for dw,
divided by its rank's number of stages, the encoder as many times that as --encoder says, with dx and dw apart. Microbatch j is encoded on rank
j mod min(pp, m). Prints the shortest step found and the bound the solver proved: they are equal where it came to an end in --seconds.
"""
import argparse
import pathlib
import re
import subprocess

from ortools.sat.python import cp_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEP = re.compile(r"(\d+)([FBIW])(\d+)$")


def body_of(options):
    """The compute steps of each rank: (stage, F, B, I or W, microbatch)."""
    command = [options.binary, "plan", "--schedule", options.body, "--pp", str(options.pp), "--microbatches", str(options.microbatches),
               "--format", "csv"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [[match.groups() for match in map(STEP.match, line.split(",")) if match] for line in lines]


class Steps:
    """Tasks of the step under construction, in a unit that divides all of them."""

    def __init__(self, ranks, horizon):
        self.model = cp_model.CpModel()
        self.horizon = horizon
        self.tasks = {}
        self.intervals = [[] for _ in range(ranks)]

    def add(self, key, rank, duration):
        start = self.model.NewIntVar(0, self.horizon, str(key))
        self.tasks[key] = (start, duration)
        self.intervals[rank].append(self.model.NewIntervalVar(start, duration, start + duration, str(key)))

    def after(self, key, before):
        start, duration = self.tasks[before]
        self.model.Add(self.tasks[key][0] >= start + duration)

    def solve(self, seconds):
        for intervals in self.intervals:
            self.model.AddNoOverlap(intervals)
        length = self.model.NewIntVar(0, self.horizon, "length")
        for start, duration in self.tasks.values():
            self.model.Add(length >= start + duration)
        self.model.Minimize(length)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.Solve(self.model)
        return solver.ObjectiveValue(), solver.BestObjectiveBound()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "build/release/bin/ppctl")
    parser.add_argument("--body", default="1f1b")
    parser.add_argument("--pp", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--encoder", type=int, default=1, help="how many of a rank's parts of the body it takes")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    ranks = body_of(options)
    num_stages = 1 + max(int(stage) for rank in ranks for stage, _, _ in rank)
    chunks = num_stages // options.pp
    encoder = options.encoder * chunks
    steps = Steps(options.pp, 4 * (options.microbatches + options.pp) * (chunks + encoder))
    for rank, order in enumerate(ranks):
        previous = None
        for key in order:
            steps.add(key, rank, 2 if key[1] == "B" else 1)
            if previous:
                steps.after(key, previous)
            previous = key
    for microbatch in range(options.microbatches):
        def forward(stage):
            return str(stage), "F", str(microbatch)

        def backward(stage):
            return next(key for key in ((str(stage), kind, str(microbatch)) for kind in "BI") if key in steps.tasks)

        for stage in range(num_stages - 1):
            steps.after(forward(stage + 1), forward(stage))
            steps.after(backward(stage), backward(stage + 1))
        owner = microbatch % min(options.pp, options.microbatches)
        for part in ("forward", "dx", "dw"):
            steps.add((part, microbatch), owner, encoder)
        steps.after(forward(0), ("forward", microbatch))
        steps.after(("dx", microbatch), backward(0))
        steps.after(("dw", microbatch), ("dx", microbatch))
    found, bound = steps.solve(options.seconds)
    unit = 10 / chunks
    print(f"{options.body}, pp {options.pp}, m {options.microbatches}, encoder {options.encoder}: shortest found {found * unit:g}, "
          f"proved: none below {bound * unit:g}")


if __name__ == "__main__":
    main()
