// The library's operators, in torch's stable ABI. They write to tensors that the caller made.
#include <torch/csrc/stable/library.h>

#include <string>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

std::string current_isa() { return kernels().name; }

void use_isa(std::string name) {
  STD_TORCH_CHECK(select_isa(name), "instruction set '", name,
                  "' cannot be used here; possible: ", available_isas());
}

void use_threads(int64_t count) {
  STD_TORCH_CHECK(count >= 1 && count <= 4096, "threads must be 1 to 4096, not ", count);
  set_threads(static_cast<int>(count));
}

int64_t used_threads() { return threads(); }

}  // namespace
}  // namespace runtime_kernels

STABLE_TORCH_LIBRARY(runtime_kernels_cpu, m) {
  m.def("isa() -> str");
  m.def("available_isas() -> str");
  m.def("use_isa(str name) -> ()");
  m.def("threads() -> int");
  m.def("use_threads(int count) -> ()");
  m.def("begin_recording() -> ()");
  m.def("end_recording() -> int");
  m.def("replay(int recording) -> ()");
  m.def("drop_recording(int recording) -> ()");
  m.def("packed_bytes(str format, int rows, int k) -> int");
  m.def("rms_norm(Tensor x, Tensor weight, Tensor(a!) out, float eps) -> ()");
  m.def(
      "fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, Tensor(a!) out,"
      " Tensor(b!) total, float eps) -> ()");
  m.def("silu_and_mul(Tensor x, Tensor(a!) out) -> ()");
  m.def("gelu_tanh_and_mul(Tensor x, Tensor(a!) out) -> ()");
  m.def(
      "rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,"
      " Tensor(a!) query_out, Tensor(b!) key_out) -> ()");
  m.def("write_kv_cache(Tensor key, Tensor value, Tensor(a!) kv_cache, Tensor slot_mapping) -> ()");
  m.def(
      "rotary_write_kv_cache(Tensor query, Tensor key, Tensor value, Tensor positions,"
      " Tensor cos_sin_cache, Tensor(a!) kv_cache, Tensor slot_mapping, Tensor(b!) query_out)"
      " -> ()");
  m.def("linear(Tensor x, Tensor weight, Tensor? bias, Tensor(a!) out) -> ()");
  m.def("pack_weight(Tensor stored, str format, int k, Tensor(a!) out) -> ()");
  m.def(
      "packed_linear(Tensor x, Tensor weight, str format, int rows, Tensor? bias, Tensor(a!) out)"
      " -> ()");
  m.def("packed_embedding(Tensor ids, Tensor weight, str format, int rows, Tensor(a!) out) -> ()");
  m.def("greedy_sample(Tensor logits, Tensor(a!) out) -> ()");
  m.def(
      "sample_tokens(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p,"
      " Tensor uniform, Tensor(a!) out) -> ()");
  m.def(
      "apply_penalties(Tensor(a!) logits, Tensor token_ids, Tensor starts, Tensor output_starts,"
      " Tensor repetition, Tensor presence, Tensor frequency) -> ()");
  m.def("copy(Tensor from, Tensor(a!) to) -> ()");
  m.def("embedding(Tensor token_ids, Tensor weight, Tensor(a!) out) -> ()");
  m.def(
      "paged_attention(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,"
      " Tensor query_start_loc, Tensor(a!) out, float scale, int window, float soft_cap) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cpu, CompositeExplicitAutograd, m) {
  m.impl("isa", TORCH_BOX(&runtime_kernels::current_isa));
  m.impl("available_isas", TORCH_BOX(&runtime_kernels::available_isas));
  m.impl("use_isa", TORCH_BOX(&runtime_kernels::use_isa));
  m.impl("threads", TORCH_BOX(&runtime_kernels::used_threads));
  m.impl("use_threads", TORCH_BOX(&runtime_kernels::use_threads));
  m.impl("begin_recording", TORCH_BOX(&runtime_kernels::begin_recording));
  m.impl("end_recording", TORCH_BOX(&runtime_kernels::end_recording));
  m.impl("replay", TORCH_BOX(&runtime_kernels::replay));
  m.impl("drop_recording", TORCH_BOX(&runtime_kernels::drop_recording));
  m.impl("packed_bytes", TORCH_BOX(&runtime_kernels::packed_bytes));
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cpu, CPU, m) {
  m.impl("rms_norm", TORCH_BOX(&runtime_kernels::rms_norm));
  m.impl("fused_add_rms_norm", TORCH_BOX(&runtime_kernels::fused_add_rms_norm));
  m.impl("silu_and_mul", TORCH_BOX(&runtime_kernels::silu_and_mul));
  m.impl("gelu_tanh_and_mul", TORCH_BOX(&runtime_kernels::gelu_tanh_and_mul));
  m.impl("rotary_embedding", TORCH_BOX(&runtime_kernels::rotary_embedding));
  m.impl("write_kv_cache", TORCH_BOX(&runtime_kernels::write_kv_cache));
  m.impl("rotary_write_kv_cache", TORCH_BOX(&runtime_kernels::rotary_write_kv_cache));
  m.impl("linear", TORCH_BOX(&runtime_kernels::linear));
  m.impl("pack_weight", TORCH_BOX(&runtime_kernels::pack_weight));
  m.impl("packed_linear", TORCH_BOX(&runtime_kernels::packed_linear));
  m.impl("packed_embedding", TORCH_BOX(&runtime_kernels::packed_embedding));
  m.impl("greedy_sample", TORCH_BOX(&runtime_kernels::greedy_sample));
  m.impl("sample_tokens", TORCH_BOX(&runtime_kernels::sample_tokens));
  m.impl("apply_penalties", TORCH_BOX(&runtime_kernels::apply_penalties));
  m.impl("copy", TORCH_BOX(&runtime_kernels::copy));
  m.impl("embedding", TORCH_BOX(&runtime_kernels::embedding));
  m.impl("paged_attention", TORCH_BOX(&runtime_kernels::paged_attention));
}
