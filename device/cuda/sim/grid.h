// Running grids.
#pragma once
#include "device.h"
#include <string>

namespace sim {

// find_kernel is a registered kernel, or null.
const Kernel *find_kernel(const std::string &name);

// run_grid runs all blocks and tells what went wrong; empty when nothing did. With reverse, blocks and the threads of a
// warp run from last to first, so that a missing barrier or an order between blocks shows.
std::string run_grid(const Kernel &, uint3 grid, uint3 block, const void *args, bool reverse);

} // namespace sim
