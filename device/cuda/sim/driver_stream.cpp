// Streams, events, capture and graphs.
#include "driver.h"
#include <algorithm>

using sim::state;

namespace sim {

CUresult drain(CUstream s) {
  auto work = std::move(s->queue);
  s->queue.clear();
  for (Work &w : work)
    if (CUresult r = w()) return state.sticky = r;
  return CUDA_SUCCESS;
}

CUresult drain_all() {
  for (CUstream s : state.streams)
    if (CUresult r = drain(s)) return r;
  return CUDA_SUCCESS;
}

CUresult submit(CUstream s, Work w) {
  if (s->capture) {
    s->capture->work.push_back(std::move(w));
    return CUDA_SUCCESS;
  }
  s->queue.push_back(std::move(w));
  if (state.settings.deferred) return CUDA_SUCCESS;
  drain(s); // an error shows at the next call, as on a GPU
  return CUDA_SUCCESS;
}

bool capturing() {
  return std::any_of(state.streams.begin(), state.streams.end(), [](CUstream s) { return s->capture != nullptr; });
}

void reset() {
  for (CUstream s : state.streams) delete s;
  state.streams.clear();
  free_all();
  state.sticky = CUDA_SUCCESS;
  state.launches = 0;
}

} // namespace sim

API cuStreamCreate(CUstream *s, unsigned) {
  ENTER
  *s = new CUstream_st;
  state.streams.push_back(*s);
  return CUDA_SUCCESS;
}

API cuStreamDestroy(CUstream s) {
  ENTER
  CUresult r = sim::drain(s);
  state.streams.erase(std::find(state.streams.begin(), state.streams.end(), s));
  delete s;
  return r;
}

API cuStreamSynchronize(CUstream s) {
  ENTER
  if (!s || s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return sim::drain(s);
}

API cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) {
  ENTER
  if (!s || s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  s->capture = new CUgraph_st;
  return CUDA_SUCCESS;
}

API cuStreamEndCapture(CUstream s, CUgraph *g) {
  ENTER
  if (!s || !s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  *g = s->capture;
  s->capture = nullptr;
  return CUDA_SUCCESS;
}

API cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long) {
  ENTER
  *x = new CUgraphExec_st{g->work};
  return CUDA_SUCCESS;
}

API cuGraphLaunch(CUgraphExec x, CUstream s) {
  ENTER
  auto work = x->work;
  return sim::submit(s, [work] {
    for (const sim::Work &w : work)
      if (CUresult r = w()) return r;
    return CUDA_SUCCESS;
  });
}

API cuGraphDestroy(CUgraph g) {
  delete g;
  return CUDA_SUCCESS;
}

API cuGraphExecDestroy(CUgraphExec x) {
  ENTER
  delete x;
  return CUDA_SUCCESS;
}

API cuEventCreate(CUevent *e, unsigned) {
  ENTER
  *e = new CUevent_st;
  return CUDA_SUCCESS;
}

API cuEventDestroy(CUevent e) {
  ENTER
  if (CUresult r = sim::drain_all()) return r;
  delete e;
  return CUDA_SUCCESS;
}

API cuEventRecord(CUevent e, CUstream s) {
  ENTER
  if (!s || s->capture) return CUDA_ERROR_INVALID_HANDLE;
  e->recorded = false;
  return sim::submit(s, [=] {
    e->time = std::chrono::steady_clock::now();
    e->recorded = true;
    return CUDA_SUCCESS;
  });
}

API cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
  ENTER
  if (!start->recorded || !end->recorded) return CUDA_ERROR_NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return CUDA_SUCCESS;
}
