// Package driver is the CUDA driver: gorgonia.org/cu, plus what that lacks (stream capture, graph launch, pinned memory,
// error strings). It exists in builds with the tag gpu only.
//
// The driver's library is opened by Open, not when the program starts: a binary built with the tag starts on every
// machine. The environment variable HALFSTEP_LIBCUDA names another library file than libcuda.so.1; tests name the
// simulator's (device/cuda/sim). This is the only package that imports gorgonia.org/cu, whose linker flags would bind
// the program to libcuda.so.1 if they came without the ones below.
package driver
