//go:build linux && gpu && (amd64 || arm64)

package driver

// #include <cuda.h>
import "C"

import "unsafe"

// Graph is captured work that one call launches.
type Graph struct{ x C.CUgraphExec }

// BeginCapture makes the stream record work instead of doing it.
func (s Stream) BeginCapture() error {
	return check(int(C.cuStreamBeginCapture(s.c(), C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)), "begin a capture")
}

// EndCapture ends the recording and makes a graph of it.
func (s Stream) EndCapture() (Graph, error) {
	var g C.CUgraph
	if err := check(int(C.cuStreamEndCapture(s.c(), &g)), "end a capture"); err != nil {
		return Graph{}, err
	}
	defer C.cuGraphDestroy(g)
	// The form of this call that CUDA 11 and 12 share.
	var x C.CUgraphExec
	err := check(int(C.cuGraphInstantiateWithFlags(&x, g, 0)), "make a graph")
	return Graph{x}, err
}

// LaunchGraph queues all of the graph's work.
func (s Stream) LaunchGraph(g Graph) error {
	return check(int(C.cuGraphLaunch(g.x, s.c())), "launch a graph")
}

// Close frees the graph.
func (g Graph) Close() error { return check(int(C.cuGraphExecDestroy(g.x)), "free a graph") }

// AllocPinned allocates host memory that the device copies from and to without staging.
func AllocPinned(bytes int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check(int(C.cuMemHostAlloc(&p, C.size_t(bytes), 0)), "allocate %d bytes of pinned memory", bytes); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// FreePinned frees memory of AllocPinned.
func FreePinned(b []byte) error {
	return check(int(C.cuMemFreeHost(unsafe.Pointer(unsafe.SliceData(b)))), "free pinned memory")
}
