#!/usr/bin/env bash
# make.sh TOOLS FOLDER: the inputs of anything_test, each a folder or a file in FOLDER with the name
# from table.txt. Small stand-ins for the files that users bring.
set -euo pipefail
tools=$1
testdata=$(cd "$(dirname "$0")/../../../testdata" && pwd)
mkdir -p "$2" && cd "$2"
quiet() { "$@" >/dev/null 2>&1; }
quiet "$tools/nxdkit-make-model" --out model
quiet "$tools/nxdkit-make-model" --max-shard-size 200KB --out sharded
quiet "$tools/nxd-convert" --to torch model model.bin
quiet "$tools/nxd-convert" --to nxd --tp 2 model nxd/step_10
quiet "$tools/nxd-convert" --to rollout --tp 2 --bs 1 --seq 64 model bundle
quiet "$tools/nxd-convert" --to dcp model dcp
weights=model/model.safetensors

# --- whole artifacts, named as users name them
cp -r model plain
mkdir bin-only && cp model/config.json bin-only && cp model.bin bin-only/pytorch_model.bin
cp -r sharded shards-with-index
cp $weights one-file.safetensors
cp model.bin state-dict.pt
cp model.bin state-dict.pth
cp model.bin state-dict.ckpt
cp -r nxd/step_10 nxd-tag
mkdir nxd-root && cp -r nxd/step_10 nxd-root/step_10 && cp -r nxd/step_10 nxd-root/step_20
cp -r bundle rollout
cp -r dcp distributed
mkdir hub && mkdir -p hub/models--Org--M/snapshots/abc hub/models--Org--M/refs
cp model/* hub/models--Org--M/snapshots/abc && printf abc >hub/models--Org--M/refs/main

# --- almost an artifact
cp -r sharded shards-without-index && rm shards-without-index/*.index.json
cp -r shards-without-index shards-one-missing && rm shards-one-missing/model-00002-of-*
mkdir variant && cp model/config.json variant && cp $weights variant/model.fp16.safetensors
mkdir variants && cp model/config.json variants && cp $weights variants/model.fp16.safetensors
cp $weights variants/model.bf16.safetensors
mkdir no-weights && cp model/config.json no-weights && printf '{}' >no-weights/tokenizer.json
mkdir config-alone && cp model/config.json config-alone
mkdir tokenizer-alone && printf '{}' >tokenizer-alone/tokenizer.json
printf '{}' >tokenizer-alone/tokenizer_config.json
mkdir sentencepiece-alone && printf 'x' >sentencepiece-alone/tokenizer.model
mkdir empty-folder
mkdir readme-alone && printf '# a model\n' >readme-alone/README.md
mkdir git-alone && mkdir git-alone/.git
mkdir link-to-nothing && cp model/config.json link-to-nothing
ln -s ../../blobs/0123 link-to-nothing/model.safetensors
ln -s nowhere link.safetensors
ln -s loop loop

cp -r shards-without-index shards-and-a-stray && cp $weights shards-and-a-stray/model-00004-of-00004.safetensors
mkdir split-gguf && : >split-gguf/m-00001-of-00002.gguf && : >split-gguf/m-00002-of-00002.gguf
mkdir arrow && : >arrow/data-00000-of-00002.arrow && : >arrow/data-00001-of-00002.arrow

# --- incomplete copies
pointer() {
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4976698672\n'
}
with() { cp -r model "$1" && cat >"$1/$2"; }
pointer | with lfs-weights model.safetensors
pointer | with lfs-config config.json
pointer >lfs.safetensors
mkdir lfs-bin && cp model/config.json lfs-bin && pointer >lfs-bin/pytorch_model.bin
cp -r sharded lfs-shard && pointer >lfs-shard/model-00002-of-00003.safetensors
cp -r sharded lfs-index && pointer >lfs-index/model.safetensors.index.json
cp -r sharded html-shard && printf '<html><body>429</body></html>' >html-shard/model-00001-of-00003.safetensors
printf '<!DOCTYPE html><html><head><title>Sign in</title></head></html>' | with html-weights model.safetensors
printf '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>' | with store-answer model.safetensors
printf '' | with empty-weights model.safetensors
printf '' | with empty-config config.json
head -c 9000 /dev/zero | with zeros model.safetensors
head -c 9000 /dev/zero >zeros.pt
: >empty.pt
cp -r model cut && head -c 300000 $weights >cut/model.safetensors
head -c 3000 model.bin >cut.pt
mkdir unfinished && cp model/config.json unfinished && cp $weights unfinished/model.safetensors.incomplete
mkdir crdownload && cp model/config.json crdownload && cp $weights crdownload/model.safetensors.crdownload
mkdir aria2 && cp model/config.json aria2 && : >aria2/model.safetensors.aria2
cp -r sharded index-of-missing && rm index-of-missing/model-00003-of-*
mkdir -p hub-unfinished/models--Org--M/snapshots/abc hub-unfinished/models--Org--M/refs
cp model/config.json hub-unfinished/models--Org--M/snapshots/abc
ln -s ../../blobs/0 hub-unfinished/models--Org--M/snapshots/abc/model.safetensors
printf abc >hub-unfinished/models--Org--M/refs/main

# --- other formats
printf 'GGUF\3\0\0\0and so on, and so on' >model.gguf
mkdir gguf && cp model.gguf gguf/model-Q4_K_M.gguf
python3 - <<'P'
import io, struct, tarfile, zipfile
z = zipfile.ZipFile("arrays.npz", "w"); z.writestr("w.npy", b"\x93NUMPY\1\0"); z.close()
open("array.npy", "wb").write(b"\x93NUMPY\1\0v\0{'descr': '<f4'}")
z = zipfile.ZipFile("code.zip", "w"); z.writestr("main.py", b"x"); z.close()
z = zipfile.ZipFile("model.zip", "w"); z.write("model/config.json"); z.write("model/model.safetensors"); z.close()
t = tarfile.open("plain.tar", "w"); i = tarfile.TarInfo("a"); i.size = 1; t.addfile(i, io.BytesIO(b"x")); t.close()
t = tarfile.open("run.nemo", "w"); i = tarfile.TarInfo("model_config.yaml"); i.size = 1; t.addfile(i, io.BytesIO(b"x")); t.close()
open("keras.h5", "wb").write(b"\x89HDF\r\n\x1a\n" + bytes(100))
open("flax_model.msgpack", "wb").write(b"\x81\xa6params")
open("graph.onnx", "wb").write(b"\x08\x07\x12\x07pytorch")
open("rows.parquet", "wb").write(b"PAR1" + bytes(20) + b"PAR1")
open("noise.bin", "wb").write(bytes((i * 37 + 11) % 251 for i in range(4000)))
P
quiet "$tools/ckpt-pack" model packed.tar
quiet "$tools/ckpt-pack" model packed.tar.zst
quiet "$tools/ckpt-pack" model packed.tar.gz
cp model/config.json config.json
printf '{"model": {"vocab": {}}}' >tokenizer.json
printf 'data: {}\n' >run.yaml
printf 'worker: {actor: {}}\ndata: {}\n' >easyr1.yaml
printf 'actor_rollout_ref: {actor: {strategy: fsdp}}\n' >verl.yaml
printf 'distributed_strategy: {tensor_model_parallel_size: 8}\n' >nxdt.yaml
printf 'model: [unclosed\n' >broken.yaml
printf '{"a": 1}\n{"a": 2}\n' >rows.jsonl
printf 'import torch\n' >train.py
printf 'hello\n' >notes.txt
mkdir flax && cp model/config.json flax && cp flax_model.msgpack flax
mkdir tensorflow && cp model/config.json tensorflow && cp keras.h5 tensorflow/tf_model.h5
mkdir meta && printf '{}' >meta/params.json && cp model.bin meta/consolidated.00.pth
mkdir nemo && cp run.nemo nemo
mkdir orbax && : >orbax/_CHECKPOINT_METADATA
mkdir diffusers && printf '{}' >diffusers/model_index.json && mkdir diffusers/unet
mkdir dataset && cp rows.parquet dataset/train-00000-of-00001.parquet
mkdir onnx && cp graph.onnx onnx/model.onnx
mkdir cache && mkdir -p cache/neuronxcc-2.21.0/MODULE_1+2
mkdir scratch && cp -r cache scratch/neuron-compile-cache
cp -r scratch scratch_with_a_log && echo log >scratch_with_a_log/train.log

# --- other trainers
mkdir -p verl/global_step_5/actor/huggingface && cp model/config.json verl/global_step_5/actor/huggingface
for r in 0 1; do
  for k in model optim extra_state; do cp model.bin verl/global_step_5/actor/${k}_world_size_2_rank_$r.pt; done
done
quiet "$tools/ckpt-pack" --unpack "$testdata/zero/fixtures.tar.zst" zero-runs
mv zero-runs/stage2-bf16-3 deepspeed && : >deepspeed/zero_to_fp32.py
mkdir deepspeed-script && : >deepspeed-script/zero_to_fp32.py
mkdir -p deepspeed-other/global_step20 && cp model.bin deepspeed-other/global_step20/mp_rank_00_model_states.pt
mkdir -p deepspeed-experts/tag && : >deepspeed-experts/tag/layer_0_expert_1_mp_rank_00_model_states.pt
quiet "$tools/ckpt-pack" --unpack "$testdata/megatron/fixtures.tar.zst" megatron-runs
mv megatron-runs/llama-tp2-pp2 megatron-core
cp -r megatron-core/iter_0000002 megatron-iteration
rm -r zero-runs megatron-runs
mkdir -p megatron/iter_0000100/mp_rank_00 && printf 100 >megatron/latest_checkpointed_iteration.txt
cp model.bin megatron/iter_0000100/mp_rank_00/model_optim_rng.pt
mkdir results && for s in 100 200; do cp -r model results/checkpoint-$s; : >results/checkpoint-$s/trainer_state.json; done
mkdir -p nemo_experiments/x/checkpoints && cp -r nxd/step_10 nemo_experiments/x/checkpoints/step_10
mkdir -p one-deeper && cp -r model one-deeper/final
mkdir -p two-deeper/a && cp -r model two-deeper/a/final
mkdir -p three-deeper/a/b && cp -r model three-deeper/a/b/final
mkdir titan && cp -r dcp titan/step-10 && cp -r dcp titan/step-20
mkdir -p many && for i in 1 2 3 4 5 6 7; do cp -r model many/m$i; done
cp -r nxd/step_10 optimizer-gone && mkdir tag-with-optim && mkdir tag-with-optim/optim
mkdir adapter && printf '{"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],"base_model_name_or_path":"m"}' >adapter/adapter_config.json
mkdir adapter-config-alone && cp adapter/adapter_config.json adapter-config-alone

# --- the names of a model, as programs save them
python3 - <<'P'
import json, os, shutil, struct
def read(path):
    raw = open(path, "rb").read(); n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n]); meta = head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in head.items()}, meta
def write(path, tensors, meta):
    head, at, data = {}, 0, []
    for k, (d, s, b) in tensors.items():
        head[k] = {"dtype": d, "shape": s, "data_offsets": [at, at + len(b)]}; at += len(b); data.append(b)
    if meta: head["__metadata__"] = meta
    text = json.dumps(head).encode(); text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data))
tensors, meta = read("model/model.safetensors")
def model(name, rename, more={}, config=None):
    os.makedirs(name); c = json.load(open("model/config.json")); c.update(config or {})
    json.dump(c, open(name + "/config.json", "w"))
    t = {rename(k): v for k, v in tensors.items()}; t.update(more)
    write(name + "/model.safetensors", t, meta)
one = ("BF16", [1, 1], b"\0\0")
model("names-bare", lambda k: k.removeprefix("model."))
for w in ["module.", "_orig_mod.", "base_model.model.", "model.", "_fsdp_wrapped_module.", "actor.", "module._orig_mod.", "policy.model."]:
    model("names-" + w.strip("._").replace(".", "-").replace("_orig", "orig"), lambda k: w + k)
model("names-model-model", lambda k: k.replace("model.", "model.model.", 1))
model("names-fsdp-inside", lambda k: k.replace("layers.", "layers._fsdp_wrapped_module.", 1) if 0 else k.replace(".self_attn.", "._fsdp_wrapped_module.self_attn."))
model("names-checkpoint-wrapper", lambda k: k.replace(".mlp.", "._checkpoint_wrapped_module.mlp."))
model("names-value-head", lambda k: k, {"v_head.summary.weight": one})
model("names-of-another", lambda k: "vision_tower." + k if "layers.0" in k else k)
for n in ["weight_scale_inv", "SCB", "qweight", "qzeros", "weight_scale", "g_idx"]:
    model("quantised-" + n, lambda k: k, {"model.layers.0.mlp.down_proj." + n: one}, {"quantization_config": {"quant_method": "fp8"}} if n == "weight_scale_inv" else None)
model("quantised-absmax", lambda k: k, {"model.layers.0.mlp.down_proj.weight.absmax": one}, {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}})
model("quantised-mxfp4", lambda k: k, {"model.layers.0.mlp.experts.gate_up_proj_blocks": one}, {"quantization_config": {"quant_method": "mxfp4"}})
model("quantised-config-alone", lambda k: k, {}, {"quantization_config": {"quant_method": "fp8"}})
model("unknown-quantised", lambda k: k, {"model.layers.0.mlp.down_proj.weight_scale_inv": one},
      {"model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"], "quantization_config": {"quant_method": "fp8"}})
model("unknown-family", lambda k: k, {}, {"model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"]})
P
touch unreadable.safetensors && chmod 000 unreadable.safetensors
