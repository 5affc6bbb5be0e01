// What the launchers that rotate share.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include "runtime_kernels/table.h"

namespace runtime_kernels {

// That positions are rows of the table: its shape now, their values when the work is done.
void check_positions(const torch::stable::Tensor& positions,
                     const torch::stable::Tensor& cos_sin_cache);

// Rotation of x [T, heads, head_size]; `out` is to be set.
RotaryArgs rotary_args(const torch::stable::Tensor& x, const char* name,
                       const torch::stable::Tensor& positions, const torch::stable::Tensor& table);

}  // namespace runtime_kernels
