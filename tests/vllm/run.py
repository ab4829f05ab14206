#!/usr/bin/env python3
"""The readers, checks and training for vLLM with the real server. See install.sh next to this file.

run.py TOOLS PROBE [PART...]: the folder of the commands, engine_probe, and parts, by default all.
Exit 77, with the reason, where NXDKIT_VLLM names no server.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
ENGINES = HERE.parents[1] / "trainer/configs/engines"
VERSION = "0.32.0"
START_SECONDS = 300
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    "max_position_embeddings": 1024, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False,
}
MIXTRAL = CONFIG | {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "tie_word_embeddings": False,
    "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None,
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, process, url):
        self.process, self.url = process, url

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=120) as answer:
            return json.loads(answer.read())

    def reload(self, folder):
        call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        return self.post("/collective_rpc", call)[0]


@contextlib.contextmanager
def serve(model, log, *options, shown=True, defaults=False, length=256, **environment):
    """A server of `model` with its weights as they were loaded (`shown`), or as its kernels left them."""
    port = free_port()
    command = [os.environ["NXDKIT_VLLM"], "serve", str(model), "--host", "127.0.0.1", "--port", str(port),
               "--dtype", "bfloat16", "--max-model-len", str(length), "--max-num-seqs", "16", "--enforce-eager",
               "--skip-tokenizer-init", "--shutdown-timeout", "20", *options]
    if not defaults:
        command += ["--generation-config", "vllm"]
    if shown:
        command += ["--worker-extension-cls", "shown_weights.Extension"]
    variables = os.environ | {
        "PYTHONPATH": str(ENGINES), "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"} | environment
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=variables)
    server = Server(process, f"http://127.0.0.1:{port}")
    try:
        for _ in range(START_SECONDS):
            if process.poll() is not None:
                raise RuntimeError(f"the server ended: {pathlib.Path(log).read_text()[-3000:]}")
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(server.url + "/health", timeout=5):
                    break
            time.sleep(1)
        else:
            raise RuntimeError(f"no /health in {START_SECONDS} s")
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


PARTS = ("dense", "two_ranks", "experts", "stock", "surprises", "agreement", "train", "tampered", "offline", "neuron_served", "neuron_offline")


class Suite:
    def __init__(self, tools, probe, work):
        self.tools, self.probe, self.work = pathlib.Path(tools), probe, pathlib.Path(work)
        self.checks = 0

    def run(self, tool, *arguments, code=0):
        done = subprocess.run([self.tools / tool, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == code, f"{tool} {arguments}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
        self.checks += 1
        return done.stdout + done.stderr

    def model(self, name, config, seed=1):
        (self.work / "config.json").write_text(json.dumps(config))
        path = self.work / name
        self.run("nxdkit-make-model", "-q", "--config", self.work / "config.json", "--seed", seed, "--out", path)
        return path

    def verify(self, model, server, code=0):
        return json.loads(self.run("ckpt-verify", "--json", "--engine", server.url, model, code=code).splitlines()[0])

    def expect(self, good, what):
        assert good, what
        self.checks += 1

    def log(self, name):
        return self.work / f"{name}.log"

    def without(self, model, *names):
        """A copy of a model that lacks these tensors."""
        path = self.work / "lacking"
        shutil.copytree(model, path)
        file = path / "model.safetensors"
        raw = file.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header, data, out = json.loads(raw[8:8 + size]), raw[8 + size:], b""
        kept = {}
        for name, entry in header.items():
            if name in names or name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            kept[name] = entry | {"data_offsets": [len(out), len(out) + end - begin]}
            out += data[begin:end]
        text = json.dumps(kept).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + out)
        return path

    def dense(self):
        first, second = self.work / "first", self.model("second", CONFIG, seed=2)
        shards = self.work / "shards"
        self.run("nxd-convert", "-q", "--from", "hf", "--to", "nxd", "--tp", "2", second, shards)
        lacking = self.without(second, "model.norm.weight", "model.layers.1.self_attn.k_proj.weight")
        with serve(first, self.log("dense")) as server:
            found = self.verify(first, server)["engine"]
            self.expect((found["version"], found["compared"], found["not_covered"]) == (VERSION, 18, 0), found)
            self.expect(len(self.verify(second, server, code=1)["findings"]) == 18, "other weights pass")
            self.expect(server.reload(second) == 200, "reload")
            self.verify(second, server)
            self.verify(shards, server)
            self.expect(server.reload(first) == 200, "reload")
            self.expect(server.reload(lacking) == 200, "a reload that lacks tensors is answered with 200")
            wrong = {finding["tensor"] for finding in self.verify(second, server, code=1)["findings"]}
            self.expect(wrong == {"model.norm.weight", "model.layers.1.self_attn.qkv_proj.weight"}, wrong)
            self.expect(server.post("/weight_checker", {"action": "reset"})[0] == 200, "reset")
            self.expect(len(self.verify(second, server, code=1)["findings"]) > 0, "zeros pass")
            self.expect(server.reload(self.work / "nowhere") == 500, "a path that is not there")
            self.expect("the server answers 500" in self.run(
                "ckpt-verify", "--engine", server.url, second, code=5), "weights are gone")

    def two_ranks(self):
        model = self.work / "first"
        with serve(model, self.log("two"), "-tp", "2", VLLM_CPU_OMP_THREADS_BIND="0|1") as server:
            found = self.verify(model, server)["engine"]
            self.expect((found["tp"], found["compared"]) == (2, 36), found)
            said = json.loads(self.run("ckpt-digest", "--as", "vllm", "--tp", "2", "--json", model))
            same = server.post("/weight_checker", {"action": "compare", "baseline": said["checksums"]})
            self.expect(same == (200, {"match": True, "mismatches": []}), same)

    def experts(self):
        model = self.model("mixtral", MIXTRAL)
        with serve(model, self.log("mixtral")) as server:
            found = self.verify(model, server)["engine"]
            self.expect(found["not_covered"] == 0, found)

    def stock(self):
        """Without the extension: what its kernels pack, on machines where they do, is not covered and said to be."""
        model = self.work / "first"
        with serve(model, self.log("stock"), shown=False) as server:
            answer = self.verify(model, server)
            found = answer["engine"]
            self.expect(found["compared"] > 0 and found["compared"] + found["not_covered"] == 18, found)
            said = any("cannot be compared" in warning for warning in answer["warnings"])
            self.expect(said == (found["not_covered"] > 0), answer["warnings"])
            print(f"stock: {found['not_covered']} of 18 parameters are packed on this machine")

    def generate(self, server, ids, **sampling):
        """Token ids, log-probabilities and the version of the weights, at temperature 0 unless it is said."""
        body = {"token_ids": ids, "sampling_params": {
            "n": 1, "temperature": 0, "top_p": 1, "top_k": -1, "max_tokens": 8, "logprobs": 1, "ignore_eos": True,
            "detokenize": False} | sampling}
        status, answer = server.post("/inference/v1/generate", body)
        if status != 200:
            return status
        choice = answer["choices"][0]
        return choice["token_ids"], choice["logprobs"]["content"], choice["weight_versions"]

    def surprises(self):
        """Surprising behaviour of this version: the trainer is built for each case."""
        model, other = self.work / "first", self.steep("other", seed=5)
        (model / "generation_config.json").write_text(json.dumps({"temperature": 0.0, "max_new_tokens": 2, "top_k": 1}))
        wrong = self.work / "wrong"
        shutil.copytree(self.model("wide", CONFIG | {"intermediate_size": 256}), wrong)
        prompt = list(range(10, 150))
        with serve(model, self.log("surprises"), "--enable-scale-out") as server:
            drawn = [self.generate(server, ids, temperature=1, seed=7)[0] for ids in ([5], [6])]
            self.expect(len(set(map(tuple, drawn))) == 1, f"equal seeds draw alike, whatever the prompt: {drawn}")
            self.generate(server, prompt)
            self.expect(server.reload(other) == 200, "reload")
            stale = self.generate(server, prompt)
            self.expect(server.post("/reset_prefix_cache", {})[0] == 200, "reset")
            fresh = self.generate(server, prompt)
            gap = max(abs(a["logprob"] - b["logprob"]) for a, b in zip(stale[1], fresh[1]))
            self.expect(stale[0] != fresh[0] or gap > 1e-3, "a cached prompt keeps the old weights' keys")
            self.expect(fresh[2][0]["version"] == "default", "a reload sets no version")
            self.expect(server.reload(wrong) == 500, "wrong shapes")
        with serve(model, self.log("vocabulary"), "--enable-scale-out", defaults=True) as server:
            body = {"token_ids": [5], "sampling_params": {"detokenize": False}}
            said = server.post("/inference/v1/generate", body)[1]["choices"][0]["token_ids"]
            self.expect(len(said) == 2, "a server takes max_tokens from generation_config.json")
            self.expect(len(self.generate(server, [5])[0]) == 8, "what is said wins")
            said = self.generate(server, [1000])
            self.expect(len(said[0]) == 8, "an id beyond the vocabulary, but in its padding to 1024, goes unnoticed")
            said = self.generate(server, [1024])
            self.expect(said == 500, f"an id beyond the padding: {said}")
            server.process.wait(timeout=60)  # it kills the engine
            self.expect(server.process.returncode is not None, "the server is gone")
        (model / "generation_config.json").unlink()

    def steep(self, name, dtype="bfloat16", seed=3):
        """A model whose distributions are not flat: matrices eight times as large."""
        path = self.model(name, CONFIG | {"torch_dtype": dtype}, seed)
        python = pathlib.Path(os.environ["NXDKIT_VLLM"]).parent / "python"
        enlarge = ("import sys; from safetensors.torch import load_file, save_file; f = sys.argv[1]; "
                   "t = load_file(f); save_file({n: w * 8 if w.dim() == 2 else w for n, w in t.items()}, f, {'format': 'pt'})")
        subprocess.run([python, "-c", enlarge, path / "model.safetensors"], check=True)
        return path

    def agreement(self):
        """Greedy tokens of both engines on the same weights, for 200 prompts, and their log-probabilities."""
        prompts = [[(7 * p + 13 * i + i * i * p) % 1000 for i in range(3 + p % 40)] for p in range(200)]
        # The noise of a log-probability, and of the difference of two: bf16 has 8 bits, and these models' largest
        # logits are up to 10.
        for dtype, word, noise in (("bfloat16", "bf16", 0.03), ("float32", "f32", 1e-3)):
            model, bundle = self.steep(f"steep-{word}", dtype), self.work / f"bundle-{word}"
            self.run("neuron-export", "-q", "--target", "cpu", "--tp", "1", "--bs", "16", "--seq", "256", "--dtype", word,
                     model, bundle)
            lines = "".join(json.dumps({"token_ids": ids, "max_tokens": 16}) + "\n" for ids in prompts)
            done = subprocess.run([self.probe, bundle], input=lines, capture_output=True, text=True, check=True)
            ours = [json.loads(line) for line in done.stdout.splitlines()]
            with serve(model, self.log(f"agreement-{word}"), "--enable-scale-out", "--dtype", dtype) as server:
                theirs = [self.generate(server, ids, max_tokens=16, logprobs=2) for ids in prompts]
            same, close, worst = 0, 0, 0.0
            for own, (ids, numbers, _) in zip(ours, theirs):
                for at, (a, b) in enumerate(zip(own["token_ids"], ids)):
                    if a != b:
                        best, second = sorted((t["logprob"] for t in numbers[at]["top_logprobs"]), reverse=True)[:2]
                        self.expect(best - second <= noise, f"{word}: {a} and {b}, {best - second} apart")
                        close += 1
                        break  # the rest follows other tokens
                    same += 1
                    worst = max(worst, abs(own["logprobs"][at] - numbers[at]["logprob"]))
            self.expect(worst <= noise, f"{word}: log-probabilities {worst} apart")
            print(f"agreement, {word}: {same} tokens alike, {close} ties within {noise}, log-probabilities {worst:.2g} apart")

    def arithmetic(self):
        folder = self.work / "arithmetic"
        if not folder.exists():
            script = ENGINES.parent / "arithmetic.sh"
            subprocess.run(["bash", script, "--build", self.tools.parent, folder], check=True, stdout=subprocess.DEVNULL)
        return folder

    def command(self, extension="shown_weights"):
        return (f"env PYTHONPATH={ENGINES}:{HERE} VLLM_CPU_KVCACHE_SPACE=1 {os.environ['NXDKIT_VLLM']} serve {{model}} "
                "--host 127.0.0.1 --port {port} --dtype {dtype} --max-model-len {max_model_len} --max-num-seqs {max_num_seqs} "
                "--skip-tokenizer-init --enable-scale-out --generation-config vllm --shutdown-timeout 20 "
                f"--enforce-eager --worker-extension-cls {extension}.Extension")

    def grpo(self, run, *keys, code=0):
        folder = self.arithmetic()
        said = self.run("grpo-train", "--config", ENGINES.parent / "arithmetic_vllm.yaml",
                        f"data.train_files={folder}/data@train", f"data.val_files={folder}/data@test",
                        f"worker.actor.model.model_path={folder}/model_vllm", f"trainer.save_checkpoint_path={run}",
                        *keys, code=code)
        syncs = run / "weight_syncs.jsonl"
        return said, [json.loads(line) for line in syncs.read_text().splitlines()] if syncs.exists() else []

    def train(self):
        """A server that the run starts; the reward rises, and every sync is proved whole."""
        run = self.work / "run"
        _, syncs = self.grpo(run, f"worker.rollout.command={self.command()}", "trainer.max_steps=250")
        self.expect(len(syncs) > 250, len(syncs))
        self.expect({(sync["proved"], sync["not_covered"]) for sync in syncs} == {(19, 0)}, syncs[0])
        logs = [json.loads(line) for line in (run / "experiment_log.jsonl").read_text().splitlines()]
        scores = [log["val"]["reward_score"] for log in logs if "val" in log]
        self.expect(scores[0] < 0.1 and scores[-1] > 0.4, scores)
        gaps = [log["rollout"]["log_prob_gap_mean"] for log in logs if "log_prob_gap_mean" in log.get("rollout", {})]
        self.expect(max(gaps) < 0.05, max(gaps))
        left = subprocess.run(["pgrep", "-f", str(self.work / "run")], capture_output=True, text=True).stdout
        self.expect(not left, f"left running: {left}")
        print(f"train: sums right {scores}, largest mean gap {max(gaps):.2g}")

    def tampered(self):
        """Damage in the engine stops the run: with a running server at once, else once a new one has it too."""
        words = self.work / "tampered"
        for what, parameter in (("bit", "model.layers.0.mlp.down_proj.weight"),
                                ("head", "model.layers.0.self_attn.qkv_proj.weight"),
                                ("layer", "model.layers.1.input_layernorm.weight")):
            words.write_text(what)
            # The reload of the first step after an update; before it the weights are the earlier ones.
            with serve(self.arithmetic() / "model_vllm", self.log(what), "--enable-scale-out", "--worker-extension-cls",
                       "tampered.Extension", shown=False, length=32, PYTHONPATH=f"{ENGINES}:{HERE}", TAMPERED=str(words)) as server:
                said, syncs = self.grpo(self.work / f"run-{what}", "worker.rollout.command=null",
                                        f"worker.rollout.url=[{server.url}]", "trainer.max_steps=3",
                                        "trainer.val_before_train=false", code=1)
                self.expect("stale weights: " in said and (what == "layer" or parameter in said), said)
                self.expect(len(syncs) == (1 if what == "layer" else 0), syncs)
                self.expect(server.get("/is_paused")["is_paused"], "it is not resumed")
        words.write_text("bit load")
        os.environ["TAMPERED"] = str(words)
        said, syncs = self.grpo(self.work / "run-load", f"worker.rollout.command=env TAMPERED={words} "
                                + self.command("tampered"), "trainer.max_steps=3", code=1)
        self.expect("stale weights: model.layers.0.mlp.down_proj.weight" in said and not syncs, said)

    def offline(self):
        """The LLM class in a program of engine exec."""
        python = pathlib.Path(os.environ["NXDKIT_VLLM"]).parent / "python"
        program = (f"env PYTHONPATH={ENGINES} VLLM_CPU_KVCACHE_SPACE=1 {python} {ENGINES / 'vllm_offline.py'} "
                   "--max-num-seqs 64 --worker-extension-cls '\"shown_weights.Extension\"'")
        _, syncs = self.grpo(self.work / "run-offline", "worker.rollout.engine=exec", f"worker.rollout.command={program}",
                             "trainer.max_steps=3")
        self.expect({(sync["proved"], sync["not_covered"]) for sync in syncs} == {(19, 0)}, syncs)
        self.expect("vllm 0.32.0 offline" in syncs[0]["engine"], syncs[0])

    def neuron_served(self):
        """The extension in a server's workers answers what is predicted, by /collective_rpc as by /weight_checker."""
        model = self.work / "first"
        with serve(model, self.log("neuron"), "-tp", "2", "--worker-extension-cls", "neuron_shaped.Extension", shown=False,
                   VLLM_CPU_OMP_THREADS_BIND="0|1", PYTHONPATH=self.neuron_path()) as server:
            said = json.loads(self.run("ckpt-digest", "--as", "vllm-neuron", "--tp", "2", "--json", model))["checksums"]
            status, answer = server.post("/collective_rpc", {"method": "compute_weight_checksums"})
            self.expect(status == 200, answer)
            found = {key: digest for rank in answer["results"] for key, digest in rank.items()}
            wrong = sorted(key for key in found.keys() | said.keys() if found.get(key) != said.get(key))
            self.expect(len(said) > 40 and not wrong, wrong)
            same = server.post("/weight_checker", {"action": "compare", "baseline": said})
            self.expect(same == (200, {"match": True, "mismatches": []}), same)

    def neuron_path(self):
        return f"{ENGINES}:{HERE}:{HERE.parent / 'interop'}"

    def neuron_offline(self):
        """A run whose engine is started anew for each sync, proved; one whose weights are damaged; the experiment."""
        python = pathlib.Path(os.environ["NXDKIT_VLLM"]).parent / "python"
        damaged = self.work / "damaged"
        damaged.write_text("")

        def train(name, words="", code=0):
            program = (f"env PYTHONPATH={self.neuron_path()} TAMPERED={damaged} VLLM_CPU_KVCACHE_SPACE=1 {python} "
                       f"{ENGINES / 'vllm_offline.py'} --max-num-seqs 64 --enforce-eager true "
                       f"--worker-extension-cls '\"neuron_shaped.Extension\"' {words}")
            run = self.work / name
            said, syncs = self.grpo(run, "worker.rollout.engine=exec", "worker.rollout.engine_layout=vllm-neuron",
                                    f"worker.rollout.command={program}", "trainer.max_steps=2",
                                    "trainer.val_before_train=false", "trainer.val_freq=-1", code=code)
            log = run / "experiment_log.jsonl"
            lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
            return said, syncs, [line["timing_s"] for line in lines if "sync" in line]

        _, syncs, times = train("run-neuron")
        self.expect({(sync["proved"], sync["not_covered"]) for sync in syncs} == {(21, 0)}, syncs)
        self.expect("sync_stop" not in times[0] and times[1]["sync_stop"] > 0, times)
        self.expect(all(took["sync_start"] > 1 and took["sync_resume"] > 0 for took in times), times)
        print("neuron: a sync takes", {part: f"{took:.2f} s" for part, took in times[1].items() if "sync_" in part})
        _, syncs, times = train("run-in-place", words="--reload-in-place 1")
        self.expect({(sync["proved"], sync["not_covered"]) for sync in syncs} == {(21, 0)}, syncs)
        self.expect("EXPERIMENT" not in syncs[0]["engine"] and "EXPERIMENT" in syncs[-1]["engine"], syncs)
        self.expect("sync_stop" not in times[1] and times[1]["sync_reload"] > 0, times)
        damaged.write_text("model.layers.0.mlp.down_proj_weight")
        said, syncs, _ = train("run-damaged", code=1)
        self.expect("stale weights: model.layers.0.mlp.down_proj_weight: rank 0" in said and not syncs, said)


def main() -> int:
    if not os.environ.get("NXDKIT_VLLM"):
        print("SKIP vllm: set NXDKIT_VLLM to a vllm 0.32 program (tests/vllm/install.sh, 7 GB); "
              "the layout is checked against goldens only")
        return 77
    with tempfile.TemporaryDirectory(prefix="nxdkit-vllm-") as work:
        suite = Suite(sys.argv[1], sys.argv[2], work)
        suite.model("first", CONFIG)
        for name in sys.argv[3:] or PARTS:
            part = getattr(suite, name)
            begun, before = time.monotonic(), suite.checks
            part()
            print(f"{part.__name__}: {suite.checks - before} checks in {time.monotonic() - begun:.0f} s", flush=True)
    print(f"vllm {VERSION}: {suite.checks} checks, all good")
    return 0


sys.exit(main())
