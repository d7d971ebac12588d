#!/usr/bin/env bash
# Trains the same nets with PyTorch and with halfstep, in turns on this machine, and prints the ratios of their times.
#
#   scripts/peer_torch.sh [--torch auto|pypi|debian] [--nets LIST] [--precisions LIST] [--pairs N] [--steps N] [--threads N]
#
#   --torch       auto (default): the PyTorch that is installed, else PyPI's newest, else Debian's python3-torch
#                 pypi: PyPI's newest, in a virtual environment in the user's cache
#                 debian: python3-torch by apt-get, with OpenBLAS: the reference BLAS that it comes with is many times slower
#   --nets        of cnn512, cnn1024, mlp512, sigmoid512, sigmoid1, linear4096 (default: all)
#   --precisions  of fp32 (against PyTorch fp32), bf16 (against bf16 autocast), fp16 (against PyTorch fp32); default: all
#   --pairs       pairs of measurements per net and precision (default 5)
#   --steps       timed steps of one measurement (default 20)
#   --threads     of both (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."

torch=auto
args=()
while [ $# -gt 0 ]; do
	case $1 in
	--torch) torch=${2:?--torch wants auto, pypi or debian} && shift 2 ;;
	--nets | --precisions | --pairs | --steps | --threads) args+=("$1" "${2:?$1 wants a value}") && shift 2 ;;
	-h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" && exit 0 ;;
	*) echo "peer_torch: unknown option $1 (--help tells more)" >&2 && exit 2 ;;
	esac
done

venv=${XDG_CACHE_HOME:-$HOME/.cache}/halfstep/peer-torch

has_torch() { command -v "$1" >/dev/null && "$1" -c 'import torch' 2>/dev/null; }

# Each of these prints the Python that has PyTorch, or fails. Debian's is not taken as it is, but completed.
installed() {
	for p in python3 /usr/bin/python3 "$venv/bin/python"; do
		has_torch "$p" || continue
		case $("$p" -c 'import torch; print(torch.__file__)' 2>/dev/null) in
		/usr/lib/python3/*) debian ;;
		*) echo "$p" ;;
		esac
		return
	done
	return 1
}

pypi() {
	if ! has_torch "$venv/bin/python"; then
		python3 -m venv "$venv" >&2 && "$venv/bin/python" -m pip install --quiet torch numpy >&2 || return 1
	fi
	has_torch "$venv/bin/python" && echo "$venv/bin/python"
}

debian() {
	if ! has_torch /usr/bin/python3 || ! dpkg -s libopenblas0 >/dev/null 2>&1; then
		apt-get update -qq >&2 &&
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-torch python3-numpy libopenblas0 >&2 || return 1
	fi
	has_torch /usr/bin/python3 && echo /usr/bin/python3
}

case $torch in
auto) python=$(installed || pypi || debian) || python= ;;
pypi) python=$(pypi) || python= ;;
debian) python=$(debian) || python= ;;
*) echo "peer_torch: --torch $torch, want auto, pypi or debian" >&2 && exit 2 ;;
esac
if [ -z "$python" ]; then
	echo "peer_torch: no PyTorch: none is installed, and none could be fetched (--torch $torch)" >&2
	exit 1
fi

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
go build -o "$build/train" ./cmd/train

# A core type or cache size forced on OpenBLAS would slow PyTorch down.
env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$python" scripts/peer_torch.py --halfstep "$build/train" ${args[@]+"${args[@]}"}
