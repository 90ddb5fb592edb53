"""Programs that make something: pictures, points, sequences."""

import math
from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from benchmarks.programs.program import STEPS, Loss


def vae(device: str) -> Iterator[Loss]:
    """A variational autoencoder of scikit-learn's digits."""

    x = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16)).to(device)
    decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 64)).to(device)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)
    for _ in range(STEPS):
        batch = x[torch.randint(len(x), (128,))].to(device)
        mean, spread = encoder(batch).chunk(2, 1)
        z = mean + torch.randn_like(spread) * (0.5 * spread).exp()
        rebuilt = F.binary_cross_entropy_with_logits(decoder(z), batch, reduction="sum")
        distance = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum()
        loss = (rebuilt + distance) / len(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def gan(device: str) -> Iterator[Loss]:
    """Two networks, two optimizers: points of a ring."""
    maker = nn.Sequential(nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 2)).to(device)
    judge = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).to(device)
    for_maker = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
    for_judge = torch.optim.Adam(judge.parameters(), 1e-3, betas=(0.5, 0.999))
    true, false = torch.ones(128, 1, device=device), torch.zeros(128, 1, device=device)
    for _ in range(STEPS):
        angle = 2 * math.pi * torch.rand(128)
        real = torch.stack([angle.cos(), angle.sin()], 1).to(device)
        made = maker(torch.randn(128, 8).to(device))
        judged = F.binary_cross_entropy_with_logits(judge(real), true)
        judged = judged + F.binary_cross_entropy_with_logits(judge(made.detach()), false)
        for_judge.zero_grad()
        judged.backward()
        for_judge.step()
        loss = F.binary_cross_entropy_with_logits(judge(made), true)
        for_maker.zero_grad()
        loss.backward()
        for_maker.step()
        yield judged.item() + loss.item()


def diffusion(device: str) -> Iterator[Loss]:
    """A network that takes noise from points (DDPM), and then makes some, in 50 steps."""
    times = 50
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.1, times), 0).to(device)
    model = nn.Sequential(nn.Linear(3, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU())
    model.append(nn.Linear(128, 2))
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        angle = 9 * torch.rand(256)
        points = torch.stack([angle * angle.cos(), angle * angle.sin()], 1).to(device) / 9
        t = torch.randint(times, (256,)).to(device)
        noise = torch.randn(256, 2).to(device)
        share = kept[t].unsqueeze(1)
        noisy = share.sqrt() * points + (1 - share).sqrt() * noise
        predicted = model(torch.cat([noisy, t.unsqueeze(1) / times], 1))
        loss = F.mse_loss(predicted, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
    x = torch.randn(256, 2).to(device)
    with torch.no_grad():
        for t in reversed(range(times)):
            noise = model(torch.cat([x, torch.full((256, 1), t / times, device=device)], 1))
            step = 1 - kept[t] / (kept[t - 1] if t else 1)
            x = (x - step / (1 - kept[t]).sqrt() * noise) / (1 - step).sqrt()
    yield x.square().mean().item()


def style(device: str) -> Iterator[Loss]:
    """A picture gets the style of another: its pixels are what is optimized."""
    layers = nn.ModuleList(
        nn.Conv2d(here, there, 3, padding=1) for here, there in ((3, 16), (16, 16), (16, 32))
    ).to(device)
    layers.requires_grad_(False)

    def features(x: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for i, layer in enumerate(layers):
            x = F.relu(layer(x))
            found.append(x)
            if i == 1:
                x = F.avg_pool2d(x, 2)
        return found

    def gram(x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(2)
        return x @ x.transpose(1, 2) / x.shape[2]

    content, model = torch.rand(1, 3, 48, 48).to(device), torch.rand(1, 3, 48, 48).to(device)
    wanted = features(content)[-1]
    styles = [gram(x) for x in features(model)]
    picture = content.clone().requires_grad_()
    optimizer = torch.optim.Adam([picture], 0.02)
    for _ in range(STEPS):
        found = features(picture)
        loss = F.mse_loss(found[-1], wanted)
        for x, target in zip(found, styles, strict=True):
            loss = loss + 100 * F.mse_loss(gram(x), target)
        steps = picture[..., 1:] - picture[..., :-1]
        loss = loss + 1e-3 * steps.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            picture.clamp_(0, 1)
        yield loss.item()


def beam_search(device: str) -> Iterator[Loss]:
    """A GRU whose most likely sequences are searched, for several beginnings."""
    letters, width, beams, length = 60, 64, 6, 15
    embedding = nn.Embedding(letters, width).to(device)
    cell, head = nn.GRUCell(width, width).to(device), nn.Linear(width, letters).to(device)
    with torch.no_grad():
        for beginning in range(STEPS // length):
            tokens = torch.full((beams, 1), beginning, device=device)
            state = torch.zeros(beams, width, device=device)
            scores = torch.full((beams,), -torch.inf, device=device)
            scores[0] = 0.0
            for _ in range(length):
                state = cell(embedding(tokens[:, -1]), state)
                each = scores.unsqueeze(1) + F.log_softmax(head(state), 1)
                scores, chosen = each.flatten().topk(beams)
                beam, token = chosen // letters, chosen % letters
                tokens = torch.cat([tokens[beam], token.unsqueeze(1)], 1)
                state = state[beam]
                yield -scores[0].item()


PROGRAMS = {
    "vae": vae,
    "gan": gan,
    "diffusion": diffusion,
    "style": style,
    "beam-search": beam_search,
}
