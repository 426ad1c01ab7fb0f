#!/usr/bin/env python3
"""Runs ppctl and PyTorch's torch.distributed.pipelining on the same workloads in turns, and prints their step times side by side.

    scripts/bench_peers.py --peers PATH/TO/peers --workload latency small medium moe --pp 2 4 --schedule gpipe 1f1b --rounds 3
    scripts/bench_peers.py --peers PATH/TO/peers --pp 2 --dp 2 --schedule 1f1b      # FSDP2 beside fsdp, on pp x dp ranks

PATH/TO/peers holds workloads.json, model.py and torch_pipelining.py (PyTorch's side). Both sides start from the same weights (drawn by
model.py and handed to ppctl as a Hugging Face folder) and train on the same tokens, so that their losses must agree: the table has them.
Runs alternate (peer, ppctl, peer, ...); a case's figure is the median over its rounds of the run's median step. Needs a Python environment
that can import torch, numpy and safetensors (the project's .venv has LibTorch alone), and a release build.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER_NAMES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved_1f1b": "Interleaved1F1B", "looped_bfs": "LoopedBFS",
              "interleaved_zb": "InterleavedZeroBubble", "zb_v": "ZBVZeroBubble", "dualpipe_v": "DualPipeV"}
WARMUP, STEPS = 2, 10


def hugging_face_name(name):
    """The Llama name of a parameter of model.py's Stage, or the Mixtral name of one of its experts and routers."""
    fixed = {"embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight", "head.weight": "lm_head.weight"}
    if name in fixed:
        return fixed[name]
    for old, new in (("attention_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm"), ("attention.w", "self_attn."),
                     ("ffn.", "mlp.")):
        name = name.replace(old, new)
    for letter in "qkvo":
        name = name.replace(f"self_attn.{letter}.", f"self_attn.{letter}_proj.")
    if "mlp.experts." in name or "mlp.router." in name:
        name = name.replace("mlp.", "block_sparse_moe.").replace(".router.", ".gate.")
        for part, letter in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            name = name.replace(f".{part}.weight", f".{letter}.weight") if ".experts." in name else name
        return "model." + name
    for part in ("gate", "up", "down"):
        name = name.replace(f"mlp.{part}.", f"mlp.{part}_proj.")
    return "model." + name


def write_inputs(model, name, folder, dps):
    """Writes the workload's weights as a Hugging Face folder and its tokens as a flat file for each number of replicas, whose batches
    follow each other in it; returns the workload."""
    import torch
    from safetensors.torch import save_file
    w = model.load_workload(name)
    stage = model.Stage(w)
    tensors = {hugging_face_name(key): value.detach().contiguous() for key, value in stage.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": w.vocab,
              "hidden_size": w.dim, "intermediate_size": w.ffn_dim, "num_hidden_layers": w.n_layers, "num_attention_heads": w.n_heads,
              "num_key_value_heads": w.n_kv_heads, "head_dim": w.head_dim, "max_position_embeddings": w.seq_len,
              "rms_norm_eps": w.rms_eps, "rope_theta": w.rope_theta, "tie_word_embeddings": w.tied_head, "dtype": w.dtype}
    if w.n_experts:
        config.update({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": w.n_experts,
                       "num_experts_per_tok": w.top_k})
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    # ppctl reads samples of S tokens whose labels are the next ones, so a sample's last label is the next sample's first token. The peers'
    # batch has an own last label for each sample: a file of rows of S + 1 tokens (stride S + 1) keeps it.
    for dp in dps:
        batches = [model.token_batch(w, replica) for replica in range(dp)]
        rows = torch.cat([torch.cat((inputs, targets[:, -1:]), dim=1) for inputs, targets in batches])
        rows.to(torch.uint16).numpy().tofile(folder / f"tokens-{dp}.bin")
    return w


def job(w, folder, schedule, pp, dp, log):
    """The YAML of a run."""
    chunks = 2 if schedule in ("interleaved_1f1b", "looped_bfs", "interleaved_zb", "zb_v", "dualpipe_v") else 1
    return f"""name: bench-{w.name}
steps: {WARMUP + STEPS}
model: {{from: {folder}}}
data: {{kind: tokens, path: {folder}/tokens-{dp}.bin, token_dtype: uint16, sequence_length: {w.seq_len}, stride: {w.seq_len + 1}, order: sequential}}
batch: {{global_size: {w.batch * dp}, microbatch_size: {w.microbatch_size}}}
parallel: {{pp: {pp}, dp_shard: {dp}}}
pipeline: {{schedule: {schedule}, chunks: {chunks}}}
optimizer: {{name: adamw, lr: 1.0e-3, betas: [0.9, 0.999], eps: 1.0e-8, weight_decay: 0.01, decay: all, clip_norm: 0}}
lr_schedule: {{kind: constant}}
log: {{json: {log}}}
"""


def environment():
    """What both sides run with: one compute thread a rank, and Open MPI free to run as root and with more ranks than cores."""
    return dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", OMPI_ALLOW_RUN_AS_ROOT="1",
                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")


def run_peer(args, name, schedule, pp, dp):
    """One run of PyTorch's side: (median step in seconds, first loss, last loss)."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(pp * dp),
               str(args.peers / "torch_pipelining.py"), "--workload", name, "--schedule", PEER_NAMES[schedule], "--dp", str(dp), "--pin",
               "--warmup", str(WARMUP), "--steps", str(STEPS)]
    out = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    lines = [line for line in out.stdout.splitlines() if line.startswith("{")]
    if out.returncode or not lines:
        sys.exit(f"{' '.join(command)}\n{out.stdout}{out.stderr}")
    record = json.loads(lines[-1])
    return record["step_median_s"], record["first_loss"], record["last_loss"]


def run_ppctl(args, w, folder, schedule, pp, dp):
    """One run of ppctl: the same triple."""
    log = folder / "run.jsonl"
    log.unlink(missing_ok=True)
    config = folder / "job.yaml"
    config.write_text(job(w, folder, schedule, pp, dp, log))
    command = ["mpirun", "-np", str(pp * dp), "--oversubscribe", "--bind-to", "none", str(args.ppctl), "train", "--config", str(config)]
    out = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    if out.returncode:
        sys.exit(f"{' '.join(command)}\n{out.stdout}{out.stderr}")
    steps = [record for record in map(json.loads, log.read_text().splitlines())
             if "step" in record and "loss" in record and "microbatch" not in record]
    times = [record["step_ms"] / 1e3 for record in steps[WARMUP:]]
    return statistics.median(times), steps[0]["loss"], steps[-1]["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--ppctl", type=pathlib.Path, default=ROOT / "build/release/bin/ppctl")
    parser.add_argument("--workload", nargs="+", default=["latency", "small", "medium"])
    parser.add_argument("--schedule", nargs="+", default=["gpipe", "1f1b"], choices=sorted(PEER_NAMES))
    parser.add_argument("--pp", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--dp", nargs="+", type=int, default=[1], help="ranks that share the parameters of a stage (FSDP)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    args.peers = args.peers.resolve()
    sys.path.insert(0, str(args.peers))
    import model

    cases = [(name, pp, dp, schedule) for name in args.workload for pp in args.pp for dp in args.dp for schedule in args.schedule]
    results = {case: ([], []) for case in cases}
    with tempfile.TemporaryDirectory() as scratch:
        workloads, folders = {}, {}
        for name in args.workload:
            folders[name] = pathlib.Path(scratch) / name
            folders[name].mkdir()
            workloads[name] = write_inputs(model, name, folders[name], args.dp)
        for turn in range(args.rounds):
            for name, pp, dp, schedule in cases:
                results[name, pp, dp, schedule][0].append(run_peer(args, name, schedule, pp, dp))
                results[name, pp, dp, schedule][1].append(run_ppctl(args, workloads[name], folders[name], schedule, pp, dp))
                peer, ours = (side[-1][0] for side in results[name, pp, dp, schedule])
                print(f"round {turn + 1}: {name} pp={pp} dp={dp} {schedule}: PyTorch {peer:.4f} s, ppctl {ours:.4f} s", file=sys.stderr)

    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {args.rounds} alternating rounds, median step in seconds "
          f"(range of the rounds)\n")
    print("| workload | pp | dp | schedule | PyTorch | ppctl | PyTorch / ppctl | first loss, both | last loss, both |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (name, pp, dp, schedule), (peer, ours) in results.items():
        a, b = [r[0] for r in peer], [r[0] for r in ours]
        print(f"| {name} | {pp} | {dp} | {schedule} | {statistics.median(a):.4f} ({min(a):.4f}-{max(a):.4f}) | {statistics.median(b):.4f} "
              f"({min(b):.4f}-{max(b):.4f}) | {statistics.median(x / y for x, y in zip(a, b)):.2f} | {peer[0][1]:.5f} {ours[0][1]:.5f} | "
              f"{peer[0][2]:.5f} {ours[0][2]:.5f} |")


if __name__ == "__main__":
    main()
