"""Times training steps of PyTorch and halfstep in turns. scripts/peer_torch.sh calls it and describes its options.

PyTorch gets every advantage: batches are normalised float32 tensors made in advance (halfstep gathers and normalises inside
its step), gradients are set to none, nothing is read back, and of eager contiguous, eager channels-last and torch.compile
the fastest counts.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="CUDA initialization")  # PyPI's build looks for a GPU; all is on the CPU here

import torch  # noqa: E402
from torch import nn  # noqa: E402

CLASSES = 10
BATCHES = 4  # made in advance, used in turn


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.4), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, CLASSES))


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(512, CLASSES))


def sigmoid():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 16), nn.Sigmoid(), nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, CLASSES), nn.Softmax(1))


def linear4096():
    return nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096))


def images(batch):
    return torch.randn(batch, 1, 28, 28), torch.randint(CLASSES, (batch,))


def images_one_hot(batch):
    x, y = images(batch)
    return x, nn.functional.one_hot(y, CLASSES).float()


def rows4096(batch):
    return torch.randn(batch, 4096), torch.randn(batch, 4096)


def summed_squares(y, target):
    return (y - target).square().sum() / len(y)


class Net:
    """A net with its batch size, as PyTorch builds it and as halfstep's configuration names it."""

    def __init__(self, model, batch, data, loss, optimizer, config, *overrides):
        self.model, self.batch, self.data, self.loss, self.optimizer = model, batch, data, loss, optimizer
        self.halfstep = ["--config", config, f"data.batch_size={batch}", *overrides]
        self.images = model is cnn

    def modes(self):
        yield "contiguous"
        if self.images:
            yield "channels-last"
        if hasattr(torch, "compile"):
            yield "compile"


def adadelta(p):
    return torch.optim.Adadelta(p, lr=1.0, rho=0.9, eps=1e-6)


def adam(p):
    return torch.optim.Adam(p, lr=1e-3)


def sgd(p):
    return torch.optim.SGD(p, lr=1e-3)


NETS = {
    "cnn512": Net(cnn, 512, images, nn.CrossEntropyLoss(), adadelta, "cnn"),
    "cnn1024": Net(cnn, 1024, images, nn.CrossEntropyLoss(), adadelta, "cnn"),
    "mlp512": Net(mlp, 512, images, nn.CrossEntropyLoss(), adam, "mlp"),
    "sigmoid512": Net(sigmoid, 512, images_one_hot, summed_squares, sgd, "posts/sigmoid_mlp"),
    "sigmoid1": Net(sigmoid, 1, images_one_hot, summed_squares, sgd, "posts/sigmoid_mlp"),
    "linear4096": Net(linear4096, 512, rows4096, nn.MSELoss(), sgd, "posts/tutorial_mlp", "data.random.samples=2560"),
}

# halfstep's precision -> PyTorch's, and halfstep's overrides
PRECISIONS = {
    "fp32": ("fp32", ["amp.enabled=false"]),
    "bf16": ("bf16", ["amp.enabled=true", "amp.dtype=bfloat16"]),
    "fp16": ("fp32", ["amp.enabled=true", "amp.dtype=float16"]),
}


class TorchSteps:
    """Training steps of a net in one mode and precision."""

    def __init__(self, net, precision, mode):
        torch.manual_seed(42)
        model = net.model()
        batches = [net.data(net.batch) for _ in range(BATCHES)]
        if mode == "channels-last":
            model = model.to(memory_format=torch.channels_last)
            batches = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in batches]
        self.optimizer = net.optimizer(model.parameters())
        self.model = torch.compile(model) if mode == "compile" else model
        self.loss, self.half = net.loss, precision == "bf16"
        self.batches = itertools.cycle(batches)
        self.mode = mode

    def step(self):
        x, target = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.half):
            loss = self.loss(self.model(x), target)
        loss.backward()
        self.optimizer.step()

    def time(self, steps):
        """Median milliseconds of a step. Short steps are timed several at once; two steps and 0.2 s of warm-up come before."""
        begin, warm, shortest = time.perf_counter(), 0, float("inf")
        while warm < 2 or time.perf_counter() - begin < 0.2:
            shortest = min(shortest, self.seconds(1))
            warm += 1
        several = max(1, min(1000, int(1e-3 / shortest)))
        return statistics.median(self.seconds(several) / several for _ in range(steps)) * 1e3

    def seconds(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - begin


def fastest(net, precision, steps):
    """The mode that PyTorch is fastest in. A mode that this version cannot run is told and left out."""
    best, best_ms = None, float("inf")
    for mode in net.modes():
        try:
            candidate = TorchSteps(net, precision, mode)
            ms = candidate.time(max(3, steps // 4))
        except Exception as e:  # torch.compile wants a C++ compiler, for one
            reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
            print(f"  {mode}: not available: {reason}", file=sys.stderr)
            continue
        if ms < best_ms:
            best, best_ms = candidate, ms
    return best


def halfstep_ms(binary, net, overrides, steps, threads):
    command = [binary, "bench", "step", *net.halfstep, *overrides, "device=cpu", f"threads={threads}", "--steps", str(steps), "--json"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)["ms_step_median"]


def compare(name, precision, options):
    net = NETS[name]
    torch_precision, overrides = PRECISIONS[precision]
    theirs = fastest(net, torch_precision, options.steps)
    pairs = []
    for _ in range(options.pairs):
        pairs.append((theirs.time(options.steps), halfstep_ms(options.halfstep, net, overrides, options.steps, options.threads)))
    ratios = [t / h for t, h in pairs]
    t, h = (statistics.median(p) for p in zip(*pairs))
    print(f"{name:<11} {precision:<9} {torch_precision:<8} {theirs.mode:<14} {t:>10.4g} {h:>11.4g} {statistics.median(ratios):>7.2f}"
          f"   {min(ratios):.2f} - {max(ratios):.2f}", flush=True)


def product_gflops(n=2048):
    """The rate of PyTorch's own float32 matrix product: it tells a build with a slow BLAS."""
    a, b = torch.randn(n, n), torch.randn(n, n)
    best = float("inf")
    for _ in range(4):
        begin = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - begin)
    return 2 * n**3 / best / 1e9


def subset(allowed):
    def parse(text):
        names = text.split(",")
        for n in names:
            if n not in allowed:
                raise argparse.ArgumentTypeError(f"{n!r}, want some of {', '.join(allowed)}")
        return names
    return parse


def main():
    p = argparse.ArgumentParser(prog="peer_torch")
    p.add_argument("--halfstep", required=True, help="the train binary")
    p.add_argument("--nets", type=subset(NETS), default=list(NETS))
    p.add_argument("--precisions", type=subset(PRECISIONS), default=list(PRECISIONS))
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = p.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)

    print(f"PyTorch {torch.__version__} (Python {platform.python_version()}) and halfstep, {options.threads} threads; medians of"
          f" {options.pairs} pairs, {options.steps} timings each; ratio: time of PyTorch / time of halfstep")
    load = os.getloadavg()[0]
    print(f"PyTorch's float32 matrix product of 2048 x 2048 runs at {product_gflops():.0f} GFLOP/s here; load average before"
          f" this run {load:.1f} (other work on the machine slows PyTorch's threads down more than halfstep's)")
    print(f"{'net':<11} {'halfstep':<9} {'PyTorch':<8} {'mode':<14} {'PyTorch ms':>10} {'halfstep ms':>11} {'ratio':>7}   range", flush=True)
    for name in options.nets:
        for precision in options.precisions:
            compare(name, precision, options)


if __name__ == "__main__":
    main()
