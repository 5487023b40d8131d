"""A plain Flower app: a small PyTorch network, sent as its state dict."""

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

app = ClientApp()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def start(message: Message, context: Context) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    table = np.loadtxt(str(context.node_config["data"]), delimiter=",", dtype=np.float32)
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model, torch.tensor(table[:, :-1]), torch.tensor(table[:, -1], dtype=torch.long)


@app.train()
def train(message: Message, context: Context) -> Message:
    model, X, y = start(message, context)
    optimizer = torch.optim.SGD(model.parameters(), lr=message.content["config"]["lr"])
    for _ in range(int(context.run_config["local-steps"])):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X), y)
        loss.backward()
        optimizer.step()
    metrics = MetricRecord({"train_loss": loss.item(), "num-examples": len(X)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    model, X, y = start(message, context)
    model.eval()
    with torch.no_grad():
        accuracy = (model(X).argmax(1) == y).float().mean().item()
    metrics = MetricRecord({"accuracy": accuracy, "num-examples": len(X)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
