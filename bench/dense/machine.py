"""The machine's limits as PyTorch's sgemm reaches them."""

from common.program import Failed
from peers import start


def limits(python, data, seed, known):
    """sgemm 1024³ in GFLOP/s and the reading of memory in GB/s at 1 and 2 threads, into `known`.

    What is already known is only replaced by something better: a limit is a maximum.
    """
    for threads in (1, 2):
        how = {"framework": "torch", "mode": "machine", "threads": threads}
        try:
            worker = start(python, how, None, data, seed)
            answer = worker.ask(do="limits")
            worker.close()
        except Failed:
            continue
        for name, value in (("sgemm_gflops", answer["gflops"]), ("read_gbps", answer["read_gbps"])):
            found = known.setdefault(name, {})
            found[str(threads)] = max(value, found.get(str(threads), 0))
