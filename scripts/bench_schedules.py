#!/usr/bin/env python3
"""Times ppctl's generator, lowering, verifier and simulator beside PyTorch's, in turns, for growing interleaved 1F1B schedules.

    cmake --preset release -DPPCTL_BUILD_BENCHMARKS=ON && cmake --build --preset release --target bench_schedule_scale
    .venv/bin/python scripts/bench_schedules.py --sizes 4x2x8 8x2x32 16x4x64 32x4x128 --rounds 3

PyTorch's side is torch.distributed.pipelining's own code: ScheduleInterleaved1F1B makes the order, _add_send_recv the sends and receives,
_simulate_comms_compute runs them in lock step. ppctl's is bench_schedule_scale, which verifies too. Both are timed in CPU seconds of one
thread, so that other work on the machine counts little; a figure is the least of its rounds. Sizes are p x v x m; a size that takes PyTorch
longer than --limit seconds ends its column, and ppctl goes on alone.
"""
import argparse
import datetime
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Stage:
    """What a schedule asks a stage when it makes its order; nothing is ever run."""

    def __init__(self, index, num_stages, pp):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, num_stages, pp, index % pp
        self.is_first, self.is_last, self.has_backward = index == 0, index == num_stages - 1, True
        self.stage_index_to_group_rank = {i: i % pp for i in range(num_stages)}

    def __getattr__(self, name):
        return None


def time_pytorch(pp, chunks, microbatches):
    """CPU seconds of PyTorch's three parts and the number of compute steps."""
    from torch.distributed.pipelining import schedules
    num_stages = pp * chunks
    start = time.process_time()
    schedule = schedules.ScheduleInterleaved1F1B([Stage(i * pp, num_stages, pp) for i in range(chunks)], microbatches,
                                                 loss_fn=lambda output, target: output)
    order = schedule.pipeline_order
    made = time.process_time()
    compute = {rank: [action for action in actions if action is not None] for rank, actions in order.items()}
    num_steps = sum(map(len, compute.values()))  # what follows takes them out of their lists
    lowered = schedules._add_send_recv(compute, stage_to_rank=lambda stage: stage % pp, num_stages=num_stages)
    lowered_at = time.process_time()
    schedules._simulate_comms_compute(lowered, stage_to_rank=lambda stage: stage % pp, num_stages=num_stages)
    return (made - start, lowered_at - made, time.process_time() - lowered_at), num_steps


def time_ppctl(binary, pp, chunks, microbatches):
    """CPU seconds of generating, lowering, verifying and simulating, and the peak memory in GiB."""
    text = subprocess.run([binary, "interleaved_1f1b", str(pp), str(chunks), str(microbatches)], check=True, capture_output=True,
                          text=True).stdout
    fields = text.splitlines()[-1].split()
    return tuple(float(field) / 1e3 for field in fields[6:10]), int(fields[4]), float(fields[12])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/bin/bench_schedule_scale"))
    parser.add_argument("--sizes", nargs="+", default=["4x2x8", "8x2x32", "16x4x64", "32x4x128", "64x4x512", "256x4x1024", "1024x4x4096"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds after which PyTorch is not asked for larger sizes")
    options = parser.parse_args()
    if not os.access(options.binary, os.X_OK):
        sys.exit(f"{options.binary}: not built; see --help")
    print(f"{datetime.date.today()}, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds in turns, CPU seconds of one thread\n")
    print("| p | v | m | compute steps | PyTorch: order | send/recv | simulate | all | ppctl: generate | lower | verify | simulate | all "
          "| ns a step | GiB | ratio |")
    print("|" + "---|" * 16)
    asks_pytorch = True
    for size in options.sizes:
        pp, chunks, microbatches = map(int, size.split("x"))
        theirs, ours = [], []
        for _ in range(options.rounds):
            if asks_pytorch:
                theirs.append(time_pytorch(pp, chunks, microbatches))
                asks_pytorch = sum(theirs[-1][0]) < options.limit
            ours.append(time_ppctl(options.binary, pp, chunks, microbatches))
        best = min(ours, key=lambda run: sum(run[0]))
        steps, total = best[1], sum(best[0])
        row = [pp, chunks, microbatches, f"{steps:,}"]
        if theirs:
            least = min(theirs, key=lambda run: sum(run[0]))
            assert least[1] == steps, f"PyTorch has {least[1]} compute steps, ppctl {steps}"
            row += [f"{part:.4f}" for part in least[0]] + [f"{sum(least[0]):.4f}"]
        else:
            row += ["-"] * 4
        row += [f"{part:.4f}" for part in best[0]] + [f"{total:.4f}", f"{1e9 * total / steps:.0f}", f"{best[2]:.2f}"]
        row.append(f"{sum(least[0]) / total:,.0f}" if theirs else "-")
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
