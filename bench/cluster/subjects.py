"""What is measured: the rows, the subjects of each row, and the figures required of them."""

from dataclasses import dataclass

from rows import alexnet, flowers

#: Bytes of an all-reduce: a bucket, a layer of flowers-cnn's size, all gradients of AlexNet.
SIZES = (1_000_000, 25_000_000, 240_000_000)
#: The link of the lab.
RATE = "1800mbit"
RATE_BITS = 1.8e9

INDEPENDENT = "two independent, one core each"
HERE = "2 processes here"
LAB = f"2 hosts of the lab, {RATE}"
LAB_ALONE = "two independent, one on each host"
TRAINING = [INDEPENDENT, HERE, LAB_ALONE, LAB]


@dataclass(frozen=True)
class Training:
    """A network on two ranks of one core; `batch` is that of one rank."""

    name: str
    title: str
    row: object
    batch: int
    steps: int
    required: dict


def twice(network, batch):
    """The network at the global batch of two ranks."""
    return network(2 * batch)


TRAININGS = [
    Training("flowers", "flowers-cnn 192×192, Adam, batch 32 on each rank", flowers, 32, 12, {HERE: 0.95, LAB: 0.85}),
    Training("alexnet", "AlexNet 224×224, SGD, batch 32 on each rank", alexnet, 32, 6, {}),
]

ALLREDUCE, CURVE, MATMUL, KILLS = "allreduce", "curve", "matmul", "kills"
NAMES = [ALLREDUCE, *[training.name for training in TRAININGS], CURVE, MATMUL, KILLS]

#: Workers of the scaling curve, on hosts of one core under one dilation for all points.
WORKERS = (1, 2, 3, 4, 6, 8, 10)
CURVE_BATCH, CURVE_STEPS = 32, 5

#: All-reduce of threads over the bound that memory sets, and over MPI against the library's own.
REQUIRED_MEMORY_BOUND, REQUIRED_PLAIN = 0.60, 1.0
#: Share of the transfer that training hides, where there is enough to compute.
REQUIRED_HIDDEN = 0.5
#: Two ranks over two independent products at once, and a rank over one product alone.
REQUIRED_MATMUL, REQUIRED_RANK = 0.90, 0.85
MATMUL_N, MATMUL_BLOCK = 6000, 1000
#: Seconds after a kill.
HANG_SECONDS, RESTART_SECONDS = 30.0, 10.0
