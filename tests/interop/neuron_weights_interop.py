"""The worker extension for vLLM Neuron against what ckpt-digest predicts, on torch.

A stand-in has the shape of vLLM's worker, and a model with the parameters of vLLM Neuron's (neuron_model.py): the engine
itself needs a device and is not run. tests/vllm has the extension in the workers of the real vLLM.

Usage: python neuron_weights_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import collections
import json
import os
import random
import sys
import types
import unittest

import torch

import interop
import neuron_interop
import neuron_model

sys.path.insert(0, os.path.join(interop.SOURCE, "trainer", "configs", "engines"))
import neuron_weights  # noqa: E402


class Worker(neuron_weights.Extension):
    """A rank of vLLM, as far as the extension looks at it; vLLM puts the extension among the worker's bases."""

    def __init__(self, model, rank, tp):
        self.rank = rank
        self.model_runner = types.SimpleNamespace(model=model)
        parallel = types.SimpleNamespace(data_parallel_index=0, data_parallel_rank=0, tensor_parallel_size=tp)
        self.vllm_config = types.SimpleNamespace(parallel_config=parallel)


def workers_of(folder, config):
    return [Worker(neuron_model.NeuronModel(folder, config, rank), rank, config.N) for rank in range(config.N)]


def digests_of(workers):
    return {key: digest for worker in workers for key, digest in worker.compute_weight_checksums().items()}


def different(found, expected):
    return sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))


class Extension(neuron_interop.Drawn):
    def predicted(self, folder, config):
        done = neuron_interop.run("ckpt-digest", "--json", "-q", "--as", "vllm-neuron", "--tp", str(config.N),
                                  "--ep", str(config.P), "--dtype", config.dtype, folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(done.stdout)["checksums"]

    @staticmethod
    def config(draw):
        """A drawn configuration that has a layout, without attention data parallelism."""
        while True:
            config = neuron_interop.Config(draw)
            config.A, config.dtype = 1, "bfloat16"
            if not neuron_interop.Loader.refuses(config):
                return config

    def model(self, seed):
        config = self.config(random.Random(seed))
        return config, self.make(seed, config)[0]

    def models(self, seed, count):
        draw = random.Random(seed)
        for number in range(count):
            config = self.config(draw)
            with self.subTest(number=number, config=str(config)):
                yield number, config, self.make(number, config)[0]

    def test_digests_are_those_that_are_predicted(self):
        seen = collections.Counter()
        for _, config, folder in self.models(1, 40):
            found = digests_of(workers_of(folder, config))
            self.assertEqual(different(found, self.predicted(folder, config)), [])
            seen.update([config.family, "tied" if config.tied else "untied", "one" if config.N == 1 else "many"])
        for kind in ("llama", "qwen3", "qwen3_moe", "tied", "many"):
            self.assertGreater(seen[kind], 3, kind)

    def test_a_parameter_that_is_changed_is_found_by_its_name(self):
        draw = random.Random(2)
        for _, config, folder in self.models(3, 10):
            workers = workers_of(folder, config)
            worker = draw.choice(workers)
            name, tensor = draw.choice(list(worker.model_runner.model.named_parameters()))
            bits = tensor.data.view(torch.int32 if tensor.dtype == torch.float32 else torch.int16).view(-1)
            bits[draw.randrange(len(bits))] ^= 1
            self.assertEqual(different(digests_of(workers), self.predicted(folder, config)),
                             [f"dp0:tp{worker.rank}:{name}"])

    def test_a_model_that_torch_compile_has_wrapped_keeps_its_names(self):
        config, folder = self.model(4)
        workers = workers_of(folder, config)
        for worker in workers:
            worker.model_runner.model = torch.compile(worker.model_runner.model)
        self.assertEqual(different(digests_of(workers), self.predicted(folder, config)), [])

    def test_a_reload_in_place_writes_over_the_parameters_that_are_there(self):
        for number, config, folder in self.models(5, 10):
            workers = workers_of(folder, config)
            other, _ = self.make(100 + number, config)
            for worker in workers:
                held = dict(worker.model_runner.model.named_parameters())
                places = {name: tensor.data_ptr() for name, tensor in held.items()}
                self.assertEqual(worker.reload_in_place_experiment(other), len(held))
                for name, tensor in worker.model_runner.model.named_parameters():
                    self.assertIs(tensor, held[name], name)
                    self.assertEqual(tensor.data_ptr(), places[name], name)
            self.assertEqual(different(digests_of(workers), self.predicted(other, config)), [])

    def test_a_reload_in_place_that_lacks_a_parameter_changes_nothing(self):
        config, folder = self.model(6)
        workers = workers_of(folder, config)
        model = workers[0].model_runner.model
        model.add("model.layers.0.self_attn.extra_weight", torch.zeros(3, dtype=torch.bfloat16))
        before = digests_of(workers)
        other, _ = self.make(101, config)
        with self.assertRaisesRegex(RuntimeError, "does not fill model.layers.0.self_attn.extra_weight"):
            workers[0].reload_in_place_experiment(other)
        self.assertEqual(different(digests_of(workers), before), [])

    def test_a_reload_in_place_of_other_sizes_changes_nothing(self):
        config, folder = self.model(7)
        workers = workers_of(folder, config)
        model = workers[0].model_runner.model
        model.model.norm.weight = torch.nn.Parameter(torch.zeros(config.H + 1, dtype=torch.bfloat16), requires_grad=False)
        before = digests_of(workers)
        other, _ = self.make(101, config)
        with self.assertRaisesRegex(RuntimeError, r"makes model.norm.weight \[\d+\], the engine has \[\d+\]"):
            workers[0].reload_in_place_experiment(other)
        self.assertEqual(different(digests_of(workers), before), [])

    def test_a_write_that_does_not_arrive_is_found_by_its_name(self):
        config, folder = self.model(8)
        worker = workers_of(folder, config)[0]
        other, _ = self.make(101, config)
        norm = worker.model_runner.model.model.norm.weight
        norm.copy_ = lambda tensor: norm  # like memory of which a runtime keeps a copy
        with torch.no_grad():
            norm.zero_()
        with self.assertRaisesRegex(RuntimeError, "model.norm.weight does not hold what was written over it"):
            worker.reload_in_place_experiment(other)


if __name__ == "__main__":
    interop.main()
