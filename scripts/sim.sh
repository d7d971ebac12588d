#!/bin/sh
# Builds the CUDA simulator, device/cuda/sim/build/libcuda.so.1: a driver library that runs the kernel sources on the host,
# for the tests of device/cuda; then runs its own tests. Needs g++ and cuda.h (scripts/install_cuda.sh), on x86-64 with AVX2
# and F16C. Use it as
#
#	HALFSTEP_LIBCUDA=$PWD/device/cuda/sim/build/libcuda.so.1 go test -tags gpu ./device/cuda/...
set -eu
cd "$(dirname "$0")/../device/cuda/sim"
mkdir -p build
# Nothing is contracted: the kernels say fmaf where they mean it, as nvcc is told by -fmad=false.
flags="-std=c++17 -O3 -march=x86-64-v3 -fno-math-errno -ffp-contract=off -fPIC -fvisibility=hidden -DHALFSTEP_SIM"
flags="$flags -Wall -Wextra -Wno-unused-function -Wno-unknown-pragmas"

# compile SOURCE makes build/SOURCE.o unless it is newer than the source and all headers.
compile() {
	object=build/$(basename "$1").o
	if [ -f "$object" ] && [ -z "$(find "$1" ./*.h ../kernels/*.h ../../../scripts/sim.sh -newer "$object")" ]; then
		return
	fi
	echo "sim: $1"
	g++ $flags -x c++ -c "$1" -o "$object"
}

for source in *.cpp ../kernels/*.cu; do
	compile "$source"
done
cd build
g++ -o selftest selftest.cpp.o grid.cpp.o fiber.cpp.o
./selftest
g++ -shared -Wl,-z,defs -Wl,-soname,libcuda.so.1 -o libcuda.so.1 driver_*.cpp.o grid.cpp.o fiber.cpp.o ./*.cu.o
echo "sim: $PWD/libcuda.so.1"
