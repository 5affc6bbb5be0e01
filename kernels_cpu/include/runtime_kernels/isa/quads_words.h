// Products of quads, added in words of 16 bits before they are widened: for instruction sets
// whose product of bytes is a word. Included after the instruction set's ByteVec and its functions.
//
// A byte of x is at most 127 in magnitude, so a word holds the products of eight quads of four-bit
// weights, of four of five bits, of two of six. Eight-bit weights are the instruction set's own
// matter: add_wide().
#pragma once

namespace runtime_kernels::RUNTIME_ISA {

template <int kBits>
constexpr int kQuadsInWord = kBits == 5   ? 4
                             : kBits == 6 ? 2
                                          : 8;

// Rows of x whose sums stay in registers, beside a quad of weights.
template <int P>
constexpr int kRowsAtOnce =
    P < Vec::kRegisters / (2 * kByteVecs) ? P : Vec::kRegisters / (2 * kByteVecs);

// Add the products of kCount quads, times kFactor, with those of kRows rows of x.
template <int kFactor, int kRows, int kCount>
[[gnu::always_inline]] inline void add_words(Sums* sums, const Bytes* w, const Quad* const* x) {
  ByteVec words[kRows][kByteVecs];
  for (auto& row : words) {
    for (ByteVec& part : row) part = no_words();
  }
  for (int j = 0; j < kCount; ++j) {
    for (int r = 0; r < kRows; ++r) {
      const ByteVec four = broadcast(x[r][j]);
      for (int i = 0; i < kByteVecs; ++i) {
        words[r][i] = add_products(words[r][i], part(w[j], i), four);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kByteVecs; ++i) {
      ByteVec& sum = part(sums[r], i);
      sum = add_widened<kFactor>(sum, words[r][i]);
    }
  }
}

// Add the products of kCount quads of weights of kBits with those of P rows of x.
template <int kBits, int kCount, int P>
[[gnu::always_inline]] inline void dot_quads(Sums (&sums)[P], const Bytes* w,
                                             const Quad* const (&x)[P]) {
  constexpr int kRows = kRowsAtOnce<P>;
  static_assert(P % kRows == 0);
  if constexpr (kBits == 8) {
    add_wide<kRows, kCount, P>(sums, w, x);
  } else {
    constexpr int kStep = kQuadsInWord<kBits> < kCount ? kQuadsInWord<kBits> : kCount;
    for (int first = 0; first < kCount; first += kStep) {
      for (int p = 0; p < P; p += kRows) {
        const Quad* from[kRows];
        for (int r = 0; r < kRows; ++r) from[r] = x[p + r] + first;
        add_words<1, kRows, kStep>(sums + p, w + first, from);
      }
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
