"""Trains a small GPT on characters. Alone, or in several processes under torchrun."""

import argparse
import contextlib
import math
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 40
BLOCK, WIDTH, HEADS, LAYERS = 32, 64, 4, 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, HEADS, c // HEADS).transpose(1, 2)
            for y in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(BLOCK, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, index, targets):
        positions = torch.arange(index.shape[1], device=index.device)
        x = self.tokens(index) + self.positions(positions)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
device, accumulation = args.device, 2

ddp = int(os.environ.get("RANK", -1)) != -1
rank = 0
if ddp:
    dist.init_process_group(backend="nccl" if "cuda" in device else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    if "cuda" in device:
        device = f"cuda:{local_rank}"
        torch.cuda.set_device(device)
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
device_type = "cuda" if "cuda" in device else "cpu"
dtype = getattr(torch, args.dtype)
context = (
    contextlib.nullcontext()
    if device_type == "cpu" or dtype == torch.float32
    else torch.amp.autocast(device_type=device_type, dtype=dtype)
)

letters = sorted(set(TEXT))
data = torch.tensor([letters.index(letter) for letter in TEXT])
draws = torch.Generator().manual_seed(rank)


def get_batch():
    starts = torch.randint(len(data) - BLOCK - 1, (8,), generator=draws)
    x = torch.stack([data[i : i + BLOCK] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + BLOCK] for i in starts])
    if device_type == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


model = GPT(len(letters)).to(device)
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), fused=device_type == "cuda")
scaler = torch.amp.GradScaler(device_type, enabled=dtype == torch.float16)
if args.compile:
    model = torch.compile(model)
if ddp:
    model = DDP(model, device_ids=[local_rank] if device_type == "cuda" else None)

for step in range(args.steps):
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * 0.5 * (1 + math.cos(math.pi * step / args.steps))
    for micro in range(accumulation):
        if ddp:
            model.require_backward_grad_sync = micro == accumulation - 1
        x, y = get_batch()
        with context:
            loss = model(x, y) / accumulation
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if step % 4 == 3 and rank == 0:
        print(f"step {step} loss {loss.item() * accumulation:.4f}", flush=True)
if ddp:
    dist.destroy_process_group()
