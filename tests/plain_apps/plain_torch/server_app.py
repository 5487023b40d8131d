"""The server's part: federated averaging by Flower's own strategy."""

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    from plain_torch.client_app import network

    torch.manual_seed(0)
    strategy = FedAvg(min_train_nodes=3, min_evaluate_nodes=3, min_available_nodes=3)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(network().state_dict()),
        train_config=ConfigRecord({"lr": 0.1}),
        num_rounds=int(context.run_config["rounds"]),
    )
    arrays = {name: array.numpy() for name, array in result.arrays.items()}
    np.savez(str(context.run_config["out"]), **arrays, accuracy=result.evaluate_metrics_clientapp[1]["accuracy"])
