#!/usr/bin/env bash
# Checks halfstep on a machine with an NVIDIA GPU and PyTorch, in one call of less than eight minutes, and ends in a short
# table: halfstep against PyTorch, data resident on the GPU for both. It has not run on a GPU yet.
#
#   scripts/gpu_check.sh build DIR   where Go and cuda.h are: builds what the check needs into DIR
#   scripts/gpu_check.sh run DIR     where the GPU is: needs the NVIDIA driver and bash; Python with PyTorch for the comparison
#
# run writes everything it measures into DIR/out. Each part has a time limit, and one that fails does not stop the others.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	echo "usage: gpu_check.sh build DIR | run DIR" >&2
	exit 2
}
[ $# = 2 ] || usage
mkdir -p "$2" && dir=$(cd "$2" && pwd) || exit 1

build() {
	cd "$here/.." || exit 1
	go build -tags gpu -o "$dir/train" ./cmd/train &&
		go test -c -tags gpu -o "$dir/cuda.test" ./device/cuda &&
		cp scripts/gpu_check.sh scripts/gpu_peer.py "$dir/"
}

# part NAME SECONDS COMMAND... runs one part with its output in out/NAME and tells how it ended.
failed=0
part() {
	local name=$1 limit=$2 code=0
	shift 2
	local begin=$SECONDS
	timeout --kill-after=10 "$limit" "$@" >"$dir/out/$name" 2>"$dir/out/$name.err" || code=$?
	if [ "$code" = 0 ]; then
		echo "ok      $name ($((SECONDS - begin)) s)"
	else
		echo "FAILED  $name (exit $code, $((SECONDS - begin)) s): $(tail -n 1 "$dir/out/$name.err")"
		failed=1
	fi
}

run() {
	mkdir -p "$dir/out" && cd "$dir" || exit 1
	unset HALFSTEP_LIBCUDA HALFSTEP_SIM
	part devices 60 ./train devices
	sed 's/^/  /' out/devices
	part conformance 120 env HALFSTEP_TEST_GPU=1 ./cuda.test -test.run '^TestGPU$' -test.v
	for precision in fp32 tf32 fp16 bf16; do
		local overrides=(amp.enabled=false) mode=
		case $precision in
		tf32) mode=tf32 ;;
		fp16) overrides=(amp.enabled=true amp.dtype=float16) ;;
		bf16) overrides=(amp.enabled=true amp.dtype=bfloat16) ;;
		esac
		for net in tensorcore tutorial_mlp; do
			part "step-$net-$precision" 30 env HALFSTEP_CUDA=$mode ./train bench step --config posts/$net device=cuda "${overrides[@]}" --steps 100 --json
		done
	done
	part profile 30 ./train bench step --config posts/tensorcore_amp device=cuda --profile
	part no-graph 30 env HALFSTEP_CUDA=no_graph ./train bench step --config posts/tensorcore_amp device=cuda --steps 100 --json
	part train-20-epochs 60 ./train --config posts/tensorcore_amp device=cuda runs_dir=out/runs
	part accuracy 60 ./train --config cnn_amp device=cuda epochs=3 runs_dir=out/runs
	part compare 100 ./train compare --config posts/tensorcore device=cuda --precision fp32,fp16,bf16 --batch-sizes 512 --epochs 20 --markdown
	part peer 150 python3 gpu_peer.py measure out/peer.json
	python3 gpu_peer.py table out || failed=1
	echo "$SECONDS s; everything measured is in $dir/out"
	return $failed
}

case $1 in
build) build ;;
run) run ;;
*) usage ;;
esac
