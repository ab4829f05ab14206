#!/usr/bin/env python3
"""ckpt-verify --engine and ckpt-digest --as vllm against the real vLLM server. See install.sh beside this file.

run.py TOOLS [PART...]: the folder of the commands; dense, two_ranks, experts, stock, by default all. Exit 77, with the reason, where NXDKIT_VLLM names no server.
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

    def reload(self, folder):
        call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        return self.post("/collective_rpc", call)[0]


@contextlib.contextmanager
def serve(model, log, *options, shown=True, **environment):
    """A server of `model` with its weights as they were loaded (`shown`), or as its kernels left them."""
    port = free_port()
    command = [os.environ["NXDKIT_VLLM"], "serve", str(model), "--host", "127.0.0.1", "--port", str(port),
               "--dtype", "bfloat16", "--max-model-len", "256", "--max-num-seqs", "4", "--enforce-eager",
               "--skip-tokenizer-init", "--generation-config", "vllm", *options]
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


class Suite:
    def __init__(self, tools, work):
        self.tools, self.work = pathlib.Path(tools), pathlib.Path(work)
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


def main() -> int:
    if not os.environ.get("NXDKIT_VLLM"):
        print("SKIP vllm: set NXDKIT_VLLM to a vllm 0.32 program (tests/vllm/install.sh, 7 GB); "
              "the layout is checked against goldens only")
        return 77
    with tempfile.TemporaryDirectory(prefix="nxdkit-vllm-") as work:
        suite = Suite(sys.argv[1], work)
        suite.model("first", CONFIG)
        for name in sys.argv[2:] or ("dense", "two_ranks", "experts", "stock"):
            part = getattr(suite, name)
            begun, before = time.monotonic(), suite.checks
            part()
            print(f"{part.__name__}: {suite.checks - before} checks in {time.monotonic() - begun:.0f} s", flush=True)
    print(f"vllm {VERSION}: {suite.checks} checks, all good")
    return 0


sys.exit(main())
