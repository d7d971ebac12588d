#pragma once
__attribute__((visibility("hidden"))) int halfstep_cuda_open(const char **why);
