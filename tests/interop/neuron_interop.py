"""The loaders' rules of vLLM Neuron and of NKIPy's script, ported to numpy, against ours.

The rules are those of formats/vllm_neuron/FORMAT.md and formats/nkipy/FORMAT.md, which are derived
from sources: neither engine is run. Configurations are drawn, those that must be refused as well.

Usage: python neuron_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import collections
import hashlib
import json
import os
import random
import struct
import subprocess
import tempfile
import unittest

import numpy as np

import interop

CONFIGURATIONS = 200


def read_tensors(path):
    """Name to array of every tensor: BF16 as its 16 bits."""
    kinds = {"BF16": np.uint16, "F32": np.float32, "F16": np.float16}
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(
                entry["shape"])
    return tensors


def write_tensors(path, tensors):
    kinds = {"uint16": "BF16", "float32": "F32", "uint8": "F8_E4M3"}
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": kinds[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def to_bf16(array):
    """Rounded to nearest even; what is BF16 already stays."""
    if array.dtype == np.uint16:
        return array
    bits = array.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_f32(array):
    if array.dtype == np.float32:
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def e4m3_values():
    """The numbers of the codes 0x00 to 0x7e."""
    codes = np.arange(0x7F)
    fraction, exponent = codes & 7, codes >> 3
    return np.where(exponent == 0, fraction * 2.0**-9,
                    (1 + fraction / 8) * 2.0**(exponent.astype(float) - 7))


def rescaled(codes):
    """The loader's FP8 weights on trn2: times 240 / 448, clamped to 240, and rounded to nearest,
    ties to the even code."""
    values = e4m3_values()
    wanted = np.minimum(values[codes & 0x7F] * (240 / 448), 240)
    above = np.searchsorted(values, wanted).clip(1)
    low, high = wanted - values[above - 1], values[above] - wanted
    take_low = (low < high) | ((low == high) & (above % 2 == 1))
    return np.where(take_low, above - 1, above) | (codes & 0x80)


class Config:
    """A drawn configuration, by the letters of the format pages."""

    def __init__(self, draw):
        self.family = draw.choice(["llama", "qwen3", "qwen3_moe"])
        self.moe = self.family == "qwen3_moe"
        self.D = draw.choice([4, 6])
        self.k = draw.choice([1, 2, 3, 4, 6, 8])
        self.q = self.k * draw.choice([1, 2, 3, 4, 8])
        self.H = draw.choice([12, 16, 24])
        self.I = draw.choice([12, 24, 40])
        self.J = draw.choice([8, 12, 24])
        self.V = draw.randint(24, 60)
        self.L = 2
        self.E = draw.choice([2, 3, 4, 6, 8])
        self.tied = not self.moe and draw.random() < 0.4
        self.dtype = draw.choice(["bfloat16", "bfloat16", "float32"])
        even = [n for n in range(1, 13) if self.q % n == 0]
        self.N = draw.choice(even if draw.random() < 0.8 else range(1, 13))
        self.P = draw.choice([1, 1, 2, 3, self.N]) if self.moe or draw.random() < 0.1 else 1
        self.A = draw.choice([1, 1, 1, 2])

    def json(self):
        names = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM",
                 "qwen3_moe": "Qwen3MoeForCausalLM"}
        config = {"model_type": self.family, "architectures": [names[self.family]],
                  "hidden_size": self.H, "intermediate_size": self.I, "num_hidden_layers": self.L,
                  "num_attention_heads": self.q, "num_key_value_heads": self.k,
                  "head_dim": self.D, "vocab_size": self.V, "tie_word_embeddings": self.tied,
                  "torch_dtype": self.dtype}
        if self.moe:
            config.update({"num_experts": self.E, "num_experts_per_tok": 2,
                           "moe_intermediate_size": self.J, "decoder_sparse_step": 1,
                           "mlp_only_layers": []})
        return config

    def __str__(self):
        return " ".join(f"{key}={value}" for key, value in vars(self).items())


def block(array, number, parts):
    """Rows of one of equal parts."""
    rows = array.shape[0] // parts
    return array[number * rows:(number + 1) * rows]


class Loader:
    """The tensors that vLLM Neuron's loader makes from those of a folder for one core."""

    def __init__(self, config, tensors):
        self.c = config
        self.t = {name: to_bf16(array) for name, array in tensors.items()}
        self.stored = tensors

    @staticmethod
    def refuses(c):
        """Sizes that have no layout."""
        if c.q % (c.N * c.A) or c.V < c.N:
            return True
        if c.k > c.N and c.k % c.N:
            return True
        if Loader.short_ranks(c):
            return True
        if not c.moe:
            return c.P > 1 or c.I % c.N != 0
        return c.N % c.P != 0 or c.E < c.P or c.J % (c.N // c.P) != 0

    @staticmethod
    def keys_over_dp(c):
        """Whether attention data parallelism cuts K and V as it does Q."""
        return c.A > 1 and c.k > c.N and c.k % (c.N * c.A) == 0

    @staticmethod
    def key_size(c):
        """Rows of K that the engine's parameter has."""
        if Loader.keys_over_dp(c):
            return c.k // (c.N * c.A) * c.D
        return c.D if c.N >= c.k else c.k // c.N * c.D

    @staticmethod
    def key_rows(c, dp, r):
        """The range that the loader asks for: one past the end is cut short in silence."""
        size = Loader.key_size(c)
        part = dp + r * c.A if Loader.keys_over_dp(c) else r // max(c.N // c.k, 1)
        return slice(part * size, (part + 1) * size)

    @staticmethod
    def short_ranks(c):
        """The ranks whose parameter of a dense model gets too few rows: load_state_dict ends."""
        if c.moe:
            return []
        rows = np.arange(c.k * c.D)
        return [r for r in range(c.N) if len(rows[Loader.key_rows(c, 0, r)]) < Loader.key_size(c)]

    def key_head(self, array, dp, r):
        found = array[self.key_rows(self.c, dp, r)]
        if self.c.moe and not found.size:  # as in the experts' loader
            return np.zeros((self.c.D, self.c.H), np.uint16)
        return found

    def attention(self, layer, dp, r):
        c, t = self.c, self.t
        part, parts = dp + r * c.A, c.N * c.A
        rows = [block(t[layer + "self_attn.q_proj.weight"], part, parts),
                self.key_head(t[layer + "self_attn.k_proj.weight"], dp, r),
                self.key_head(t[layer + "self_attn.v_proj.weight"], dp, r)]
        yield "self_attn.qkv_proj_weight", np.concatenate([row.T for row in rows], axis=1)
        yield "self_attn.o_proj_weight", block(t[layer + "self_attn.o_proj.weight"].T, part, parts)
        if c.family != "llama":
            for name in ("self_attn.q_norm.weight", "self_attn.k_norm.weight"):
                yield name, to_f32(self.stored[layer + name]) if c.moe else t[layer + name]

    def dense(self, layer, r):
        for name in ("gate", "up"):
            part = block(self.t[f"{layer}mlp.{name}_proj.weight"], r, self.c.N)
            yield f"mlp.{name}_proj_weight", part.T
        yield "mlp.down_proj_weight", block(self.t[layer + "mlp.down_proj.weight"].T, r, self.c.N)

    def experts(self, layer, r):
        c, t = self.c, self.t
        T, each = c.N // c.P, c.E // c.P
        here = range(r // T * each, (r // T + 1) * each)
        gate_up, down = [], []
        for e in here:
            name = f"{layer}mlp.experts.{e}."
            gate_up.append(np.concatenate([block(t[name + "gate_proj.weight"], r % T, T).T,
                                           block(t[name + "up_proj.weight"], r % T, T).T], axis=1))
            down.append(block(t[name + "down_proj.weight"].T, r % T, T))
        yield "mlp.experts.gate_up_proj_weight", np.stack(gate_up)
        yield "mlp.experts.down_proj_weight", np.stack(down)
        yield "mlp.experts.router_weight", t[layer + "mlp.gate.weight"]

    def core(self, dp, r):
        c, t = self.c, self.t
        rows = -(-c.V // c.N)
        table = np.zeros((rows * c.N, c.H), np.uint16)
        table[:c.V] = t["model.embed_tokens.weight"]
        yield "model.embed_tokens.weight", block(table, r, c.N)
        for i in range(c.L):
            layer = f"model.layers.{i}."
            for name, array in self.attention(layer, dp, r):
                yield layer + name, array
            mlp = self.experts(layer, r) if c.moe else self.dense(layer, r)
            for name, array in mlp:
                yield layer + name, array
            yield layer + "input_layernorm.weight", t[layer + "input_layernorm.weight"]
            after = "mlp.experts." if c.moe else ""
            yield (f"{layer}{after}post_attention_layernorm.weight",
                   t[layer + "post_attention_layernorm.weight"])
        yield "model.norm.weight", t["model.norm.weight"]
        head = t["model.embed_tokens.weight" if c.tied else "lm_head.weight"]
        yield "lm_head.weight", block(head, r, c.N)

    def digests(self):
        return {f"dp{dp}:tp{r}:{name}":
                    hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
                for dp in range(self.c.A) for r in range(self.c.N)
                for name, array in self.core(dp, r)}


def size_findings(c):
    """(check, parameter, rank, count) of what is wrong with the sizes, by the rules alone."""
    found = []
    if c.q % (c.N * c.A):
        found.append(("heads", None, None, None))
    if c.k % c.N and c.N % c.k:
        found.append(("key heads", None, None, None))
    if c.moe:
        if c.N % c.P:
            found.append(("experts", None, None, None))
        else:
            if c.E % c.P:
                found.append(("experts", None, None, None))
            if c.J % (c.N // c.P):
                found.append(("intermediate", None, None, None))
    else:
        if c.P > 1:
            found.append(("experts", None, None, None))
        if c.I % c.N:
            found.append(("intermediate", None, None, None))
    if c.V < c.N:
        found.append(("vocabulary", None, None, None))
    if Loader.refuses(c):
        return found
    zeros = [r for r in range(c.N) if c.N >= c.k and r // (c.N // c.k) >= c.k]
    for i in range(c.L):
        for name in ("k", "v"):
            if zeros:
                found.append(("zeros", f"model.layers.{i}.self_attn.{name}_proj.weight", zeros[0],
                              len(zeros) * c.A))
        if c.moe and c.E % c.P:
            first = c.E // c.P * c.P
            found.append(("lost", f"model.layers.{i}.mlp.experts.{first}.gate_proj.weight", None,
                          3 * (c.E % c.P)))
    if c.V % c.N:
        found.append(("lost", "lm_head.weight", None, c.V % c.N))
    return found


def damaged(draw, c, tensors):
    """The tensors with one fault, beside tensors of a stale file, and the findings of the fault."""
    tensors = dict(tensors)
    kind = draw.choice(["missing", "ignored", "shape", "fused", "stale"])
    names = sorted(tensors)
    if kind == "missing":
        name = draw.choice(names)
        del tensors[name]
        return tensors, None, [("missing", name, None, 1)]
    if kind == "ignored":
        name = f"model.layers.{draw.randrange(c.L)}.self_attn.q_proj.extra"
        tensors[name] = np.zeros(3, np.uint16)
        return tensors, None, [("ignored", None, None, None)]
    if kind == "shape":
        name = draw.choice(names)
        tensors[name] = tensors[name][:-1].copy()
        return tensors, None, [("shape", None, None, None)]
    if kind == "stale" or not c.moe:
        name = draw.choice(names)
        return tensors, {name: tensors[name], "of.another.save": np.zeros(2, np.uint16)}, [
            ("stale", None, None, 1)]
    layer = f"model.layers.{draw.randrange(c.L)}.mlp.experts."
    gate_up = [np.concatenate([tensors.pop(f"{layer}{e}.gate_proj.weight"),
                               tensors.pop(f"{layer}{e}.up_proj.weight")]) for e in range(c.E)]
    tensors[layer + "gate_up_proj"] = np.stack(gate_up)
    return tensors, None, [("fused", None, None, None)]


def run(name, *arguments):
    return subprocess.run([interop.program(name), *arguments], text=True, capture_output=True,
                          check=False)


class Drawn(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make(self, number, c):
        model = os.path.join(self.folder.name, f"model{number}")
        path = os.path.join(self.folder.name, "config.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(c.json(), file)
        dtype = "f32" if c.dtype == "float32" else "bf16"
        made = run("nxdkit-make-model", "-q", "--config", path, "--dtype", dtype, "--seed",
                   str(number), "--out", model)
        self.assertEqual(made.returncode, 0, f"{c}\n{made.stderr}")
        return model, read_tensors(os.path.join(model, "model.safetensors"))

    def each(self, seed, check, change=lambda config: None):
        """Calls check(draw, number, config, folder, tensors) for each configuration, as changed."""
        draw = random.Random(seed)
        for number in range(CONFIGURATIONS):
            c = Config(draw)
            change(c)
            with self.subTest(number=number, config=str(c)):
                check(draw, number, c, *self.make(number, c))


class Judged(Drawn):
    def sizes(self, c):
        return ["--tp", str(c.N), "--ep", str(c.P), "--attention-dp", str(c.A)]

    def answer(self, c, model, *more):
        found = run("ckpt-verify", "--json", "-q", model, "--for", "vllm-neuron", *self.sizes(c),
                    *more)
        answer = json.loads(found.stdout)
        self.assertIn(found.returncode, (0, 1), found.stdout)
        rows = [(row["check"], row.get("parameter"), row.get("rank"), row.get("count"))
                for row in answer["findings"]]
        self.assertEqual(found.returncode, 1 if rows else 0)
        return rows, answer


class VllmNeuron(Judged):
    def test_digests_are_those_of_the_loader(self):
        seen = collections.Counter()

        def check(_draw, _number, c, model, tensors):
            found = run("ckpt-digest", "--json", "-q", "--as", "vllm-neuron", *self.sizes(c), model)
            if Loader.refuses(c):
                self.assertEqual(found.returncode, 4, found.stdout)
                seen["refused"] += 1
                return
            self.assertEqual(found.returncode, 0, found.stdout)
            self.assertEqual(json.loads(found.stdout)["checksums"], Loader(c, tensors).digests())
            seen["compared"] += 1
            seen["keys over dp"] += Loader.keys_over_dp(c)

        self.each(1, check)
        self.assertGreater(seen["refused"], 20)
        self.assertGreater(seen["compared"], 90)
        self.assertGreater(seen["keys over dp"], 3)

    def judge(self, c, model):
        rows, answer = self.answer(c, model)
        odd = c.q % (c.N * c.A) == 0 and c.q // (c.N * c.A) % 2 == 1
        self.assertEqual(any("the vendor's porting guide" in row for row in answer["warnings"]), odd)
        short = Loader.short_ranks(c)
        if short:
            ranks = f"ranks {short[0]} to {short[-1]}" if short[1:] else f"rank {short[0]}"
            messages = [row["message"] for row in answer["findings"] if row["check"] == "key heads"]
            self.assertRegex(messages[0], f"fails with an error on the shape of .* on {ranks}$")
        return rows, answer["serving"]

    def expect(self, rows, expected):
        self.assertEqual(collections.Counter(rows), collections.Counter(expected))

    def test_findings_are_those_of_the_rules(self):
        kinds = collections.Counter()

        def check(_draw, _number, c, model, tensors):
            rows, serving = self.judge(c, model)
            expected = size_findings(c)
            self.expect(rows, expected)
            kinds.update(row[0] for row in expected)
            if Loader.refuses(c):
                self.assertEqual(serving["parameters"], [])
                return
            core = dict(Loader(c, tensors).core(0, 0))
            words = {"float32": "F32", "uint16": "BF16"}
            self.assertEqual({row["name"]: (row["shape"], row["dtype"])
                              for row in serving["parameters"]},
                             {name: (list(array.shape), words[str(array.dtype)])
                              for name, array in core.items()})
            self.assertEqual(serving["most_bytes"], sum(a.nbytes for a in core.values()))

        self.each(2, check)
        for kind in ("heads", "key heads", "experts", "intermediate", "zeros", "lost"):
            self.assertGreater(kinds[kind], 3, kind)

    def test_findings_of_damaged_folders(self):
        kinds = collections.Counter()

        def check(draw, _number, c, model, tensors):
            tensors, stale, expected = damaged(draw, c, tensors)
            path = os.path.join(model, "model.safetensors")
            os.remove(path)
            write_tensors(os.path.join(model, "model-00001-of-00001.safetensors"), tensors)
            with open(path + ".index.json", "w", encoding="ascii") as file:
                json.dump({"metadata": {}, "weight_map": dict.fromkeys(
                    tensors, "model-00001-of-00001.safetensors")}, file)
            if stale:
                write_tensors(os.path.join(model, "model-00002-of-00002.safetensors"), stale)
            rows, _ = self.judge(c, model)
            self.expect(rows, size_findings(c) + expected)
            kinds.update(row[0] for row in expected)

        self.each(3, check)
        for kind in ("missing", "ignored", "shape", "fused", "stale"):
            self.assertGreater(kinds[kind], 8, kind)


class Fp8(Judged):
    """Folders of ModelOpt, with the faults that the engine's own code looks for."""

    SCALES = [f"self_attn.{name}_proj.{of}_scale" for name in "qkvo" for of in ("weight", "input")]
    SCALES += [f"mlp.{name}_proj.weight_scale" for name in ("gate", "up", "down")]
    SCALES += ["mlp.gate_proj.input_scale", "mlp.down_proj.input_scale"]

    @staticmethod
    def quantised(draw, c, tensors):
        codes = np.random.default_rng(draw.randrange(1 << 30))
        out = {}
        for name, array in tensors.items():
            out[name] = to_bf16(array)
            if name.endswith("_proj.weight"):
                drawn = codes.integers(0, 256, array.shape, np.uint8)
                out[name] = np.where(drawn & 0x7F == 0x7F, 0x7E, drawn).astype(np.uint8)
        for i in range(c.L):
            for name in Fp8.SCALES + ["mlp.up_proj.input_scale"]:
                out[f"model.layers.{i}.{name}"] = np.array(draw.random() + 0.1, np.float32)
            for name in ("q", "k", "v"):  # one of the three
                out[f"model.layers.{i}.self_attn.{name}_proj.input_scale"] = np.array(
                    i + 0.5, np.float32)
            for name in ("k", "v"):
                out[f"model.layers.{i}.self_attn.{name}_scale"] = np.array([2], np.float32)
        return out

    def damage(self, draw, c, tensors, scheme):
        """One fault or none: the check that finds it, and the tensor."""
        layer = f"model.layers.{draw.randrange(c.L)}."
        kind = draw.choice(["none", "missing", "unequal", "several", "nan scale", "nan", "kv rank",
                            "no kv scales", "kv algorithm", "head", "nested"])
        if kind == "missing":
            name = layer + draw.choice(self.SCALES)
            del tensors[name]
            return kind, [("missing", name)]
        if kind == "unequal":
            name = layer + f"self_attn.{draw.choice('kv')}_proj.input_scale"
            tensors[name] = np.array(9, np.float32)
            return kind, [("FP8 scale", name)]
        if kind in ("several", "nan scale"):
            name = layer + draw.choice(self.SCALES)
            tensors[name] = (np.ones(2, np.float32) if kind == "several"
                             else np.array(np.nan, np.float32))
            return kind, [("FP8 scale", name)]
        if kind == "nan":
            name = layer + f"mlp.{draw.choice(['gate', 'up', 'down'])}_proj.weight"
            tensors[name].reshape(-1)[draw.randrange(tensors[name].size)] = 0xFF
            return kind, [("FP8 NaN", name)]
        if kind == "kv rank":
            name = layer + "self_attn.k_scale"
            tensors[name] = tensors[name].reshape(())
            return kind, [("KV scale", name)]
        if kind == "no kv scales":
            for name in [name for name in tensors if name.endswith((".k_scale", ".v_scale"))]:
                del tensors[name]
            return kind, [("KV scale", "")]
        if kind == "kv algorithm":
            scheme["kv_cache_quant_algo"] = draw.choice([None, "NVFP4"])
            return kind, [("quantisation", "")]
        if kind == "head":
            scheme["exclude_modules"] = draw.choice([[], ["model.*"], None])
            return kind, [("quantisation", "")]
        if kind == "nested":
            scheme["quantization"] = {key: scheme.pop(key) for key in list(scheme)}
        return kind, []

    def test_codes_above_240_are_served(self):
        values = e4m3_values()
        codes = np.arange(256)[np.arange(256) & 0x7F != 0x7F]
        made = rescaled(codes)
        self.assertTrue(np.all(values[made & 0x7F] <= 240))
        back = values[made & 0x7F] * (448 / 240)
        normal = values[codes & 0x7F] >= 2.0**-4
        error = np.abs(back - values[codes & 0x7F])[normal] / values[codes & 0x7F][normal]
        self.assertLessEqual(error.max(), 1 / 16)
        self.assertGreater(np.count_nonzero(error > 1e-9), 0.8 * error.size)

    def test_findings_of_fp8_folders(self):
        kinds = collections.Counter()

        def check(draw, _number, c, model, tensors):
            if Loader.refuses(c):
                return
            tensors = self.quantised(draw, c, tensors)
            scheme = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
                      "exclude_modules": draw.choice([["lm_head"], ["lm_*", "x"]])}
            kind, expected = self.damage(draw, c, tensors, scheme)
            kinds[kind] += 1
            scheme["quant_method"] = "modelopt"
            write_tensors(os.path.join(model, "model.safetensors"), tensors)
            with open(os.path.join(model, "config.json"), "w", encoding="ascii") as file:
                json.dump({**c.json(), "quantization_config": scheme}, file)
            over = sum(np.count_nonzero((array & 0x7F > 0x77) & (array & 0x7F < 0x7F))
                       for array in tensors.values() if array.dtype == np.uint8)
            for target in ("trn2", "trn3"):
                _, answer = self.answer(c, model, "--target", target)
                self.assertEqual([(row["check"], row.get("tensor") or "")
                                  for row in answer["findings"]], expected, kind)
                told = [row for row in answer["warnings"] if "rescales on trn2" in row]
                refused = expected and expected[0][0] == "quantisation"
                self.assertEqual(len(told), target == "trn2" and not refused)
                if told:
                    self.assertIn(f"; {over} codes above 240", told[0])

        def dense(c):
            c.family, c.moe, c.P, c.V = "llama", False, 1, 4 * c.N

        self.each(5, check, dense)
        self.assertEqual(len(kinds), 11)
        self.assertGreater(min(kinds.values()), 3)


class Nkipy(Drawn):
    @staticmethod
    def refuses(c, columns):
        dims = [c.q, c.V, c.J if c.moe else c.I] + ([c.H] if columns else [])
        return any(dim % c.N for dim in dims) or (c.k % c.N != 0 and c.N % c.k != 0)

    @staticmethod
    def cut(array, dim, r, n):
        """The script's rule: what does not divide is taken whole."""
        if array.shape[dim] % n:
            return array
        return np.split(array, n, axis=dim)[r]

    def keys(self, c, array, r):
        if c.k * c.D // c.N < c.D:
            head = c.k * r // c.N
            return array[head * c.D:(head + 1) * c.D]
        return self.cut(array, 0, r, c.N)

    def rank(self, c, t, r, columns):
        n = c.N
        table = t["model.embed_tokens.weight"]
        yield "tok_embedding", self.cut(table, 1, r, n) if columns else table
        yield "lm_head_weight", self.cut(table if c.tied else t["lm_head.weight"], 0, r, n).T
        yield "norm_weight", t["model.norm.weight"]
        for i in range(c.L):
            layer, out = f"model.layers.{i}.", f"layers.{i}."
            attention = layer + "self_attn."
            yield out + "qkv_weight", np.concatenate([
                self.cut(t[attention + "q_proj.weight"], 0, r, n),
                self.keys(c, t[attention + "k_proj.weight"], r),
                self.keys(c, t[attention + "v_proj.weight"], r)]).T
            yield out + "o_weight", self.cut(t[attention + "o_proj.weight"], 1, r, n).T
            yield out + "input_weight", t[layer + "input_layernorm.weight"]
            yield out + "post_attention_weight", t[layer + "post_attention_layernorm.weight"]
            if c.family != "llama":
                yield out + "q_norm_weight", t[attention + "q_norm.weight"]
                yield out + "k_norm_weight", t[attention + "k_norm.weight"]
            if c.moe:
                yield out + "router_weight", t[layer + "mlp.gate.weight"].T
            modules = ([f"{layer}mlp.experts.{e}." for e in range(c.E)] if c.moe
                       else [layer + "mlp."])
            gate_up = [np.concatenate([self.cut(t[module + "gate_proj.weight"], 0, r, n),
                                       self.cut(t[module + "up_proj.weight"], 0, r, n)]).T
                       for module in modules]
            down = [self.cut(t[module + "down_proj.weight"], 1, r, n).T for module in modules]
            yield out + "gate_up_weight", np.stack(gate_up) if c.moe else gate_up[0]
            yield out + "down_weight", np.stack(down) if c.moe else down[0]

    def test_rank_files_are_those_of_the_script(self):
        seen = collections.Counter()

        def check(draw, number, c, model, tensors):
            out = os.path.join(self.folder.name, f"out{number}")
            columns = draw.random() < 0.7
            word = "columns" if columns else "whole"
            done = run("nxd-convert", "-q", "--no-sync", "--to", "nkipy", "--dtype", "bf16", "--tp",
                       str(c.N), "--tok-embedding", word, model, out)
            if self.refuses(c, columns):
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertFalse(os.path.exists(out))
                seen["refused"] += 1
                return
            self.assertEqual(done.returncode, 0, done.stderr)
            t = {name: to_bf16(array) for name, array in tensors.items()}
            for r in range(c.N):
                found = read_tensors(os.path.join(out, f"shard_{r}.safetensors"))
                expected = dict(self.rank(c, t, r, columns))
                self.assertEqual(sorted(found), sorted(expected))
                for name, array in expected.items():
                    self.assertEqual(found[name].shape, array.shape, f"rank {r}: {name}")
                    self.assertTrue(np.array_equal(found[name], array), f"rank {r}: {name}")
            self.assertEqual(run("ckpt-verify", "-q", out).returncode, 0)
            if c.dtype == "bfloat16":
                self.assertEqual(run("ckpt-digest", "-q", out).stdout,
                                 run("ckpt-digest", "-q", model).stdout)
            seen["compared"] += 1

        self.each(4, check)
        self.assertGreater(seen["refused"], 20)
        self.assertGreater(seen["compared"], 40)


if __name__ == "__main__":
    interop.main()
