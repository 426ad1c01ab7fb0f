#!/usr/bin/env python3
r"""Trains a job with and without pipeline.overlap_b_f in turns, on real compute, and prints the ratio of their step times.

    scripts/bench_overlap.py --config configs/experts.yaml --ranks 4 --set eval.every=0
    scripts/bench_overlap.py --config configs/quickstart.yaml --ranks 2 --set parallel.pp=2 --set pipeline.schedule=interleaved_1f1b \
        --set pipeline.chunks=2 --set eval.every=0 --set sample.tokens=1

A pair is one run without and one with; every other pair has them in the other order. A run's time is the median of its steps after --skip;
its CPU seconds are those of all its processes. Losses must be equal to the last bit. Needs python3's standard library only.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(options, overlapped):
    """Median step in ms, CPU seconds, and the losses of one run."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "run.jsonl"
        sets = [f"steps={options.steps}", f"pipeline.overlap_b_f={'true' if overlapped else 'false'}"] + options.set
        command = [ROOT / "scripts/mpirun", "-np", options.ranks, options.binary, "train", "--config", options.config,
                   "--log-json", log]
        for value in sets:
            command += ["--set", value]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if result.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}:\n{result.stderr}")
        records = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [record for record in records if "grad_norm" in record]
    times = [record["step_ms"] for record in steps[options.skip:]]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return statistics.median(times), cpu, [(record["loss"], record["grad_norm"]) for record in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--binary", default=ROOT / "build/release/bin/ppctl")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--skip", type=int, default=2, help="steps of each run that are not counted")
    parser.add_argument("--set", action="append", default=[], help="as ppctl's")
    options = parser.parse_args()
    ratios, cpu_ratios = [], []
    print(f"load {os.getloadavg()[0]:.1f}, {options.pairs} pairs of {options.steps} steps")
    print("| pair | off ms | on ms | on / off | off CPU s | on CPU s |\n|---|---|---|---|---|---|")
    for pair in range(options.pairs):
        order = [False, True] if pair % 2 == 0 else [True, False]
        runs = {overlapped: run(options, overlapped) for overlapped in order}
        (off, off_cpu, off_losses), (on, on_cpu, on_losses) = runs[False], runs[True]
        if off_losses != on_losses:
            raise SystemExit("losses or gradient norms differ between the two")
        ratios.append(on / off)
        cpu_ratios.append(on_cpu / off_cpu)
        print(f"| {pair + 1} | {off:.1f} | {on:.1f} | {on / off:.3f} | {off_cpu:.1f} | {on_cpu:.1f} |", flush=True)
    print(f"\nstep time on / off: median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}; "
          f"CPU seconds: median {statistics.median(cpu_ratios):.3f}; same losses and norms to the last bit")


if __name__ == "__main__":
    main()
