// The ops as torch calls them: checks, then the chosen kernels on all threads.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>

namespace runtime_kernels {

using torch::stable::Tensor;

void rms_norm(Tensor x, Tensor weight, Tensor out, double eps);
void fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, Tensor out, Tensor total,
                        double eps);
void silu_and_mul(Tensor x, Tensor out);
void gelu_tanh_and_mul(Tensor x, Tensor out);
void rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,
                      Tensor query_out, Tensor key_out);
void write_kv_cache(Tensor key, Tensor value, Tensor kv_cache, Tensor slot_mapping);
void rotary_write_kv_cache(Tensor query, Tensor key, Tensor value, Tensor positions,
                           Tensor cos_sin_cache, Tensor kv_cache, Tensor slot_mapping,
                           Tensor query_out);
void linear(Tensor x, Tensor weight, std::optional<Tensor> bias, Tensor out);
int64_t packed_bytes(std::string format, int64_t rows, int64_t k);
void pack_weight(Tensor stored, std::string format, int64_t k, Tensor out);
void packed_linear(Tensor x, Tensor weight, std::string format, int64_t rows,
                   std::optional<Tensor> bias, Tensor out);
void packed_embedding(Tensor ids, Tensor weight, std::string format, int64_t rows, Tensor out);
void greedy_sample(Tensor logits, Tensor out);
void sample_tokens(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p,
                   Tensor uniform, Tensor out);
void apply_penalties(Tensor logits, Tensor token_ids, Tensor starts, Tensor output_starts,
                     Tensor repetition, Tensor presence, Tensor frequency);
void copy(Tensor from, Tensor to);
void embedding(Tensor token_ids, Tensor weight, Tensor out);
void paged_attention(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,
                     Tensor query_start_loc, Tensor out, double scale, int64_t window,
                     double soft_cap);

}  // namespace runtime_kernels
