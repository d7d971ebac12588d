"""Times training steps of PyTorch on a GPU, and sets them beside halfstep's. scripts/gpu_check.sh calls it.

    gpu_peer.py measure FILE [SECONDS]   writes PyTorch's times to FILE, each timed for so long
    gpu_peer.py table DIR [NOTE]         prints the table from DIR/peer.json and DIR/step-*

Both sides have all data on the GPU: each of PyTorch's steps takes its batch from resident bytes by an index and normalises it
there, as halfstep's do. PyTorch runs eager, eager in channels-last, and compiled with CUDA graphs
(mode="reduce-overhead"); nothing is read back within the timed steps.
"""

import json
import pathlib
import statistics
import sys
import time

PRECISIONS = ["fp32", "tf32", "fp16", "bf16"]
NETS = ["tensorcore", "tutorial_mlp"]
BATCH = 512
SECONDS = 4  # of timing for each net, precision and mode, unless said otherwise


def cnn(nn):
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.4), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10))


def linear4096(nn):
    return nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096))


class Steps:
    """Training steps of one net in one precision and mode."""

    def __init__(self, torch, net, precision, mode):
        self.torch, self.net = torch, net
        torch.manual_seed(42)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = True
        nn, device = torch.nn, "cuda"
        self.half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler  # the latter before PyTorch 2.3
        self.scaler = scaler(enabled=precision == "fp16")
        if net == "tensorcore":
            self.data = torch.randint(256, (60000, 1, 28, 28), dtype=torch.uint8, device=device)
            self.target = torch.randint(10, (60000,), device=device)
            self.model, self.loss = cnn(nn).to(device), nn.CrossEntropyLoss()
            self.optimizer = torch.optim.Adadelta(self.model.parameters(), lr=0.001)
        else:
            self.data = torch.randn(25600, 4096, device=device)
            self.target = torch.randn(25600, 4096, device=device)
            self.model, self.loss = linear4096(nn).to(device), nn.MSELoss()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.channels_last = mode == "channels-last"
        if self.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.forward = torch.compile(self.model, mode="reduce-overhead") if mode == "compiled" else self.model
        self.order = torch.randperm(len(self.data), device=device)
        self.at = 0

    def step(self):
        torch = self.torch
        if self.at + BATCH > len(self.order):
            self.at = 0
        index = self.order[self.at:self.at + BATCH]
        self.at += BATCH
        x, target = self.data[index], self.target[index]
        if self.net == "tensorcore":
            x = (x.float() / 255 - 0.1307) / 0.3081
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=self.half or torch.float16, enabled=self.half is not None):
            loss = self.loss(self.forward(x), target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def time(self, seconds):
        """Median milliseconds of a step, after a warm-up, of groups of ten steps."""
        for _ in range(15):
            self.step()
        self.torch.cuda.synchronize()
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            begin = time.perf_counter()
            for _ in range(10):
                self.step()
            self.torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / 10 * 1e3)
        return statistics.median(times)


def measure(path, seconds=SECONDS):
    import torch

    rows = []
    for net in NETS:
        for precision in ["fp16", "tf32", "fp32", "bf16"]:  # what is asked first: compiling takes long, and time is limited
            for mode in ["eager", "channels-last", "compiled"]:
                if mode == "channels-last" and net != "tensorcore":
                    continue
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                try:
                    ms = Steps(torch, net, precision, mode).time(float(seconds))
                except Exception as e:  # torch.compile wants a C compiler, for one
                    print(f"{net} {precision} {mode}: {str(e).strip().splitlines()[:1]}", file=sys.stderr)
                    continue
                rows.append({"net": net, "precision": precision, "mode": mode, "ms": ms, "peak_bytes": torch.cuda.max_memory_allocated()})
                pathlib.Path(path).write_text(json.dumps({"torch": torch.__version__, "rows": rows}))


def step(folder, net, precision):
    """What bench step says of a net in a precision; None where it failed or the GPU has no tf32."""
    try:
        ours = json.loads((folder / f"step-{net}-{precision}").read_text().splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return None
    return ours if precision != "tf32" or ours["tf32"] else None


def table(folder, note=""):
    folder = pathlib.Path(folder)
    try:
        peer = json.loads((folder / "peer.json").read_text())
    except OSError:
        peer = {"torch": "not measured", "rows": []}
    print(f"\n{note and note + '; '}milliseconds a step, data resident; PyTorch {peer['torch']}")
    print(f"{'net':<13} {'precision':<9} {'batch':>5} {'halfstep':>9} {'MB':>6} {'eager':>9} {'best':>9} {'best mode':<14} {'MB':>6} {'eager/ours':>10} {'best/ours':>9}")
    for net in NETS:
        for precision in PRECISIONS:
            ours = step(folder, net, precision)
            if ours is None:
                print(f"{net:<13} {precision:<9} failed, or this GPU has no tf32")
                continue
            mine, batch, megabytes = ours["ms_step_median"], ours["batch"], ours["mem_peak_bytes"] / 1e6
            rows = [r for r in peer["rows"] if r["net"] == net and r["precision"] == precision]
            if not rows:
                print(f"{net:<13} {precision:<9} {batch:>5} {mine:>9.4f} {megabytes:>6.0f}")
                continue
            eager = next((r["ms"] for r in rows if r["mode"] == "eager"), float("nan"))
            best = min(rows, key=lambda r: r["ms"])
            print(f"{net:<13} {precision:<9} {batch:>5} {mine:>9.4f} {megabytes:>6.0f} {eager:>9.4f} {best['ms']:>9.4f} {best['mode']:<14} "
                  f"{best['peak_bytes'] / 1e6:>6.0f} {eager / mine:>10.2f} {best['ms'] / mine:>9.2f}")
    targets(folder, peer)


def targets(folder, peer):
    """Sets what the reference CNN in float16 is to reach on an H200 beside what was measured."""
    ours, tf32 = step(folder, "tensorcore", "fp16"), step(folder, "tensorcore", "tf32")
    rows = {r["mode"]: r["ms"] for r in peer["rows"] if r["net"] == "tensorcore" and r["precision"] == "fp16"}
    runs = sorted(folder.glob("runs/*tensorcore_amp*/summary.json"))
    lines = []
    if ours:
        mine = ours["ms_step_median"]
        if "eager" in rows:
            lines.append((rows["eager"] / mine, "times PyTorch eager", "at least 5"))
        if "compiled" in rows:
            lines.append((rows["compiled"] / mine, "times PyTorch compiled", "at least 2"))
        if tf32:
            lines.append((tf32["ms_step_median"] / mine, "times our tf32", "at least 1.3"))
    if runs:
        run = json.loads(runs[-1].read_text())
        lines.append((run["seconds"], f"s for {run['epochs']} epochs", "under 2 for 20"))
        lines.append(((run["mem_peak_bytes"] + run["resident_data_bytes"]) / 1e6, "MB at peak, data included", "under 175"))
    print("\nreference CNN, float16, against what is asked on an H200 at batch 512:")
    for value, what, wanted in lines:
        print(f"  {value:8.2f} {what} ({wanted})")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("measure", "table"):
        sys.exit(__doc__)
    {"measure": measure, "table": table}[sys.argv[1]](*sys.argv[2:])
