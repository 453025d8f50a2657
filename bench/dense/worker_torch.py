"""PyTorch's worker: eager and compiled training steps, and the sgemm that gives the bound.

Modes
  eager    a tight hand-written loop: rows by index_select of a permutation, autograd, gradients
           set to None, torch.optim. Which of torch.optim's implementations (single tensor,
           foreach, fused) and which way of gathering (per batch, or the whole epoch at once)
           is fastest depends on the row, so each is tried for an epoch and the best one is
           measured.
  compile  the whole step (gather, loss, gradients, update) as one torch.compile graph; where
           that fails, a compiled loss with autograd and the best torch.optim.
"""

import time

import torch
import torch.nn.functional as F

import worker


def tensors(config):
    images, labels = worker.load(config["data"], "train")
    return torch.from_numpy(images), torch.from_numpy(labels).long()


def network(layers, x):
    for index in range(0, len(layers), 2):
        x = F.linear(x, layers[index], layers[index + 1])
        if index + 2 < len(layers):
            x = F.relu(x)
    return x


class Torch(worker.Trainer):
    def __init__(self, config):
        self.row = config["row"]
        self.seed = config["seed"]
        self.images, self.labels = tensors(config)
        torch.manual_seed(self.seed)

    def fresh(self, grad):
        """New parameters (weights [out, in], bias, ...) from the common start."""
        params = []
        for weights, bias in worker.initial(self.row["sizes"], self.seed):
            params += [torch.from_numpy(weights.T.copy()), torch.from_numpy(bias)]
        self.params = [p.requires_grad_(grad) for p in params]
        return self.params

    def layers(self):
        p = [t.detach().numpy() for t in self.params]
        return [(p[i].T, p[i + 1]) for i in range(0, len(p), 2)]

    def optimizer(self, kind):
        options = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
        maker = torch.optim.Adam if self.row["optimizer"] == "adam" else torch.optim.SGD
        return maker(self.params, lr=self.row["rate"], **options[kind])

    def timed(self, action):
        start = time.perf_counter()
        action()
        return time.perf_counter() - start


class Eager(Torch):
    def __init__(self, config, loss=None):
        super().__init__(config)
        self.loss = loss or (lambda params, x, y: F.cross_entropy(network(params, x), y))
        self.choose(["single", "foreach", "fused"])

    def start(self, kind, gather):
        self.kind, self.gather = kind, gather
        self.fresh(grad=True)
        self.opt = self.optimizer(kind)

    def choose(self, kinds):
        def trial(kind, gather):
            def run():
                self.start(kind, gather)
                return self.timed(self.epoch)

            return run

        self.start(kinds[0], "batch")
        self.epoch()  # nobody's trial pays for first-use costs
        kind, kinds_times = worker.pick([(k, trial(k, "batch")) for k in kinds])
        gather, _ = worker.pick([("batch", lambda: kinds_times[kind]), ("epoch", trial(kind, "epoch"))])
        self.start(kind, gather)
        self.note = f"optim {kind}, gather per {gather}"

    def epoch(self):
        batch, params, step = self.row["batch"], self.params, self.opt.step
        images, labels, loss = self.images, self.labels, self.loss
        order = torch.randperm(len(images))
        if self.gather == "epoch":
            batches = zip(images.index_select(0, order).split(batch), labels.index_select(0, order).split(batch))
        else:
            batches = ((images.index_select(0, i), labels.index_select(0, i)) for i in order.split(batch))
        for x, y in batches:
            loss(params, x, y).backward()
            step()
            for p in params:  # zero_grad(set_to_none=True) without its bookkeeping
                p.grad = None


class OneGraph(Torch):
    """torch.compile of the entire step, parameters updated in place inside the graph."""

    note = "one graph: gather, gradients and update"

    def __init__(self, config):
        super().__init__(config)
        params = self.fresh(grad=False)
        rate, adam = self.row["rate"], self.row["optimizer"] == "adam"
        self.first = [torch.zeros_like(p) for p in params] if adam else []
        self.second = [torch.zeros_like(p) for p in params] if adam else []
        self.count = torch.zeros(())

        def loss(params, x, y):
            return F.cross_entropy(network(params, x), y)

        def step(params, first, second, count, images, labels, index):
            x, y = images.index_select(0, index), labels.index_select(0, index)
            grads = torch.func.grad(loss)(params, x, y)
            if not adam:
                for p, g in zip(params, grads):
                    p.sub_(g, alpha=rate)
                return
            count.add_(1)
            scale = rate * torch.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            epsilon = 1e-8 * torch.sqrt(1 - 0.999**count)
            for p, g, m, v in zip(params, grads, first, second):
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                p.sub_(scale * m / (v.sqrt() + epsilon))

        self.step = torch.compile(step, fullgraph=True, dynamic=False)

    def reset(self):
        """Back to the common start after the compiling epoch, in the same tensors."""
        old = self.params
        for p, value in zip(old, self.fresh(grad=False)):
            p.copy_(value)
        self.params = old
        for state in [*self.first, *self.second, self.count]:
            state.zero_()

    def epoch(self):
        with torch.no_grad():
            for index in torch.randperm(len(self.images)).split(self.row["batch"]):
                self.step(self.params, self.first, self.second, self.count, self.images, self.labels, index)


def compiled(config):
    try:
        trainer = OneGraph(config)
        trainer.epoch()
        trainer.reset()
        return trainer
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        loss = torch.compile(lambda params, x, y: F.cross_entropy(network(params, x), y), dynamic=False)
        trainer = Eager(config, loss)
        trainer.note = f"one graph failed ({reason}); compiled loss, {trainer.note}"
        return trainer


class Machine(worker.Trainer):
    """The machine's limits as PyTorch reaches them: sgemm and a sum over memory."""

    def __init__(self, config):
        self.note = torch.__version__

    def answer(self, request):
        def best(action, repeats):
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                action()
                times.append(time.perf_counter() - start)
            return min(times)

        n = 1024
        a, b, c = torch.rand(n, n), torch.rand(n, n), torch.empty(n, n)
        gemm = best(lambda: torch.mm(a, b, out=c), 30)
        big = torch.rand(64 << 20)
        read = best(lambda: big.sum(), 6)
        return {"gflops": 2 * n**3 / gemm / 1e9, "read_gbps": big.numel() * 4 / read / 1e9, "torch": torch.__version__}


def build(config):
    torch.set_num_threads(config["threads"])
    return {"eager": Eager, "compile": compiled, "machine": Machine}[config["mode"]](config)


if __name__ == "__main__":
    worker.serve(build)
