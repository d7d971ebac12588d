#!/usr/bin/env bash
# Runs the tests. Without options it needs only Go.
#
#   scripts/test.sh          format, vet, all unit and conformance tests
#   scripts/test.sh --all    also: lint, other instruction-set levels, race detector, generated files, arm64, accuracy on the
#                            real MNIST, fuzzing for seconds, the CUDA simulator; installs what it needs
#   scripts/test.sh --long   --all with fuzzing for minutes and a hundred kills
set -euo pipefail
cd "$(dirname "$0")/.."

all=false long=false
for arg in "$@"; do
  case $arg in
    --all) all=true ;;
    --long) all=true long=true ;;
    *) echo "usage: scripts/test.sh [--all | --long]" >&2; exit 2 ;;
  esac
done

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

step "format"
unformatted=$(gofmt -l $(git ls-files '*.go' 2>/dev/null || find . -name '*.go'))
if [ -n "$unformatted" ]; then echo "gofmt would change: $unformatted" >&2; exit 1; fi

step "vet"
go vet ./...

step "tests"
$long && export HALFSTEP_LONG=1
go test ./...

$all || exit 0

step "arm64 compiles"
GOARCH=arm64 go vet ./...

step "lint"
scripts/lint.sh

step "generated assembly is what the generator makes"
go run ./device/cpu/gen --check

step "instruction-set levels, as a user forces them; the tests above went through all that this machine has"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/train" ./cmd/train
for level in portable avx2 avx512; do
  if HALFSTEP_CPU=$level "$bin/train" devices | grep -q "^cpu .*$level,"; then
    HALFSTEP_CPU=$level "$bin/train" --config mlp_amp --fast-dev-run
  else
    echo "$level: not on this machine"
  fi
done

step "race detector"
go test -race -short ./device/cpu/pool ./runs/... ./trainer

step "accuracy on MNIST after two epochs: float32, float16, bfloat16"
go test -count=1 -tags accuracy -run TestAccuracy -v ./trainer

step "fuzzing"
fuzz_time=10s
$long && fuzz_time=3m
while read -r pkg target; do
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzz_time" -fuzzminimizetime 10x "$pkg"
done <<'TARGETS'
./configs FuzzLoad
./data FuzzIDX
./runs FuzzLog
./runs/report FuzzReport
./runs/safetensors FuzzDecode
TARGETS

if [ -x scripts/test_cuda.sh ]; then
  step "CUDA on the simulator"
  scripts/test_cuda.sh
fi
step "done"
