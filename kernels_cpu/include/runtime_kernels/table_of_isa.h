// The table of one instruction set. Included by its translation unit after its Vec.
//
// Everything in such a unit is in a namespace of its own: a function that two units shared by name
// would be linked once, perhaps in the version that this machine cannot run.
#pragma once

#include "runtime_kernels/ops/attention.h"
#include "runtime_kernels/ops/gate.h"
#include "runtime_kernels/ops/linear.h"
#include "runtime_kernels/ops/norm.h"
#include "runtime_kernels/ops/packed_linear.h"
#include "runtime_kernels/ops/prepare_rows.h"
#include "runtime_kernels/ops/quantize_heads.h"
#include "runtime_kernels/ops/rotary.h"
#include "runtime_kernels/ops/sampling.h"

namespace runtime_kernels::RUNTIME_ISA {

#define RUNTIME_BY_DTYPE(function, args, ...)    \
  switch ((args).dtype) {                        \
    case DType::kFloat32:                        \
      return function<float>(args, __VA_ARGS__); \
    case DType::kBFloat16:                       \
      return function<bf16>(args, __VA_ARGS__);  \
    case DType::kFloat16:                        \
      return function<f16>(args, __VA_ARGS__);   \
  }

inline void norm(const NormArgs& args, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(norm_rows, args, begin, end)
}
inline void gate(const GateArgs& args, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(gate_rows, args, begin, end)
}
inline void rotary(const RotaryArgs& args, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(rotary_tokens, args, begin, end)
}
inline void linear(const LinearArgs& args, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(linear_rows, args, begin, end)
}
inline void prepare(const PrepareArgs& args, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(prepare_rows, args, begin, end)
}
inline void packed_linear(const PackedArgs& args, int64_t begin, int64_t end, float* panel) {
  RUNTIME_BY_DTYPE(packed_groups_of, args, begin, end, panel)
}
template <class T>
inline void convert_to(const float* x, void* out, int64_t first, int64_t n) {
  T* target = static_cast<T*>(out) + first;
  for_vectors(n, [&](int64_t i, auto load, auto store) { store(load(x + i), target + i); });
}
inline void convert(DType dtype, const float* x, void* out, int64_t first, int64_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return convert_to<float>(x, out, first, n);
    case DType::kBFloat16:
      return convert_to<bf16>(x, out, first, n);
    case DType::kFloat16:
      return convert_to<f16>(x, out, first, n);
  }
}
template <class T>
inline void attention_over(const AttentionArgs& args, const AttentionTask& task, float* scratch) {
  if (args.quantized) return attention_task<T, int8_t>(args, task, scratch);
  attention_task<T, T>(args, task, scratch);
}
inline void quantize_heads(const QuantizeArgs& args, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(quantize_heads_of, args, begin, end)
}
inline void attention(const AttentionArgs& args, const AttentionTask& task, float* scratch) {
  RUNTIME_BY_DTYPE(attention_over, args, task, scratch)
}
inline void merge(const AttentionArgs& args, const float* partials, int64_t parts, int64_t rows,
                  int64_t token, int64_t kv_head) {
  RUNTIME_BY_DTYPE(merge_parts, args, partials, parts, rows, token, kv_head)
}
inline float largest(const LargestArgs& args, int64_t row, int64_t begin, int64_t end) {
  RUNTIME_BY_DTYPE(largest_of, args, row, begin, end)
  return 0.0f;
}
inline int64_t place(const LargestArgs& args, int64_t row, int64_t begin, int64_t end,
                     float value) {
  RUNTIME_BY_DTYPE(place_in, args, row, begin, end, value)
  return begin;
}
inline void draw(const DrawArgs& args, int64_t begin, int64_t end, float* scratch) {
  RUNTIME_BY_DTYPE(draw_rows, args, begin, end, scratch)
}
inline void penalise(const PenaltyArgs& args, int64_t begin, int64_t end, int32_t* counts) {
  RUNTIME_BY_DTYPE(penalise_rows, args, begin, end, counts)
}

#undef RUNTIME_BY_DTYPE

constexpr KernelTable table_named(const char* name) {
  return {name,           norm,         gate,          rotary,  linear,    prepared_bytes,
          prepare,        panel_floats, packed_linear, convert, attention, merge,
          quantize_heads, largest,      place,         draw,    penalise};
}

}  // namespace runtime_kernels::RUNTIME_ISA
