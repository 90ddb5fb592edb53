"""Programs that act in a world which runs in Python."""

import math
import random
from collections import deque
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.programs.program import STEPS, Loss


class Pole:
    """A pole on a cart, which is pushed to the left or right."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.reset()

    def reset(self) -> list[float]:
        self.state = [self.rng.uniform(-0.05, 0.05) for _ in range(4)]
        self.age = 0
        return self.state

    def push(self, right: bool) -> tuple[list[float], bool]:
        """The new state, and whether the episode is over."""
        x, speed, angle, turning = self.state
        pull = (10.0 if right else -10.0) + 0.05 * turning**2 * math.sin(angle)
        pull /= 1.1
        fall = 9.8 * math.sin(angle) - math.cos(angle) * pull
        fall /= 0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        push = pull - 0.05 * fall * math.cos(angle) / 1.1
        self.state = [
            x + 0.02 * speed,
            speed + 0.02 * push,
            angle + 0.02 * turning,
            turning + 0.02 * fall,
        ]
        self.age += 1
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.age == 200


def dqn(device: str) -> Iterator[Loss]:
    """Deep Q-learning: an action, a replayed batch and a step, in turn."""
    rng = random.Random(0)
    world = Pole(rng)

    def network() -> nn.Module:
        return nn.Sequential(
            nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
        ).to(device)

    policy, target = network(), network()
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.AdamW(policy.parameters(), 1e-3, amsgrad=True)
    memory: deque = deque(maxlen=1000)
    state = world.reset()
    for step in range(-32, STEPS):
        if step < 0 or rng.random() < 0.2:
            right = rng.random() < 0.5
        else:
            with torch.no_grad():
                right = bool(policy(torch.tensor([state], device=device)).argmax(1).item())
        after, over = world.push(right)
        memory.append((state, right, after, over))
        state = world.reset() if over else after
        if step < 0:
            continue
        states, actions, afters, overs = zip(*rng.sample(memory, 32), strict=True)
        chosen = torch.tensor(actions, device=device).long().unsqueeze(1)
        values = policy(torch.tensor(states, device=device)).gather(1, chosen)
        with torch.no_grad():
            later = target(torch.tensor(afters, device=device)).max(1).values
            wanted = 1 + 0.99 * later * ~torch.tensor(overs, device=device)
        loss = F.smooth_l1_loss(values, wanted.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        for old, new in zip(target.parameters(), policy.parameters(), strict=True):
            old.data.mul_(0.995).add_(new.data, alpha=0.005)
        yield loss.item()


def policy_gradient(device: str) -> Iterator[Loss]:
    """REINFORCE with a baseline: episodes of many lengths, and a step after each."""
    rng = random.Random(0)
    world = Pole(rng)
    body = nn.Sequential(nn.Linear(4, 32), nn.Tanh()).to(device)
    actor, critic = nn.Linear(32, 2).to(device), nn.Linear(32, 1).to(device)
    parameters = [*body.parameters(), *actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, 5e-3)
    for _ in range(STEPS // 5):
        state, over = world.reset(), False
        logs, values = [], []
        while not over:
            hidden = body(torch.tensor(state, device=device))
            action = torch.distributions.Categorical(logits=actor(hidden))
            chosen = action.sample()
            logs.append(action.log_prob(chosen))
            values.append(critic(hidden))
            state, over = world.push(bool(chosen.item()))
        returns, total = [], 0.0
        for _ in logs:
            total = 1 + 0.99 * total
            returns.append(total)
        gains = torch.tensor(returns[::-1], device=device) / 50
        baseline = torch.cat(values)
        advantage = gains - baseline.detach()
        loss = -(torch.stack(logs) * advantage).mean() + F.mse_loss(baseline, gains)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


PROGRAMS = {"dqn": dqn, "policy-gradient": policy_gradient}
