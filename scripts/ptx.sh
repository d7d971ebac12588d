#!/bin/sh
# Compiles the CUDA kernels to device/cuda/ptx/*.ptx; with --check it only compares. Then it assembles them for every
# supported architecture and prints each kernel's registers, shared and local memory (stack and spills); the latter is a failure. Needs nvcc 11.8
# (scripts/install_cuda.sh): other versions write other PTX.
set -eu
cd "$(dirname "$0")/../device/cuda"
check=
case ${1:-} in
--check) check=1 ;;
'') ;;
*)
	echo "usage: ptx.sh [--check]" >&2
	exit 2
	;;
esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Module and compute capability that it is compiled for.
modules="base:75 f32:75 f16:75 bf16:80 tf32:80"

for m in $modules; do
	name=${m%:*} capability=${m#*:}
	nvcc -ptx -arch=compute_$capability -std=c++17 -O3 -fmad=false -o "$tmp/$name.ptx" kernels/$name.cu
	if [ -z "$check" ]; then
		cp "$tmp/$name.ptx" ptx/
	elif ! cmp -s "$tmp/$name.ptx" ptx/$name.ptx; then
		echo "ptx: ptx/$name.ptx is not what the sources give; run scripts/ptx.sh" >&2
		exit 1
	fi
done

if grep -n 'wmma.load' ptx/*.ptx | grep -v '\.shared'; then
	echo "ptx: a fragment is loaded by a generic address (kernels/shared_fragment.h)" >&2
	exit 1
fi

for sm in 75 80 86 89 90; do
	for m in $modules; do
		[ "$sm" -ge "${m#*:}" ] || continue
		ptxas -v -arch=sm_$sm -o /dev/null "ptx/${m%:*}.ptx" 2>&1 | awk -v sm="$sm" '
			/Compiling entry function/ { name = $7; gsub(/\047/, "", name) }
			/bytes spill stores/ { local = $1 + $5 + $9 } # the stack: arrays with indices that are not known; and spills
			/Used .* registers/ {
				registers = $5; shared = 0
				for (i = 1; i <= NF; i++) if ($i == "smem" || $i == "smem,") shared = $(i - 2)
				printf "%-6s %-26s %4d registers %6d shared %5d local\n", "sm_" sm, name, registers, shared, local
			}'
	done
done | tee "$tmp/table"
if awk '$7 > 0 { bad = 1 } END { exit !bad }' "$tmp/table"; then
	echo "ptx: a kernel keeps what belongs into registers in local memory" >&2
	exit 1
fi
