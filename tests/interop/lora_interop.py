"""nxd-convert --merge-lora, and adapters alone, against sums that torch makes here.

Usage: python lora_interop.py --bin-dir DIR   (DIR is tests/interop of the build; nxd-convert lies in
                                               DIR itself or in tools of the build)

Adapters are written as PEFT and NxD lay them out by formats/lora/FORMAT.md alone, with torch.save
and safetensors; what they make of a base is computed with plain torch.
"""

import json
import math
import os
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file

import interop

NXD = interop.load_make("nxd")

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 36,
         "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 40, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16"}
QWEN2 = {**LLAMA, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def module_of(weight):
    return weight[:-len(".weight")]


def added(weight, a, b, scale):
    """W + scale * B A, element by element in F32, k in ascending order."""
    total = torch.zeros(weight.shape, dtype=torch.float32)
    for k in range(a.shape[0]):
        total += b[:, k:k + 1].float() * a[k:k + 1, :].float()
    return weight.float() + torch.tensor(scale, dtype=torch.float32) * total


class Adapter:
    """A and B of each adapted weight of a model."""

    def __init__(self, model, targets=LINEAR, rank=4, alpha=6, dtype=torch.float32, seed=1,
                 shared=(), **config):
        generator = torch.Generator().manual_seed(seed)
        self.config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "lora_dropout": 0.05,
                       "bias": "none", "target_modules": list(targets), "task_type": "CAUSAL_LM",
                       "base_model_name_or_path": "somebody/base", "fan_in_fan_out": False,
                       "inference_mode": True, "init_lora_weights": True, "use_dora": False,
                       **config}
        self.pairs, self.whole, same = {}, {}, {}
        for name, weight in model.items():
            if not name.endswith(".weight") or module_of(name).split(".")[-1] not in targets:
                continue
            layers = config.get("layers_to_transform")
            if layers is not None and int(name.split(".")[2]) not in layers:
                continue
            module = module_of(name)
            r = self.of(module, "rank_pattern", rank)
            # For an embedding, too: A [rank, hidden], B [vocabulary, rank].
            a = torch.randn(r, weight.shape[1], generator=generator).to(dtype)
            for group in shared:  # one A for several modules, as in NxD
                if module.split(".")[-1] in group:
                    a = same.setdefault((module.rsplit(".", 1)[0], group), a)
            b = torch.randn(weight.shape[0], r, generator=generator).to(dtype)
            self.pairs[name] = (a, b)

    def of(self, module, pattern, otherwise):
        for end, value in self.config.get(pattern, {}).items():
            if module.endswith(end):
                return value
        return otherwise

    def scale(self, name):
        module = module_of(name)
        rank = self.of(module, "rank_pattern", self.config["r"])
        alpha = self.of(module, "alpha_pattern", self.config["lora_alpha"])
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)

    def merged(self, model):
        out = {name: tensor.float() for name, tensor in model.items()}
        for name, (a, b) in self.pairs.items():
            out[name] = added(model[name], a, b, self.scale(name))
        out.update({name: tensor.float() for name, tensor in self.whole.items()})
        return out

    def save_peft(self, folder):
        tensors = {}
        for name, (a, b) in self.pairs.items():
            module = "base_model.model." + module_of(name)
            if "embed_tokens" in name:
                tensors[module + ".lora_embedding_A"] = b.t().contiguous()
                tensors[module + ".lora_embedding_B"] = a.t().contiguous()
            else:
                tensors[module + ".lora_A.weight"] = a
                tensors[module + ".lora_B.weight"] = b
        for name, tensor in self.whole.items():
            tensors["base_model.model." + name] = tensor
        os.makedirs(folder, exist_ok=True)
        # Clones, because safetensors writes no tensor twice.
        save_file({name: tensor.clone() for name, tensor in tensors.items()},
                  os.path.join(folder, "adapter_model.safetensors"), {"format": "pt"})
        with open(os.path.join(folder, "adapter_config.json"), "w", encoding="ascii") as out:
            json.dump(self.config, out, indent=2, sort_keys=True)
        return folder

    def nxd_shard(self, c, tp, t, style, hardware, m):
        """The state dict of rank t, as NxD's LoRA layers hold it."""
        q, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        queries, keys = NXD.heads_of(hardware, q, kv, m, tp)[t]
        heads = {"q": queries, "k": keys, "v": keys}
        out = {}
        for layer in range(c["num_hidden_layers"]):
            attention, mlp = f"model.layers.{layer}.self_attn.", f"model.layers.{layer}.mlp."
            of = {x: self.pairs.get(f"{attention}{x}_proj.weight") for x in "qkvo"}
            if of["q"] is not None:
                b = {x: NXD.own(NXD.pick(of[x][1], heads[x], d)) for x in "qkv"}
                if style == "separate":
                    for x in "qkv":
                        out[f"{attention}{x}_proj.lora_A.weight"] = of[x][0]
                        out[f"{attention}{x}_proj.lora_B.weight"] = b[x]
                else:
                    out[attention + "qkv_proj.lora_A.weight"] = of["q"][0]
                    if style == "linear":
                        for x in "qkv":
                            out[f"{attention}qkv_proj.lora_B.weight_{x}"] = b[x]
                    else:
                        out[attention + "qkv_proj.lora_B.weight_qkv"] = torch.cat(
                            [b[x] for x in "qkv"])
            if of["o"] is not None:
                out[attention + "o_proj.lora_A.weight"] = NXD.own(
                    NXD.pick(of["o"][0], queries, d, 1))
                out[attention + "o_proj.lora_B.weight"] = of["o"][1]
            gate, up = (self.pairs.get(f"{mlp}{x}_proj.weight") for x in ("gate", "up"))
            if gate is not None:
                out[mlp + "gate_up_proj.lora_A.weight"] = gate[0]
                out[mlp + "gate_up_proj.lora_B.weight"] = torch.cat(
                    [NXD.part(gate[1], t, tp), NXD.part(up[1], t, tp)])
            down = self.pairs.get(mlp + "down_proj.weight")
            if down is not None:
                out[mlp + "down_proj.lora_A.weight"] = NXD.own(NXD.part(down[0], t, tp, 1))
                out[mlp + "down_proj.lora_B.weight"] = down[1]
        return out

    def save_nxd(self, folder, c, tp=2, style="linear", hardware="trn1", m=1, embed=True):
        config = {"lora_rank": self.config["r"], "r": self.config["r"],
                  "lora_alpha": self.config["lora_alpha"], "lora_dropout": 0.05, "bias": "none",
                  "target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
                  "use_rslora": self.config.get("use_rslora", False), "merge_lora": False,
                  "init_lora_weights": "default", "modules_to_save": None,
                  "save_lora_base": False, "save_lora_config_adapter": embed}
        for t in range(tp):
            state = self.nxd_shard(c, tp, t, style, hardware, m)
            if embed:
                state["lora_config"] = config
            NXD.save(state, f"{folder}/lora/model/{NXD.v2_name(t)}")
        NXD.markers(f"{folder}/lora")
        if not embed:
            NXD.write(json.dumps(config), f"{folder}/adapter_config.json")
        return folder


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_it(self, *arguments, code=0):
        done = subprocess.run([interop.program("nxd-convert"), "-q", "--no-sync", *arguments],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}{done.stderr}")
        return done.stderr

    def base(self, config=LLAMA, dtype=torch.bfloat16, seed=5):
        model = {name: tensor.to(dtype) for name, tensor in NXD.make_model(config, seed).items()}
        os.makedirs(self.path("base"), exist_ok=True)
        save_file(model, self.path("base", "model.safetensors"), {"format": "pt"})
        NXD.write(json.dumps(config), self.path("base", "config.json"))
        return model

    def expect_equal(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual(found[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(found[name], tensor), name)

    def merge(self, adapter, out, *arguments):
        self.run_it("--from", "hf", "--to", "hf", "--merge-lora", adapter, "--verify", *arguments,
                    self.path("base"), self.path(out))
        return load_file(self.path(out, "model.safetensors"))

    def expect_merges(self, model, adapter, dtype=torch.bfloat16):
        found = self.merge(adapter.save_peft(self.path("adapter")), "merged")
        self.expect_equal(found, {name: tensor.to(dtype)
                                  for name, tensor in adapter.merged(model).items()})


class Merge(Case):
    def test_bf16(self):
        model = self.base()
        self.expect_merges(model, Adapter(model))

    def test_adapter_and_base_of_other_dtypes(self):
        model = self.base(dtype=torch.float16)
        self.expect_merges(model, Adapter(model, dtype=torch.bfloat16), torch.float16)

    def test_f32_is_what_a_matrix_product_gives(self):
        model = self.base(dtype=torch.float32)
        adapter = Adapter(model, rank=16)
        found = self.merge(adapter.save_peft(self.path("adapter")), "merged")
        for name, (a, b) in adapter.pairs.items():
            torch.testing.assert_close(found[name], model[name] + adapter.scale(name) * (b @ a))

    def test_output_dtype_is_rounded_to_once(self):
        model = self.base()
        adapter = Adapter(model)
        found = self.merge(adapter.save_peft(self.path("adapter")), "merged", "--dtype", "f32")
        self.expect_equal(found, adapter.merged(model))

    def test_rslora(self):
        model = self.base()
        self.expect_merges(model, Adapter(model, use_rslora=True, rank=5, alpha=7))

    def test_patterns(self):
        model = self.base()
        self.expect_merges(model, Adapter(
            model, rank_pattern={"layers.1.self_attn.q_proj": 3, "up_proj": 9},
            alpha_pattern={"q_proj": 11, "down_proj": 0.5}))

    def test_some_layers(self):
        model = self.base()
        adapter = Adapter(model, ["q_proj", "down_proj"], layers_to_transform=[0, 2])
        self.assertEqual(len(adapter.pairs), 4)
        self.expect_merges(model, adapter)

    def test_embedding_head_and_whole_modules(self):
        model = self.base()
        adapter = Adapter(model, ["embed_tokens", "v_proj"], modules_to_save=["lm_head", "norm"])
        for name in ("lm_head.weight", "model.norm.weight"):
            adapter.whole[name] = torch.randn(model[name].shape)
        self.expect_merges(model, adapter)

    def test_biases(self):
        model = self.base(QWEN2)
        adapter = Adapter(model, ["q_proj", "v_proj"], bias="lora_only")
        for name in model:
            if name.endswith(("q_proj.bias", "v_proj.bias")):
                adapter.whole[name] = torch.randn(model[name].shape)
        self.expect_merges(model, adapter)

    def test_rank_of_one_and_wider_than_the_weight(self):
        model = self.base()
        self.expect_merges(model, Adapter(model, ["o_proj"], rank=1))
        os.rename(self.path("merged"), self.path("first"))
        self.expect_merges(model, Adapter(model, ["o_proj"], rank=130))

    def test_every_way_gives_the_same_model(self):
        model = self.base()
        adapter = Adapter(model)
        folder = adapter.save_peft(self.path("adapter"))
        straight = self.merge(folder, "merged")
        nxd = ["--tp", "4", "--kv-multiplier", "2", "--qkv", "fused", "--hw", "trn1"]
        ways = {"nxd": nxd, "rollout": ["--tp", "4", "--fused-qkv"], "torch": []}
        for kind, options in ways.items():
            # Merged during the conversion, and merged from an earlier conversion.
            self.run_it("--from", "hf", "--to", kind, *options, "--merge-lora", folder, "--verify",
                        self.path("base"), self.path(f"out-{kind}"))
            back = ["--from", kind, "--to", "hf", "--config", self.path("base", "config.json")]
            hardware = ["--hw", "trn1"] if kind == "nxd" else []
            self.run_it(*back, *hardware, self.path(f"out-{kind}"), self.path(f"hf-{kind}"))
            self.run_it("--from", "hf", "--to", kind, *options, self.path("base"),
                        self.path(f"plain-{kind}"))
            self.run_it(*back, *hardware, "--merge-lora", folder, self.path(f"plain-{kind}"),
                        self.path(f"late-{kind}"))
            for name in (f"hf-{kind}", f"late-{kind}"):
                self.expect_equal(load_file(self.path(name, "model.safetensors")), straight)


class NxdAdapters(Case):
    SHARED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))

    def test_shards_are_merged(self):
        model = self.base()
        for number, (tp, style, hardware, m) in enumerate(
                [(1, "linear", "trn1", 1), (2, "linear", "trn1", 1), (4, "linear", "trn1", 2),
                 (4, "fused", "trn1", 2), (4, "linear", "trn2", 2), (4, "fused", "trn2", 2),
                 (2, "separate", "trn1", 1)]):
            with self.subTest(tp=tp, style=style, hardware=hardware, m=m):
                adapter = Adapter(model, seed=number, shared=self.SHARED)
                folder = adapter.save_nxd(self.path(f"lora{number}"), LLAMA, tp, style, hardware, m,
                                          embed=number % 2 == 0)
                # With an NxD set as output the hardware is the output's; here it is the adapter's.
                self.run_it("--from", "hf", "--to", "nxd", "--tp", "1", "--hw", hardware,
                            "--merge-lora", folder, self.path("base"), self.path(f"set{number}"))
                self.run_it("--from", "nxd", "--to", "hf", "--config",
                            self.path("base", "config.json"), self.path(f"set{number}"),
                            self.path(f"merged{number}"))
                self.expect_equal(
                    load_file(self.path(f"merged{number}", "model.safetensors")),
                    {name: tensor.bfloat16() for name, tensor in adapter.merged(model).items()})

    def test_to_peft_and_back(self):
        model = self.base()
        config = ["--config", self.path("base", "config.json")]
        for number, (tp, style, m) in enumerate([(2, "linear", 1), (4, "fused", 2)]):
            adapter = Adapter(model, seed=number, shared=self.SHARED, use_rslora=True)
            folder = adapter.save_nxd(self.path(f"lora{number}"), LLAMA, tp, style, "trn1", m)
            self.run_it("--from", "nxd", "--to", "hf", "--hw", "trn1", "--verify", *config, folder,
                        self.path(f"peft{number}"))
            expected = load_file(os.path.join(adapter.save_peft(self.path(f"own{number}")),
                                              "adapter_model.safetensors"))
            self.expect_equal(
                load_file(self.path(f"peft{number}", "adapter_model.safetensors")), expected)
            with open(self.path(f"peft{number}", "adapter_config.json"), encoding="ascii") as file:
                written = json.load(file)
            self.assertEqual(sorted(written["target_modules"]), sorted(LINEAR))
            self.assertEqual((written["r"], written["lora_alpha"], written["use_rslora"]),
                             (4, 6, True))
            # Converting back gives the shards that were trained.
            self.run_it("--from", "hf", "--to", "nxd", "--tp", str(tp), "--qkv", style,
                        "--kv-multiplier", str(m), "--hw", "trn1", "--verify", *config,
                        self.path(f"peft{number}"), self.path(f"back{number}"))
            for t in range(tp):
                state = torch.load(self.path(f"back{number}", "model", NXD.v2_name(t)),
                                   weights_only=True)
                found = state.pop("lora_config")
                self.assertEqual((found["lora_rank"], found["lora_alpha"], found["use_rslora"]),
                                 (4, 6, True))
                self.assertEqual(sorted(found["target_modules"]),
                                 ["down_proj", "gate_up_proj", "o_proj", "qkv_proj"])
                own = adapter.nxd_shard(LLAMA, tp, t, style, "trn1", m)
                self.assertEqual(list(state), list(own))
                self.expect_equal(state, own)

    def test_queries_and_values_alone_leave_keys_at_zero(self):
        model = self.base()
        adapter = Adapter(model, ["q_proj", "v_proj"], shared=self.SHARED, dtype=torch.bfloat16)
        config = ["--config", self.path("base", "config.json")]
        self.run_it("--from", "hf", "--to", "nxd", "--tp", "2", "--qkv", "linear", "--verify",
                    *config, adapter.save_peft(self.path("adapter")), self.path("set"))
        state = torch.load(self.path("set", "model", NXD.v2_name(1)), weights_only=True)
        keys = state["model.layers.0.self_attn.qkv_proj.lora_B.weight_k"]
        self.assertTrue(torch.equal(keys, torch.zeros(6, 4)))
        self.run_it("--from", "hf", "--to", "hf", "--merge-lora", self.path("set"),
                    self.path("base"), self.path("merged"))
        self.expect_equal(load_file(self.path("merged", "model.safetensors")),
                          {name: tensor.bfloat16()
                           for name, tensor in adapter.merged(model).items()})

    def test_an_a_of_each_projection_has_no_form_in_nxd(self):
        model = self.base()
        adapter = Adapter(model, ["q_proj", "v_proj"])
        error = self.run_it("--from", "hf", "--to", "nxd", "--tp", "2", "--qkv", "linear",
                            "--config", self.path("base", "config.json"),
                            adapter.save_peft(self.path("adapter")), self.path("set"), code=4)
        self.assertIn("v_proj.lora_A.weight: NxD has one A for q, k and v", error)

    def test_gathered_shards_are_refused(self):
        model = self.base()
        for number, (targets, style) in enumerate(
                [(self.SHARED[0], "separate"), (self.SHARED[0], "linear"),
                 (self.SHARED[0], "fused"), (["gate_proj", "up_proj"], "linear"),
                 (["o_proj"], "linear"), (["down_proj"], "linear")]):
            with self.subTest(targets=targets, style=style):
                adapter = Adapter(model, targets, shared=self.SHARED)
                folder = adapter.save_nxd(self.path(f"lora{number}"), LLAMA, 1, style)
                one = os.path.join(folder, "lora", "model", NXD.v2_name(0))
                state = torch.load(one, weights_only=True)
                NXD.save(state, os.path.join(folder, "lora", "model", NXD.v2_name(1)))
                error = self.run_it("--from", "hf", "--to", "hf", "--merge-lora", folder,
                                    self.path("base"), self.path("merged"), code=4)
                self.assertIn("merge_sharded_lora", error)


if __name__ == "__main__":
    interop.main()
