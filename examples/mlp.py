"""Classifies scikit-learn's digits with a small network."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x = torch.tensor(images, dtype=torch.float32) / 16
y = torch.tensor(labels)
order = torch.randperm(len(x))
train, test = order[:1500], order[1500:]

model = nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(4):
    total = 0.0
    shuffled = train[torch.randperm(len(train))]
    for batch in shuffled.split(125):
        loss = F.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / 12:.4f}")

with torch.no_grad():
    predicted = model(x[test]).argmax(1).numpy()
accuracy = (predicted == y[test].numpy()).mean()
print(f"accuracy {accuracy:.4f}")
