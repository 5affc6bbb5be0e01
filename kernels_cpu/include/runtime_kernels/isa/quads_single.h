// Products of quads, one by one: for instruction sets that add a quad's products to whole numbers.
// Included after the instruction set's Bytes, Sums, Quad and dot().
#pragma once

namespace runtime_kernels::RUNTIME_ISA {

constexpr bool kSignedBytes = false;

// Add the products of kCount quads of weights of kBits with those of P rows of x.
template <int kBits, int kCount, int P>
[[gnu::always_inline]] inline void dot_quads(Sums (&sums)[P], const Bytes* w,
                                             const Quad* const (&x)[P]) {
  for (int p = 0; p < P; ++p) {
    for (int j = 0; j < kCount; ++j) sums[p] = dot(sums[p], w[j], x[p] + j);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
