#!/usr/bin/env bash
# Checks halfstep on a machine with an NVIDIA GPU and PyTorch, in one call of less than eight minutes, and ends in a short
# table: halfstep against PyTorch, data resident on the GPU for both. It has not run on a GPU yet.
#
#   scripts/gpu_check.sh build DIR      where Go and cuda.h are: builds what the check needs into DIR
#   scripts/gpu_check.sh run DIR        where the GPU is: needs the NVIDIA driver and bash; Python with PyTorch for the comparison
#   scripts/gpu_check.sh rehearse DIR   without a GPU: every command of run once, with small nets, on the simulator that
#                                       HALFSTEP_LIBCUDA names (scripts/sim.sh); what it measures means nothing
#
# run writes everything it measures into DIR/out, rehearse into DIR/simulated. Each part has a time limit, and one that fails
# does not stop the others.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	echo "usage: gpu_check.sh build DIR | run DIR | rehearse DIR" >&2
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

# What a rehearsal changes.
out=out label='' patience=1
steps=100 batch=512 epochs=20 peer_seconds=4
cnn=() mlp=() short=() # overrides that make the two nets, and a training, small

# part NAME SECONDS COMMAND... runs one part with its output in $out/NAME and tells how it ended.
failed=0
part() {
	local name=$1 limit=$(($2 * patience)) code=0
	shift 2
	local begin=$SECONDS
	timeout --kill-after=10 "$limit" "$@" >"$out/$name" 2>"$out/$name.err" || code=$?
	if [ "$code" = 0 ]; then
		echo "${label}ok      $name ($((SECONDS - begin)) s)"
	else
		echo "${label}FAILED  $name (exit $code, $((SECONDS - begin)) s): $(tail -n 1 "$out/$name.err")"
		failed=1
	fi
}

# step NAME CONFIG ARGUMENT... times a training step; CONFIG is one of posts/.
step() {
	local name=$1 config=$2 small=("${cnn[@]}")
	shift 2
	[ "$config" != tutorial_mlp ] || small=("${mlp[@]}")
	part "$name" 30 ./train bench step --config "posts/$config" device=cuda "${small[@]}" --steps "$steps" "$@"
}

measure() {
	part devices 60 ./train devices
	sed "s/^/$label  /" "$out/devices"
	part conformance 120 env HALFSTEP_TEST_GPU=1 ./cuda.test -test.run '^TestGPU$' -test.v
	for net in tensorcore tutorial_mlp; do
		step "step-$net-fp32" $net amp.enabled=false --json
		step "step-$net-tf32" $net amp.enabled=false cuda.allow_tf32=true --json
		step "step-$net-fp16" $net amp.enabled=true amp.dtype=float16 --json
		step "step-$net-bf16" $net amp.enabled=true amp.dtype=bfloat16 --json
	done
	step profile tensorcore_amp --profile
	step no-graph tensorcore_amp --no-graph --json
	part train-20-epochs 60 ./train --config posts/tensorcore_amp device=cuda runs_dir="$out/runs" "${cnn[@]}" "${short[@]}"
	part accuracy 60 ./train --config cnn_amp device=cuda epochs=3 runs_dir="$out/runs" "${cnn[@]}" "${short[@]}"
	part compare 100 ./train compare --config posts/tensorcore device=cuda "${cnn[@]}" --precision fp32,tf32,fp16,bf16 \
		--batch-sizes "$batch" --epochs "$epochs" --markdown
}

# conclude prints the table; its arguments are a note on it.
conclude() {
	python3 gpu_peer.py table "$out" "$@" || failed=1
	echo "$label$SECONDS s; everything measured is in $dir/$out"
	return $failed
}

run() {
	cd "$dir" && mkdir -p "$out" || exit 1
	unset HALFSTEP_LIBCUDA HALFSTEP_SIM
	measure
	part peer 150 python3 gpu_peer.py measure "$out/peer.json" "$peer_seconds"
	conclude
}

# images FILE N writes N images of 28x28 noise and their labels as IDX files, FILE-images-idx3-ubyte and FILE-labels-idx1-ubyte.
images() {
	local size i
	size=$(printf '\\%o' "$2")
	{
		printf "\0\0\10\3\0\0\0$size\0\0\0\34\0\0\0\34"
		head -c $(($2 * 28 * 28)) /dev/urandom
	} >"$1-images-idx3-ubyte"
	{
		printf "\0\0\10\1\0\0\0$size"
		for ((i = 0; i < $2; i++)); do printf "\\$(printf %o $((i % 10)))"; done
	} >"$1-labels-idx1-ubyte"
}

rehearse() {
	cd "$dir" || exit 1
	out=simulated label='SIMULATED ' patience=10
	steps=1 batch=4 epochs=1 peer_seconds=0.1
	local units=model.layers
	cnn=(data.name=idx "data.dir=$dir/$out" data.batch_size=4 $units.0.conv2d.filters=16 $units.2.conv2d.filters=32 $units.7.linear.units=16)
	mlp=(data.batch_size=8 'data.random={samples: 32, features: 64, targets: 64}' $units.{0,2,4}.linear.units=64)
	short=(epochs=1 max_steps=2)
	if [ -z "${HALFSTEP_LIBCUDA:-}" ] || ! ./train devices | grep -q '^cuda .*CUDA simulator'; then
		echo "rehearse: HALFSTEP_LIBCUDA must name the simulator's libcuda.so.1, and DIR must be built: see the head of $0" >&2
		exit 2
	fi
	mkdir -p "$out" && images "$out/train" 32 && images "$out/t10k" 8 || exit 1
	echo "${label}by $HALFSTEP_LIBCUDA, on this machine's CPU: times mean nothing"
	measure
	if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
		part peer 150 python3 gpu_peer.py measure "$out/peer.json" "$peer_seconds"
	else
		echo "${label}left out: peer, for here is no PyTorch with CUDA"
	fi
	conclude 'SIMULATED, small nets: times mean nothing'
}

case $1 in
build) build ;;
run) run ;;
rehearse) rehearse ;;
*) usage ;;
esac
