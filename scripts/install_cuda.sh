#!/bin/sh
# Installs the CUDA 11.8 compiler and headers from Debian's non-free component: what scripts/ptx.sh, scripts/sim.sh and a
# build with -tags gpu need. A finished binary needs none of it. Idempotent; run as root on Debian 12.
set -eu

if command -v nvcc >/dev/null && [ -f /usr/include/cuda.h ]; then
	echo "install_cuda: nvcc and cuda.h are there"
	exit 0
fi

# Enable the component in whichever form apt keeps its sources.
for f in /etc/apt/sources.list.d/*.sources; do
	[ -f "$f" ] || continue
	grep -q 'debian-archive-keyring\|debian.org' "$f" || continue
	sed -i '/^Components:/{/non-free\( \|$\)/!s/$/ contrib non-free/}' "$f"
done
if [ -f /etc/apt/sources.list ]; then
	sed -i '/^deb .*debian/{/ non-free\( \|$\)/!s/$/ contrib non-free/}' /etc/apt/sources.list
fi

apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nvidia-cuda-toolkit nvidia-cuda-dev
nvcc --version | tail -n 1
