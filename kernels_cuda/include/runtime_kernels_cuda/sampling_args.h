// What the kernels that choose tokens are launched with. Pointers are the device's.
#pragma once

#include <cstdint>

#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

constexpr int64_t kMostVocab = (1 << 20) - 1;  // What a row's counts have room for.

struct LargestArgs {
  DType dtype;
  const void* logits;  // [rows, vocab]
  int64_t* out;        // [rows]: where the largest is, the first of equal ones
  int64_t rows, vocab;
};

struct DrawArgs {
  DType dtype;
  const void* logits;        // [rows, vocab]
  const float* temperature;  // [rows], above 0, as all below
  const int* top_k;          // less than 1 or more than vocab: all
  const float* top_p;        // in (0, 1]
  const float* min_p;        // in [0, 1)
  const float* uniform;      // in [0, 1)
  int64_t* out;              // the token
  int64_t rows, vocab;
};

struct PenaltyArgs {
  DType dtype;
  void* logits;              // [rows, vocab], changed in place
  const int* token_ids;      // [known]: a row's are from its start to the next row's
  const int* starts;         // [rows + 1]
  const int* output_starts;  // [rows]: the first that the row itself has given
  const float *repetition, *presence, *frequency;  // [rows]
  int64_t rows, vocab, known;
};

}  // namespace runtime_kernels_cuda
