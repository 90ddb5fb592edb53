"""Small random models of well-known architectures, a batch for each, and their training."""

import torch

STEPS = 10


class Loss(torch.nn.Module):
    """A transformers model and its batch's names, reduced to: batch in, loss out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **batch):
        return self.model(**batch).loss


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ids = torch.randint(0, 120, (4, 16))
    mask = torch.ones_like(ids)
    mask[0, 10:] = 0
    return Loss(BertForMaskedLM(config)), {"input_ids": ids, "attention_mask": mask, "labels": ids}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=120,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    ids = torch.randint(0, 120, (4, 16))
    return Loss(GPT2LMHeadModel(config)), {"input_ids": ids, "labels": ids}


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        num_channels=3,
        embedding_size=16,
        hidden_sizes=[16, 32, 64, 128],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=10,
    )
    batch = {"pixel_values": torch.randn(16, 3, 64, 64), "labels": torch.randint(0, 10, (16,))}
    return Loss(ResNetForImageClassification(config)), batch


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
    )
    batch = {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 10, (4,))}
    return Loss(ViTForImageClassification(config)), batch


class Recurrent(torch.nn.Module):
    """Two layers of gated recurrent units that say the next token."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(120, 32)
        self.units = torch.nn.GRU(32, 48, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(48, 120)

    def forward(self, ids):
        tokens = self.head(self.units(self.embedding(ids[:, :-1]))[0])
        return torch.nn.functional.cross_entropy(tokens.flatten(0, 1), ids[:, 1:].flatten())


def gru():
    return Recurrent(), {"ids": torch.randint(0, 120, (4, 16))}


MODELS = {"bert": bert, "gpt2": gpt2, "resnet": resnet, "vit": vit, "gru": gru}


def build(name, device):
    """The model in training mode and its batch, the same on every device."""
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    return model.to(device).train(), {key: value.to(device) for key, value in batch.items()}


def train(
    name,
    device,
    after_step=lambda step: None,
    options=None,
    dtype=torch.float32,
    steps=STEPS,
    compiled=lambda model: model,
):
    """The model after some steps of AdamW, and their losses."""
    model, batch = build(name, device)
    model.to(dtype)
    batch = {k: t.to(dtype) if t.is_floating_point() else t for k, t in batch.items()}
    run = compiled(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **(options or {}))
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = run(**batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        after_step(step)
    return model, losses
