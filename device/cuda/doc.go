// Package cuda runs programs on an NVIDIA GPU. It exists in builds with the tag gpu only, needs nothing but the NVIDIA
// driver at run time (520 or newer), and starts where there is none: Open then says why.
//
// The kernels are CUDA C++ (kernels/), compiled to the PTX in package ptx by scripts/ptx.sh. A step is captured once as a CUDA
// graph; running it n times is n launches, and nothing in a step goes through the host. Every sum has a fixed order, so
// equal runs are equal bit for bit. The simulator (sim/) is a driver library that runs the same kernel sources on the host:
// it proves results and the absence of races that depend on order, and says nothing about speed.
package cuda
