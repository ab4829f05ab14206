#!/usr/bin/env python3
"""worker.rollout.engine: exec by vLLM's offline LLM class, where there is no server to talk to (vLLM Neuron).

  worker.rollout.engine=exec worker.rollout.command="python3 vllm_offline.py --max-num-seqs 16"
Words after the name are arguments of LLM (--max-num-seqs 16: max_num_seqs=16). The protocol is in trainer/engines/README.md.
"""

import json
import os
import sys

from vllm import LLM, SamplingParams, __version__
from vllm.inputs import TokensPrompt

WORDS = {word[2:].replace("-", "_"): json.loads(value) for word, value in zip(sys.argv[1::2], sys.argv[2::2])}


def make(asked):
    mode = "raw_logprobs" if asked["temperature"] == 1 else "processed_logprobs"
    settings = {"skip_tokenizer_init": True, "enforce_eager": True, "generation_config": "vllm", "logprobs_mode": mode,
                "dtype": asked["dtype"], "max_model_len": asked["max_model_len"],
                "tensor_parallel_size": asked["tensor_parallel_size"]}
    return LLM(asked["model"], **settings | WORDS)


def reload(llm, asked):
    """In place where the engine can, else it is made anew; what it holds then is proved by the digests."""
    try:
        llm.collective_rpc("reload_weights", kwargs={"weights_path": asked["model"]})
        llm.reset_prefix_cache()
    except Exception as error:  # such as on vLLM Neuron
        print(f"no reload in place ({error}): starting anew", file=sys.stderr)
        llm.llm_engine.engine_core.shutdown()
        return make(asked)
    return llm


def digests(llm):
    try:
        ranks = llm.collective_rpc("compute_weight_checksums")
    except Exception:
        return None
    return {key: digest for rank in ranks for key, digest in rank.items()}


def generate(llm, requests):
    params = [SamplingParams(n=one["n"], seed=one["seed"], temperature=one["temperature"], top_p=one["top_p"],
                             top_k=one["top_k"], max_tokens=one["max_tokens"], stop_token_ids=one["stop_token_ids"],
                             ignore_eos=True, detokenize=False, logprobs=0 if one["logprobs"] else None) for one in requests]
    prompts = [TokensPrompt(prompt_token_ids=one["token_ids"]) for one in requests]
    for one, made in zip(requests, llm.generate(prompts, params, use_tqdm=False)):
        samples = []
        for sample in made.outputs:
            ids = list(sample.token_ids)
            samples.append({"token_ids": ids, "finish_reason": sample.finish_reason})
            if one["logprobs"]:
                samples[-1]["logprobs"] = [ranks[token].logprob for token, ranks in zip(ids, sample.logprobs)]
        yield {"id": one["id"], "samples": samples}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints goes to the log: standard output is the protocol's
    llm = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["op"] == "reload":
            llm = make(asked) if llm is None else reload(llm, asked)
            answers = [{"version": asked["version"], "engine": f"vllm {__version__} offline"}]
        elif asked["op"] == "digests":
            answers = [{"digests": digests(llm)}]
        else:
            answers = generate(llm, asked["requests"])
        for answer in answers:
            print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()  # vLLM's own processes import this file too
