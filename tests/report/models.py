"""Small trainings whose reports the tests look at."""

import torch


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.convolution(x)) + x)


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = torch.nn.Sequential(Block(8), Block(8))
        self.head = torch.nn.Linear(8, 5)

    def forward(self, images, labels):
        x = self.blocks(self.stem(images)).mean((2, 3))
        return torch.nn.functional.cross_entropy(self.head(x), labels)


def train(loss_of, parameters, steps):
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    for i in range(steps):
        loss = loss_of(i)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train_images(steps):
    torch.manual_seed(0)
    model = Images().to("lazuli")
    images, labels = torch.randn(32, 3, 8, 8), torch.randint(0, 5, (32,))

    def loss(i):
        rows = slice(i % 8 * 4, i % 8 * 4 + 4)
        return model(images[rows].to("lazuli"), labels[rows].to("lazuli"))

    train(loss, model.parameters(), steps)


def train_bert(steps):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=100,
    )
    model = BertForSequenceClassification(config).to("lazuli")
    words, labels = torch.randint(0, 100, (32, 8)), torch.randint(0, 2, (32,))

    def loss(i):
        rows = slice(i % 8 * 4, i % 8 * 4 + 4)
        return model(input_ids=words[rows].to("lazuli"), labels=labels[rows].to("lazuli")).loss

    train(loss, model.parameters(), steps)
