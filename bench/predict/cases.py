"""What is predicted and measured: four networks in four layouts. Shapes and batches are not those that doctor measures, but for AlexNet's."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    name: str
    data: str
    settings: tuple
    batch: int
    #: Steps of a measured run, by layout: some seconds each.
    steps: tuple


LAYOUTS = ("1 rank", "2 threads", "2 processes", "2 hosts")

MODELS = (
    Model("softmax", "fake:28x28:10:8192", (("model.preset", "softmax"),), 64, (40000, 40000, 20000, 8000)),
    Model("mlp", "fake:28x28:10:8192", (("model.preset", "mlp"), ("model.hidden", "[256,128]")), 64, (8000, 8000, 6000, 1500)),
    Model("flowers-cnn", "fake:96x96x3:5:256", (("model.preset", "flowers-cnn"),), 32, (60, 90, 90, 40)),
    Model("alexnet", "fake:224x224x3:1000:64", (("model.preset", "alexnet"),), 16, (8, 10, 8, 5)),
)


def cases():
    """[(model, layout, steps)]"""
    return [(model, layout, steps) for model in MODELS for layout, steps in zip(LAYOUTS, model.steps)]


def arguments(model, layout, steps, cluster, run_dir):
    """The words after `train`."""
    settings = {
        "data.name": model.data,
        "data.validation": "test",
        **dict(model.settings),
        "train.batch": model.batch,
        "train.epochs": 1_000_000,
        "train.max_steps": steps,
        "checkpoint.every": "never",
        "strategy.threads": 1,
    }
    words = ["train", "--quiet", "--cluster", cluster, "--run-dir", run_dir]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    if layout == "1 rank":
        words += ["--strategy", "single"]
    if layout == "2 threads":
        words += ["--strategy", "mirrored", "--replicas", "2"]
    return words
