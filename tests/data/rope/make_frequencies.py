"""Writes frequencies.json: rotary frequencies as transformers computes them (5.24.0), for tests/unit/model/rope_test.cpp.

    python make_frequencies.py > frequencies.json
"""
import json

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

SHORT, LONG = [1.0 + 0.05 * i for i in range(8)], [2.0 + 0.5 * i for i in range(8)]
CASES = [
    ("default", {"rope_theta": 500000.0}, 64),
    ("linear", {"rope_scaling": {"type": "linear", "factor": 2.5}}, 64),
    ("dynamic_short", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 64),
    ("dynamic_long", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 300),
    ("llama3", {"rope_theta": 500000.0,
                "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 64}}, 64),
    ("yarn", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}, 64),
    ("yarn_mscale", {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 40.0, "mscale": 0.7,
                                         "mscale_all_dim": 1.3, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False,
                                         "original_max_position_embeddings": 64}}, 64),
    ("longrope_short", {"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG, "factor": 4.0,
                                         "original_max_position_embeddings": 32}}, 32),
    ("longrope_long", {"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG,
                                        "original_max_position_embeddings": 32}}, 33),
]


def main():
    result = []
    for name, keys, length in CASES:
        config = LlamaConfig(vocab_size=32, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
                             num_attention_heads=4, max_position_embeddings=128, **json.loads(json.dumps(keys)))
        kind = config.rope_parameters["rope_type"]
        init = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
        frequencies, factor = init(config, seq_len=length)
        result.append({"name": name, "keys": keys, "length": length, "attention_factor": factor,
                       "frequencies": frequencies.double().tolist()})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
