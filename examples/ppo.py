"""Proximal policy optimization: an agent learns to keep a point near the middle of a line."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Line:
    """Points with speed; an action pushes to the left, not at all, or to the right."""

    def __init__(self, count: int, seed: int):
        self.random = np.random.default_rng(seed)
        self.count = count
        self.state = np.zeros((count, 2), np.float32)
        self.reset(np.ones(count, bool))

    def reset(self, which):
        start = self.random.uniform(-1, 1, (self.count, 2)).astype(np.float32)
        self.state[which] = start[which]
        return self.state.copy()

    def step(self, actions):
        self.state[:, 1] += 0.1 * (actions - 1)
        self.state[:, 0] += 0.1 * self.state[:, 1]
        done = np.abs(self.state[:, 0]) > 2
        rewards = (1 - self.state[:, 0] ** 2 - done).astype(np.float32)
        self.reset(done)
        return self.state.copy(), rewards, done


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, states):
        hidden = self.body(states)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


def advantages_of(rewards, values, dones, last):
    advantages, running = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        following = last if t == len(rewards) - 1 else values[t + 1]
        alive = 1 - dones[t]
        delta = rewards[t] + 0.99 * following * alive - values[t]
        running = delta + 0.99 * 0.95 * alive * running
        advantages[t] = running
    return advantages


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--updates", type=int, default=3)
args = parser.parse_args()
device = torch.device(args.device if torch.cuda.is_available() else "cpu")
torch.manual_seed(1)
count, length = 16, 16
environment, agent = Line(count, seed=1), Agent().to(device)
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
state = torch.as_tensor(environment.state, device=device)

for update in range(args.updates):
    states = torch.zeros((length, count, 2), device=device)
    actions, logs, rewards, values, dones = (
        torch.zeros((length, count), device=device) for _ in range(5)
    )
    for t in range(length):
        states[t] = state
        with torch.no_grad():
            distribution, values[t] = agent(state)
            action = distribution.sample()
        actions[t], logs[t] = action, distribution.log_prob(action)
        following, reward, done = environment.step(action.cpu().numpy())
        state = torch.as_tensor(following, device=device)
        rewards[t] = torch.as_tensor(reward, device=device)
        dones[t] = torch.as_tensor(done, device=device).float()
    with torch.no_grad():
        advantages = advantages_of(rewards, values, dones, agent(state)[1])
    returns = (advantages + values).reshape(-1)
    flat = states.reshape(-1, 2), actions.reshape(-1), logs.reshape(-1), advantages.reshape(-1)
    for _ in range(2):
        for batch in torch.randperm(length * count).to(device).split(64):
            x, a, old, advantage = (y[batch] for y in flat)
            distribution, value = agent(x)
            ratio = (distribution.log_prob(a) - old).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = torch.clamp(ratio, 0.8, 1.2)
            policy = -torch.min(ratio * advantage, clipped * advantage).mean()
            value_loss = 0.5 * (value - returns[batch]).square().mean()
            loss = policy + 0.5 * value_loss - 0.01 * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(f"update {update} reward {rewards.mean().item():.4f} loss {loss.item():.4f}")
