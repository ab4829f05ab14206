"""Makes the goldens of the trainer's decoder with transformers: small llama, qwen2 and qwen3 models, the
log-probabilities and entropies of a batch, and the gradient of every parameter.

Usage: python make.py      (torch, transformers and safetensors; see SOURCES.md for the versions)
"""

import json
import os

import numpy
import torch
import transformers
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             initializer_range=0.25, rms_norm_eps=1e-6, use_cache=False)
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, tie_word_embeddings=False),
    "qwen2": lambda: transformers.Qwen2Config(**SMALL, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**SMALL, head_dim=8, tie_word_embeddings=False),
    "llama_biased": lambda: transformers.LlamaConfig(
        **SMALL, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
        rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=10000.0,
                             original_max_position_embeddings=16)),
    "qwen3_windowed": lambda: transformers.Qwen3Config(
        **SMALL, head_dim=8, tie_word_embeddings=True, attention_bias=True, use_sliding_window=True,
        sliding_window=4, max_window_layers=1),
}


def make_model(config, kind=transformers.AutoModelForCausalLM):
    torch.manual_seed(7)
    model = kind.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:  # norms of one and biases of zero would hide mistakes
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.float().eval()


def make_batch(vocab, lengths):
    """Sequences, the next token asked for everywhere, and the whole vocabulary at one position of the last
    sequence: that is the logits."""
    generator = numpy.random.default_rng(3)
    ids = [generator.integers(0, vocab, n).tolist() for n in lengths]
    flat = [i for sequence in ids for i in sequence]
    ends = set(numpy.cumsum([len(s) for s in ids]) - 1)
    targets = [[t, flat[t + 1]] for t in range(len(flat)) if t not in ends]
    whole = sum(lengths[:-1]) + lengths[-1] // 2
    at = [t for t, _ in targets].index(whole)
    targets[at:at + 1] = [[whole, label] for label in range(vocab)]
    gradient = generator.normal(0, 1, len(targets)).astype("float32").tolist()
    return {"ids": ids, "targets": targets, "gradient": gradient, "temperature": 0.7}


def gradients(model):
    return {name: parameter.grad.numpy().copy() for name, parameter in model.named_parameters()}


def expected(model, batch):
    """Log-probabilities, entropies, and the gradients of sum(gradient * log_probs)."""
    rows = []
    for sequence in batch["ids"]:
        logits = model(torch.tensor([sequence])).logits[0]
        rows.append(torch.log_softmax(logits / batch["temperature"], dim=-1))
    distribution = torch.cat(rows)
    tokens = torch.tensor([t for t, _ in batch["targets"]])
    labels = torch.tensor([label for _, label in batch["targets"]])
    log_probs = distribution[tokens, labels]
    (log_probs * torch.tensor(batch["gradient"])).sum().backward()
    entropies = -(distribution.exp() * distribution).sum(-1)[tokens]
    return {"log_probs": log_probs.detach().numpy(), "entropies": entropies.detach().numpy(),
            **gradients(model)}


def main():
    for name, config in MODELS.items():
        folder = os.path.join(HERE, name)
        model = make_model(config())
        model.save_pretrained(folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        batch = make_batch(SMALL["vocab_size"], (5, 9, 20))
        save_file(expected(model, batch), os.path.join(folder, "expected.safetensors"))
        with open(os.path.join(folder, "batch.json"), "w") as file:
            json.dump(batch, file)
            file.write("\n")


if __name__ == "__main__":
    main()
