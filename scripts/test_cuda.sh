#!/usr/bin/env bash
# Tests the CUDA device without a GPU: installs the CUDA 11.8 toolkit where it is missing, compares and assembles the PTX,
# builds with the tag gpu, checks that the binary starts without a driver, and runs the tests, a short training and the
# commands of gpu_check.sh on the simulator. What runs on the simulator is right or wrong; its times say nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n-- %s (%ss)\n' "$1" "$SECONDS"; }

step "toolkit"
scripts/install_cuda.sh

step "PTX is what the sources give; registers, shared memory and spills"
scripts/ptx.sh --check

step "simulator"
scripts/sim.sh
simulator=$PWD/device/cuda/sim/build/libcuda.so.1

step "build with the tag gpu"
go vet -tags gpu ./device/... ./cmd/...
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
# A linker that binds to every library it is given, as most are; Debian's gcc leaves out what is not used.
printf '#!/bin/sh\nexec gcc -Wl,--no-as-needed "$@"\n' > "$build/gcc"
chmod +x "$build/gcc"
CC=$build/gcc go build -tags gpu -o "$build/train" ./cmd/train
if readelf -d "$build/train" | grep NEEDED | grep cuda; then echo "the binary needs the driver's library to start" >&2; exit 1; fi
HALFSTEP_LIBCUDA=/nowhere/libcuda.so.1 LD_BIND_NOW=1 "$build/train" devices
code=0
(cd "$build" && HALFSTEP_LIBCUDA=/nowhere/libcuda.so.1 ./train --config mlp device=cuda --fast-dev-run) || code=$?
if [ "$code" != 4 ]; then echo "a run on a missing GPU exits with $code, want 4" >&2; exit 1; fi

step "tests on the simulator"
HALFSTEP_LIBCUDA=$simulator go test -tags gpu ./device/cuda/... ./device/devices/...

step "training on the simulator, and on the CPU"
run=(--config mlp_amp epochs=1 max_steps=60 log.every=20 runs_dir="$build/runs")
(cd "$build" && HALFSTEP_LIBCUDA=$simulator ./train "${run[@]}" device=cuda && ./train "${run[@]}" device=cpu)

step "every command of the check on a GPU"
scripts/gpu_check.sh build "$build/check"
HALFSTEP_LIBCUDA=$simulator scripts/gpu_check.sh rehearse "$build/check"
