"""A plain Flower app: scikit-learn's logistic regression, which goes on from the weights that it is sent."""

import warnings

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

app = ClientApp()


def start(message: Message, context: Context) -> tuple[LogisticRegression, np.ndarray, np.ndarray]:
    table = np.loadtxt(str(context.node_config["data"]), delimiter=",")
    model = LogisticRegression(max_iter=int(context.run_config["local-steps"]), warm_start=True)
    model.classes_ = np.array([0, 1])
    model.coef_, model.intercept_ = message.content["arrays"].to_numpy_ndarrays()
    return model, table[:, :-1], table[:, -1].astype(int)


@app.train()
def train(message: Message, context: Context) -> Message:
    model, X, y = start(message, context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    metrics = MetricRecord({"num-examples": len(X), "train-loss": log_loss(y, model.predict_proba(X))})
    content = RecordDict({"arrays": ArrayRecord([model.coef_, model.intercept_]), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    model, X, y = start(message, context)
    metrics = MetricRecord({"num-examples": len(X), "accuracy": model.score(X, y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
