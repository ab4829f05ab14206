#!/usr/bin/env python3
"""rollout_vllm.py BUILD [THREADS]: new tokens per second, prompts included, of our engine and of a real vLLM server.

The same llama of 48 M parameters, bf16, threads and lengths, in turn in one run; the best of three rounds of each.
NXDKIT_VLLM names the vllm program (tests/vllm/install.sh). The server has no worker extension: its kernels pack.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SHAPES = ((16, 64, 64), (32, 256, 256), (4, 256, 512))  # sequences, prompt, new
VOCABULARY = 16384
build = pathlib.Path(sys.argv[1])
threads = sys.argv[2] if len(sys.argv) > 2 else "2"


def ours(folder, rows, prompt, new):
    best = 0
    for turn in range(3):
        model = folder / f"{rows}-{prompt}-{turn}"
        said = subprocess.run([build / "bench/rollout_bench", "--bf16", "--threads", threads, "--bs", str(rows), "--prompt",
                               str(prompt), "--new", str(new), "--folder", model], capture_output=True, text=True, check=True)
        best = max(best, int(re.search(r"generate: (\d+) new tokens/s", said.stdout)[1]))
    return best, model / "model"


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read() or b"null")


@contextlib.contextmanager
def serve(model, rows, length):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [os.environ["NXDKIT_VLLM"], "serve", model, "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16",
               "--max-model-len", str(length), "--max-num-seqs", str(rows), "--skip-tokenizer-init", "--enable-scale-out",
               "--generation-config", "vllm", "--shutdown-timeout", "20", "--no-enable-prefix-caching", "--enforce-eager",
               # A seeded request whose prompt is read in pieces crashes a server on CPUs (0.32).
               "--no-enable-chunked-prefill"]
    environment = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
                                "VLLM_CPU_OMP_THREADS_BIND": f"0-{int(threads) - 1}"}
    log = open(pathlib.Path(model).parent / "server.log", "w")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if process.poll() is not None:
                sys.exit("the server ended")
            with contextlib.suppress(OSError):
                urllib.request.urlopen(url + "/health", timeout=5).close()
                break
            time.sleep(1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def theirs(model, rows, prompt, new):
    with serve(model, rows, prompt + new) as url, concurrent.futures.ThreadPoolExecutor(rows) as pool:
        def one(number, seed):
            ids = [(number * 977 + t * 31 + 5) % VOCABULARY for t in range(prompt)]
            body = {"token_ids": ids, "sampling_params": {
                "n": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": seed, "max_tokens": new, "logprobs": 0,
                "ignore_eos": True, "detokenize": False}}
            return len(post(url, "/inference/v1/generate", body)["choices"][0]["token_ids"])

        best = 0.0
        for turn in range(4):  # the first compiles
            start = time.perf_counter()
            made = sum(pool.map(one, range(rows), range(1000 * turn, 1000 * turn + rows)))
            took = time.perf_counter() - start
            assert made == rows * new, made
            best = max(best, made / took) if turn else 0.0
        return best


with tempfile.TemporaryDirectory(prefix="nxdkit-bench-") as work:
    for rows, prompt, new in SHAPES:
        own, model = ours(pathlib.Path(work), rows, prompt, new)
        real = theirs(model, rows, prompt, new)
        print(f"{rows} sequences of {prompt} + {new} tokens: ours {own:.0f} new tokens/s, vLLM {real:.0f}, ratio {own / real:.2f}", flush=True)
