"""The real torchtitan (0.3.0 or 0.2.2) on a CPU with gloo, for a model that an HF config.json describes.

The only changes needed there: torchtitan chooses its device by
torch._utils._get_available_device_type, which knows no CPU; torch.cpu lacks six functions that report
memory and names; FlexAttention (0.3.0) has no backward pass on a CPU, so inner_attention is torchtitan's own
ScaledDotProductAttention; gloo has no PREMUL_SUM, which FSDP2 asks for with a gradient divide factor of 1, so FSDP's
own switch for plain sums is set. triton must be importable (0.3.0), though nothing of it runs.
"""
import dataclasses
import os

import torch
import torch._utils

torch._utils._get_available_device_type = lambda: "cpu"


class _Properties:
    total_memory, name = 1 << 33, "cpu"


for _name, _function in {"get_device_name": lambda d=None: "cpu", "get_device_properties": lambda d=None: _Properties,
                         "current_device": lambda: 0, "reset_peak_memory_stats": lambda: None,
                         "empty_cache": lambda: None, "memory_stats": lambda d=None: {}}.items():
    setattr(torch.cpu, _name, _function)

import torchtitan  # noqa: E402
from torch.utils.data import IterableDataset  # noqa: E402

import common  # noqa: E402

NEW = os.path.exists(os.path.join(os.path.dirname(torchtitan.__file__), "trainer.py"))
STYLE = "0.3.0" if NEW else "0.2.2"
ADAM = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
ONE = [(".*", ADAM | dict(weight_decay=0.1))]
TWO = [(r"norm", ADAM | dict(weight_decay=0.0)), (".*", ADAM | dict(weight_decay=0.1))]
ROWS, LENGTH, STEPS = 4, 16, 10  # STEPS: of the whole job; the learning rate depends on it
MAX_NORM = 1e30  # gradients are never clipped: the factor is exactly 1


class Rows(IterableDataset):
    """Row after row of common.batch; its position is kept in the checkpoint."""

    start = 0  # the step before the first batch, if no position is loaded

    def __init__(self, vocab, rank, world):
        self.vocab, self.first, self.count = vocab, rank * ROWS // world, ROWS // world
        self.at = self.start * self.count

    def __iter__(self):
        while True:
            step, row = divmod(self.at, self.count)
            t = common.batch(step + 1, ROWS, LENGTH, self.vocab)[self.first + row]
            self.at += 1
            yield {"input": t[:-1].clone(), **({"positions": torch.arange(LENGTH)} if NEW else {})}, t[1:].clone()

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def _model_030(c, fuse_qkv):
    d = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear, RMSNorm
    from torchtitan.models.common.attention import ScaledDotProductAttention
    common_layer = dict(n_layers=c["num_hidden_layers"], dim=c["hidden_size"], n_heads=c["num_attention_heads"],
                        n_kv_heads=c["num_key_value_heads"], fuse_qkv=fuse_qkv, attn_backend="varlen")
    if c["model_type"] == "llama":
        import torchtitan.models.llama3 as m
        rope = ComplexRoPE.Config(dim=d, max_seq_len=64, theta=c["rope_theta"], scaling="none")
        cls, norm = m.Llama3Model, lambda n: RMSNorm.Config(normalized_shape=n, param_init=m._NORM_INIT)
        layers = m._build_llama3_layers(hidden_dim=c["intermediate_size"], rope=rope, **common_layer)
    else:
        import torchtitan.models.qwen3 as m
        rope = CosSinRoPE.Config(dim=d, max_seq_len=64, theta=c["rope_theta"])
        cls, norm = m.Qwen3Model, m._qwen3_norm
        if c["model_type"] == "qwen3_moe":
            layers = m._build_qwen3_moe_layers(head_dim=d, moe_hidden_dim=c["moe_intermediate_size"],
                                               num_experts=c["num_experts"], top_k=c["num_experts_per_tok"],
                                               moe_comm_backend="standard", rope=rope, **common_layer)
        else:
            layers = m._build_qwen3_layers(head_dim=d, hidden_dim=c["intermediate_size"], rope=rope, **common_layer)
    for layer in layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    model = cls.Config(
        dim=c["hidden_size"], vocab_size=c["vocab_size"], enable_weight_tying=c["tie_word_embeddings"], layers=layers,
        norm=norm(c["hidden_size"]),
        tok_embeddings=Embedding.Config(num_embeddings=c["vocab_size"], embedding_dim=c["hidden_size"],
                                        param_init=m._EMBEDDING_SKIP_INIT if c["tie_word_embeddings"] else m._EMBEDDING_INIT),
        lm_head=Linear.Config(in_features=c["hidden_size"], out_features=c["vocab_size"], param_init=m._LINEAR_INIT))
    return dataclasses.replace(m.model_registry("debugmodel"), model=model)


def _trainer_030(c, dump, ranks, tp, checkpoint, groups, fuse_qkv, assets):
    from dataclasses import dataclass

    from torchtitan.components.checkpoint import CheckpointManager
    from torchtitan.components.dataloader import ParallelAwareDataloader
    from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
    from torchtitan.components.metrics import MetricsProcessor
    from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer
    from torchtitan.components.optimizer.optimizer import ParamGroupConfig
    from torchtitan.config import ParallelismConfig, TrainingConfig
    from torchtitan.trainer import Trainer

    class Loader(ParallelAwareDataloader):
        @dataclass(kw_only=True, slots=True)
        class Config(ParallelAwareDataloader.Config):
            pass

        def __init__(self, config, *, dp_world_size, dp_rank, local_batch_size, **_):
            super().__init__(Rows(c["vocab_size"], dp_rank, dp_world_size), dp_rank=dp_rank, dp_world_size=dp_world_size,
                             batch_size=local_batch_size)

    class NoTokenizer:
        def build(self, **_):
            return None

        def to_dict(self):
            return {}

    config = Trainer.Config(
        model_spec=_model_030(c, fuse_qkv), dump_folder=dump, hf_assets_path=assets or dump,
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=c["vocab_size"])),
        optimizer=OptimizersContainer.Config(param_groups=[ParamGroupConfig(pattern=p, optimizer_name="AdamW", optimizer_kwargs=o)
                                                           for p, o in groups], implementation="for-loop"),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=4, decay_type="linear", decay_ratio=0.6),
        training=TrainingConfig(local_batch_size=ROWS // (ranks // tp), seq_len=LENGTH, steps=STEPS, max_norm=MAX_NORM,
                                mixed_precision_param="float32", disable_cuda_graphs=True),
        metrics=MetricsProcessor.Config(log_freq=1), parallelism=ParallelismConfig(tensor_parallel_degree=tp),
        dataloader=Loader.Config(), activation_checkpoint=None,
        checkpoint=CheckpointManager.Config(enable=True, **{"last_save_model_only": False, **checkpoint}))
    config.tokenizer = NoTokenizer()
    return config.build()


def _trainer_022(c, dump, ranks, tp, checkpoint, groups, fuse_qkv, assets):
    import torchtitan.protocols.train_spec as specs
    from torchtitan.components.dataloader import ParallelAwareDataloader
    from torchtitan.config import JobConfig
    from torchtitan.train import Trainer
    name = {"llama": "llama3", "qwen3": "qwen3", "qwen3_moe": "qwen3"}[c["model_type"]]
    spec = specs.get_train_spec(name)
    args_class = type(next(iter(spec.model_args.values())))
    args = dict(dim=c["hidden_size"], n_layers=c["num_hidden_layers"], n_heads=c["num_attention_heads"],
                n_kv_heads=c["num_key_value_heads"], vocab_size=c["vocab_size"], rope_theta=c["rope_theta"])
    if name == "llama3":
        args |= dict(multiple_of=c["intermediate_size"])
    else:
        args |= dict(hidden_dim=c["intermediate_size"], head_dim=c["head_dim"], qk_norm=True,
                     enable_weight_tying=c["tie_word_embeddings"])

    def loader(dp_world_size, dp_rank, tokenizer, job_config):
        return ParallelAwareDataloader(Rows(c["vocab_size"], dp_rank, dp_world_size), dp_rank=dp_rank,
                                       dp_world_size=dp_world_size, batch_size=job_config.training.local_batch_size)

    specs.register_train_spec("tiny", dataclasses.replace(
        spec, model_args={"tiny": args_class(**args)}, build_dataloader_fn=loader, build_tokenizer_fn=None))
    config = JobConfig()
    config.model.name, config.model.flavor, config.model.hf_assets_path = "tiny", "tiny", assets or dump
    config.job.dump_folder = dump
    (_, o), = groups
    config.optimizer.lr, config.optimizer.eps, config.optimizer.weight_decay = o["lr"], o["eps"], o["weight_decay"]
    config.optimizer.beta1, config.optimizer.beta2 = o["betas"]
    config.optimizer.implementation = "for-loop"
    config.lr_scheduler.warmup_steps, config.lr_scheduler.decay_type, config.lr_scheduler.decay_ratio = 4, "linear", 0.6
    t = config.training
    t.local_batch_size, t.seq_len, t.steps, t.max_norm, t.mixed_precision_param = ROWS // (ranks // tp), LENGTH, STEPS, MAX_NORM, "float32"
    config.parallelism.tensor_parallel_degree = tp
    config.metrics.log_freq = 1
    config.activation_checkpoint.mode = "none"
    k = config.checkpoint
    k.enable, k.last_save_model_only = True, False
    for key, value in checkpoint.items():
        setattr(k, key, value)
    return Trainer(config)


def trainer(c, dump, stop, tp=1, checkpoint=None, groups=None, fuse_qkv=True, assets=None, interval=100):
    """A trainer that ends after step `stop`, as if it were killed there; it saves every `interval` steps."""
    torch.set_num_threads(1)
    build = _trainer_030 if NEW else _trainer_022
    t = build(c, dump, int(os.environ["WORLD_SIZE"]), tp, {"interval": interval, **(checkpoint or {})}, groups, fuse_qkv, assets)
    for part in t.model_parts:
        for module in part.modules():
            if hasattr(module, "set_force_sum_reduction_for_comms"):  # gloo has no sums with a factor
                module.set_force_sum_reduction_for_comms(True)
    t.losses = {}
    t.should_continue_training = lambda: t.step < stop
    log = t.metrics_processor.log

    def record(step, loss, *rest, **kw):
        t.losses[step] = (loss, rest[1])
        return log(step, loss, *rest, **kw)

    t.metrics_processor.log = record
    return t


def give_gradients(t, c, seed):
    """Before every step of the optimizer, puts the gradients of the rule in place of those of the backward pass."""
    names = common.Names(c, STYLE)
    for optimizer in t.optimizers:
        def hook(o, *_):
            step = t.step
            grads = common.hf_gradients(seed, c, step)
            titan = {**names.to_titan(grads, fused=True, both_tied=False), **names.to_titan(grads, fused=False, both_tied=False)}
            for part in t.model_parts:
                for name, p in part.named_parameters():
                    p.grad = common.like(titan[name], p)
        optimizer.register_step_pre_hook(hook)


def whole_model(t):
    """The state dict as it is saved, whole on every rank."""
    return {n: common.whole(v) for part in t.model_parts for n, v in part.state_dict().items()}
