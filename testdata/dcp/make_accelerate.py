"""What accelerate and the Trainer of transformers leave of an FSDP run, made by them under gloo on a CPU.

  python make_accelerate.py KIND OUT WORLD [--load FROM]

KIND: fsdp{1,2}-{sharded,full,local}-{llama,qwen3tied}[-nodcp][-noorig]   accelerate's own save_state / load_state
      trainer{1,2}-{sharded,full}-llama   transformers' Trainer, checkpoint-2
      single-llama                        Trainer of one process, no FSDP
With --load FROM: makes another model (other seed), loads FROM in the real program and writes what
torch then gathers to OUT/expected.json."""
import hashlib, json, os, sys, random, copy
import numpy as np
import torch
import torch.multiprocessing as mp


def tiny(which, seed):
    import transformers
    torch.manual_seed(seed)
    common = dict(vocab_size=98, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=64)
    if which == "llama":
        config = transformers.LlamaConfig(**common, tie_word_embeddings=False)
    else:
        config = transformers.Qwen3Config(**common, head_dim=8, tie_word_embeddings=True)
    model = transformers.AutoModelForCausalLM.from_config(config)
    return model.float()


def digest(t):
    t = t.detach().cpu().contiguous()
    return hashlib.sha256(t.numpy().tobytes()).hexdigest()[:24]


def plain(v):
    if isinstance(v, torch.Tensor):
        return float(v)
    if isinstance(v, (tuple, list)):
        return [plain(x) for x in v]
    return v


def gather(model, optimizer, rank):
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict, StateDictOptions
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    import torch.distributed as dist
    if not dist.is_initialized():
        options = StateDictOptions()
    m = get_model_state_dict(model, options=options)
    o = get_optimizer_state_dict(model, optimizer, options=options)
    if rank:
        return None
    found = {"torch": torch.__version__, "parameters": {}, "param_groups": []}
    for name, t in m.items():
        entry = {"dtype": str(t.dtype), "shape": list(t.shape), "sha": digest(t)}
        state = o["state"].get(name)
        if state:
            entry.update(exp_avg=digest(state["exp_avg"]), exp_avg_sq=digest(state["exp_avg_sq"]),
                         step=float(state["step"]))
        found["parameters"][name] = entry
    for name in o["state"]:
        assert name in m, name
    for g in o["param_groups"]:
        found["param_groups"].append({k: plain(v) for k, v in g.items()})
    return found


class Data(torch.utils.data.Dataset):
    def __init__(self, n=64):
        g = torch.Generator().manual_seed(5)
        self.ids = torch.randint(0, 98, (n, 8), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def label_as_fsdp_capable(cpu_state):
    """accelerate takes its FSDP branch for accelerators only (state.py: not MULTI_CPU). The label is changed, nothing else."""
    from accelerate.utils import DistributedType
    from accelerate.state import PartialState
    assert PartialState._shared_state["distributed_type"] == DistributedType.MULTI_CPU, PartialState._shared_state
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    PartialState._shared_state["device"] = torch.device("cpu")  # not "cpu:0", which FSDP1 refuses


def do_not_share_the_gather_buffer():
    """FSDP1 with use_orig_params, on CPU only: _unflatten_orig_param_states copies by .cpu(), which is no copy here, so that
    exp_avg and exp_avg_sq become views of one buffer (exp_avg is lost). On a GPU they are copies; make them copies here."""
    import torch.distributed.fsdp._optim_utils as u
    old = u._unflatten_orig_param_states
    def new(info, states, name, *a, **k):
        old(info, states, name, *a, **k)
        for state in states.values():
            if type(state.get(name)) is torch.Tensor:
                state[name] = state[name].clone()
            elif hasattr(state.get(name), "local_shards"):
                for shard in state[name].local_shards():
                    shard.tensor = shard.tensor.clone()
    u._unflatten_orig_param_states = new


def versions():
    import accelerate, transformers
    return {"torch": torch.__version__, "accelerate": accelerate.__version__, "transformers": transformers.__version__}


def run_accelerate(rank, world, kind, out, load):
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.state import PartialState
    parts = kind.split("-")
    version = int(parts[0][4:])
    form = {"sharded": "SHARDED_STATE_DICT", "full": "FULL_STATE_DICT", "local": "LOCAL_STATE_DICT"}[parts[1]]
    which = parts[2]
    PartialState(cpu=True)
    if world > 1:
        label_as_fsdp_capable(PartialState())
    layer = {"llama": "LlamaDecoderLayer", "qwen3tied": "Qwen3DecoderLayer"}[which]
    options = dict(fsdp_version=version, state_dict_type=form, auto_wrap_policy="transformer_based_wrap",
                   transformer_cls_names_to_wrap=[layer], cpu_ram_efficient_loading=False)
    options["reshard_after_forward"] = True if version == 2 else "FULL_SHARD"
    if version == 1:
        options["use_orig_params"] = "noorig" not in parts
        options["sync_module_states"] = False
    plugin = FullyShardedDataParallelPlugin(**options)
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    if rank == 0:
        print(accelerator.distributed_type, accelerator.device, plugin.state_dict_type, flush=True)
    model = tiny(which, 1 if load else 0)
    model.config.save_pretrained(out)
    if "noorig" in parts:
        model = accelerator.prepare(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
        optimizer = accelerator.prepare(optimizer)
    else:
        decay = [p for n, p in model.named_parameters() if p.ndim > 1]
        rest = [p for n, p in model.named_parameters() if p.ndim <= 1]
        optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                      lr=1e-2)
        model, optimizer = accelerator.prepare(model, optimizer)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1.0 / (1 + s))
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, shuffle=True)
    loader, scheduler = accelerator.prepare(loader, scheduler)
    if load:
        # the optimizer's state must exist for a sharded load; accelerate makes it itself where it can
        accelerator.load_state(load)
        print("STATES AFTER LOAD", rank, len(getattr(optimizer, "optimizer", optimizer).state), flush=True)
    else:
        for i, batch in enumerate(loader):
            if i == 2:
                break
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if "nodcp" in parts:
            from accelerate.utils import save_fsdp_model, save_fsdp_optimizer
            save_fsdp_model(plugin, accelerator, model, out + "/ckpt", use_dcp=False)
            save_fsdp_optimizer(plugin, accelerator, optimizer, model, out + "/ckpt", use_dcp=False)
        else:
            accelerator.save_state(out + "/ckpt")
    inner = getattr(optimizer, "optimizer", optimizer)
    found = gather(model, inner, rank)
    if rank == 0:
        found.update(kind=kind, world=world, versions=versions(), loaded=load)
        json.dump(found, open(out + "/expected.json", "w"), indent=1)
    accelerator.wait_for_everyone()


def run_trainer(rank, world, kind, out, load):
    import transformers
    from accelerate.state import PartialState
    parts = kind.split("-")
    which = parts[2] if len(parts) > 2 else parts[1]
    options = {}
    if not kind.startswith("single"):
        version = int(parts[0][7:])
        form = {"sharded": "SHARDED_STATE_DICT", "full": "FULL_STATE_DICT"}[parts[1]]
        layer = {"llama": "LlamaDecoderLayer", "qwen3tied": "Qwen3DecoderLayer"}[which]
        config = {"version": version, "fsdp_version": version, "state_dict_type": form,
                  "transformer_layer_cls_to_wrap": [layer], "reshard_after_forward": True if version == 2 else "full_shard", **({"sync_module_states": False} if version == 1 or os.environ.get("OLD") else {})}
        options = dict(fsdp="full_shard auto_wrap", fsdp_config=config)
        os.environ["FSDP_STATE_DICT_TYPE"] = form
    args = transformers.TrainingArguments(output_dir=out + "/run", use_cpu=True, max_steps=2 if not load else 3, save_steps=2 if not load else 100,
                                          per_device_train_batch_size=2, learning_rate=1e-2, weight_decay=0.1, report_to=[],
                                          logging_steps=1, seed=3, disable_tqdm=True, save_strategy="steps", **options)
    if world > 1:
        args.device
        label_as_fsdp_capable(None)
    model = tiny(which, 1 if load else 0)
    if "lora" in parts:
        import peft
        torch.manual_seed(7)
        model = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    trainer = transformers.Trainer(model=model, args=args, train_dataset=Data())
    if rank == 0:
        print(trainer.accelerator.distributed_type, trainer.is_fsdp_enabled, flush=True)
    class Look(transformers.TrainerCallback):
        def on_train_begin(self, *a, **k):
            look("begin")
        def on_save(self, *a, **k):
            look("save")
    def look(when):
        if load:
            print("STATES", when, rank, len(getattr(trainer.optimizer, "optimizer", trainer.optimizer).state), flush=True)
        if when == ("begin" if load else "save"):
            inner = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
            found = gather(trainer.model, inner, rank)
            if rank == 0:
                found.update(kind=kind, world=world, versions=versions(), loaded=load)
                json.dump(found, open(out + "/expected.json", "w"), indent=1)
    trainer.add_callback(Look())
    trainer.train(resume_from_checkpoint=load or None)


def work(rank, world, port, kind, out, load):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="true",
                      CUDA_VISIBLE_DEVICES="")
    if world == 1:
        for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            os.environ.pop(k)
    torch.set_num_threads(1)
    do_not_share_the_gather_buffer()
    os.makedirs(out, exist_ok=True)
    (run_accelerate if kind.startswith("fsdp") else run_trainer)(rank, world, kind, out, load)
    import torch.distributed as dist
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    kind, out, world = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
    load = os.path.abspath(sys.argv[5]) if len(sys.argv) > 4 else None
    mp.spawn(work, args=(world, random.randint(20000, 40000), kind, out, load), nprocs=world)
