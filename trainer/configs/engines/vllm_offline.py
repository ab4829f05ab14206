#!/usr/bin/env python3
"""worker.rollout.engine: exec with vLLM's offline LLM class, for engines without a server (vLLM Neuron).

  worker.rollout.engine=exec worker.rollout.command="python3 vllm_offline.py --max-num-seqs 16"
The options are arguments of LLM (--max-num-seqs 16: max_num_seqs=16). trainer/engines/README.md describes the protocol.

vLLM Neuron is restarted for new weights, keeping its compile cache (VLLM_CACHE_ROOT), and reports digests through
neuron_weights.py next to this file (worker.rollout.engine_layout=vllm-neuron). --reload-in-place 1 is an EXPERIMENT:
parameters are overwritten behind the compiled graphs; whether the runtime then computes with them is not known.
"""

import json
import os
import sys
import time

from vllm import LLM, SamplingParams, __version__
from vllm.inputs import TokensPrompt
from vllm.platforms import current_platform

WORDS = {word[2:].replace("-", "_"): json.loads(value) for word, value in zip(sys.argv[1::2], sys.argv[2::2])}
IN_PLACE = WORDS.pop("reload_in_place", 0)
NEURON = "neuron" in current_platform.device_type + WORDS.get("worker_extension_cls", "")


def make(asked):
    mode = "raw_logprobs" if asked["temperature"] == 1 else "processed_logprobs"
    settings = {"skip_tokenizer_init": True, "generation_config": "vllm", "logprobs_mode": mode, "dtype": asked["dtype"],
                "max_model_len": asked["max_model_len"], "tensor_parallel_size": asked["tensor_parallel_size"]}
    settings |= {"worker_extension_cls": "neuron_weights.Extension"} if NEURON else {"enforce_eager": True}
    return LLM(asked["model"], **settings | WORDS)


class Engine:
    """An LLM, and the times of the parts of the last reload, by the names of trainer/engines/README.md."""

    def __init__(self):
        self.llm, self.seconds, self.note = None, {}, ""

    def timed(self, part, call, *arguments):
        begun = time.monotonic()
        result = call(*arguments)
        self.seconds[part] = time.monotonic() - begun
        return result

    def reload(self, asked):
        """Reloads in place if the engine can, else starts a new one; the digests prove the result."""
        self.seconds, self.note = {}, ""
        if self.llm is None or not self.reloaded_in_place(asked["model"]):
            if self.llm is not None:
                self.timed("stop", self.stop)
            self.llm = self.timed("start", make, asked)
        self.timed("resume", self.first_token)

    def reloaded_in_place(self, folder):
        if NEURON and not IN_PLACE:
            return False
        if NEURON:
            print("EXPERIMENT: parameters are overwritten in place; whether a compiled graph then computes with them "
                  "is not known", file=sys.stderr)
        try:
            method = "reload_in_place_experiment" if NEURON else "reload_weights"
            self.timed("reload", lambda: self.llm.collective_rpc(method, kwargs={"weights_path": folder}))
            self.llm.reset_prefix_cache()
        except Exception as error:
            print(f"no reload in place ({error}): starting anew", file=sys.stderr)
            return False
        self.note = ", EXPERIMENT: reloaded in place" if NEURON else ""
        return True

    def stop(self):
        self.llm.llm_engine.engine_core.shutdown()
        self.llm = None

    def first_token(self):
        params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False)
        self.llm.generate([TokensPrompt(prompt_token_ids=[0])], params, use_tqdm=False)

    def digests(self):
        try:
            ranks = self.llm.collective_rpc("compute_weight_checksums")
        except Exception as error:
            print(f"no digests of the weights ({error}): nothing is proved", file=sys.stderr)
            return None
        return {key: digest for rank in ranks for key, digest in rank.items()}

    def generate(self, requests):
        params = [SamplingParams(n=one["n"], seed=one["seed"], temperature=one["temperature"], top_p=one["top_p"],
                                 top_k=one["top_k"], max_tokens=one["max_tokens"], stop_token_ids=one["stop_token_ids"],
                                 ignore_eos=True, detokenize=False, logprobs=0 if one["logprobs"] else None)
                  for one in requests]
        prompts = [TokensPrompt(prompt_token_ids=one["token_ids"]) for one in requests]
        for one, made in zip(requests, self.llm.generate(prompts, params, use_tqdm=False)):
            samples = []
            for sample in made.outputs:
                ids = list(sample.token_ids)
                samples.append({"token_ids": ids, "finish_reason": sample.finish_reason})
                if one["logprobs"]:
                    samples[-1]["logprobs"] = [ranks[token].logprob for token, ranks in zip(ids, sample.logprobs)]
            yield {"id": one["id"], "samples": samples}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints go to the log: standard output is for the protocol
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))  # for vLLM's processes
    engine = Engine()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["op"] == "reload":
            engine.reload(asked)
            answers = [{"version": asked["version"], "engine": f"vllm {__version__} offline{engine.note}",
                        "seconds": engine.seconds}]
        elif asked["op"] == "digests":
            answers = [{"digests": engine.digests()}]
        else:
            answers = engine.generate(asked["requests"])
        for answer in answers:
            print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()  # vLLM's own processes import this file too
