// Launchers of packed weights: packing, the product, and the rows of an embedding.
#include <cstring>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "runtime_kernels/ops/pack_group.h"
#include "runtime_kernels/packed_layout.h"
#include "scratch.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

PackedFormat format_named(const std::string& name) {
  std::string known;
  for (int i = 0; i < kPackedFormats; ++i) {
    if (name == kPackedShapes[i].name) return static_cast<PackedFormat>(i);
    known += std::string(i > 0 ? ", " : "") + kPackedShapes[i].name;
  }
  STD_TORCH_CHECK(false, "format '", name, "' is not one of ", known);
}

int64_t groups_of(int64_t rows) { return (rows + kGroupRows - 1) / kGroupRows; }

int64_t checked_width(PackedShape shape, int64_t k) {
  STD_TORCH_CHECK(k > 0, "rows must not be empty");
  const int64_t chunk = chunk_elements(shape);
  STD_TORCH_CHECK(k % chunk == 0 || shape.sub_blocks == 0, "rows of ", shape.name,
                  " have a multiple of ", chunk, " elements, not ", k);
  return padded_width(shape, k);
}

void check_packed(const Tensor& weight, PackedShape shape, int64_t rows, int64_t width) {
  check_dim(weight, "weight", 1);
  check_contiguous(weight, "weight");
  check_type(weight, "weight", ScalarType::Byte);
  check_size(weight, "weight", 0, groups_of(rows) * group_bytes(shape, width));
}

// Whether the kernels read x as it is.
bool is_prepared(const PackedArgs& args, int64_t width, int64_t bytes) {
  if (width != args.k) return false;
  if (args.dtype == DType::kFloat32) return bytes == 4 * args.k;
  return args.dtype == DType::kBFloat16 && args.format == PackedFormat::kBFloat16 &&
         bytes == 2 * args.k;
}

// x [m, width] as the kernels read it. Memory is the calling thread's, until its next call.
void prepare(const KernelTable& table, const void* x, int64_t width, PackedArgs* args) {
  static thread_local Scratch scratch;
  const int64_t bytes = table.prepared_bytes(args->format, args->k);
  if (is_prepared(*args, width, bytes)) {
    args->values = x;
    return;
  }
  const int64_t blocks = is_float(shape_of(args->format)) ? 0 : args->k / kSubBlock;
  const int64_t scale_bytes =
      (args->m * blocks * static_cast<int64_t>(sizeof(QuantScale)) + 63) / 64 * 64;
  auto* memory = static_cast<char*>(scratch.reserve(scale_bytes + args->m * bytes));
  const PrepareArgs rows{args->dtype, args->format,         x,
                         width,       memory + scale_bytes, reinterpret_cast<QuantScale*>(memory)};
  constexpr int64_t kGrain = 8192;
  parallel_ranges(args->m, kGrain / args->k + 1,
                  [&](int64_t begin, int64_t end) { table.prepare(rows, begin, end); });
  args->values = rows.values;
  args->scales = rows.scales;
}

float* panel_memory(int64_t floats) {
  static thread_local Scratch scratch;
  return static_cast<float*>(scratch.reserve(4 * floats));
}

void run_packed_linear(PackedArgs args, const void* x, int64_t width) {
  const KernelTable& table = kernels();
  prepare(table, x, width, &args);
  // Ranges by the bytes of weights in them.
  constexpr int64_t kBytes = 32768;
  const int64_t grain = kBytes / group_bytes(shape_of(args.format), args.k);
  const int64_t floats = table.panel_floats(args.format, args.k, args.m);
  parallel_ranges(groups_of(args.n), grain > 0 ? grain : 1, [&](int64_t begin, int64_t end) {
    table.packed_linear(args, begin, end, floats > 0 ? panel_memory(floats) : nullptr);
  });
}

}  // namespace

int64_t packed_bytes(std::string format, int64_t rows, int64_t k) {
  const PackedShape shape = shape_of(format_named(format));
  STD_TORCH_CHECK(rows >= 0, "rows must not be negative: ", rows);
  return groups_of(rows) * group_bytes(shape, checked_width(shape, k));
}

void pack_weight(Tensor stored, std::string name, int64_t k, Tensor out) {
  const PackedFormat format = format_named(name);
  const PackedShape shape = shape_of(format);
  const int64_t width = checked_width(shape, k);
  check_dim(stored, "stored", 2);
  check_contiguous(stored, "stored");
  check_type(stored, "stored", ScalarType::Byte);
  const int64_t rows = stored.size(0), row_bytes = stored_row_bytes(shape, k);
  check_size(stored, "stored", 1, row_bytes);
  check_packed(out, shape, rows, width);
  const auto* source = static_cast<const uint8_t*>(stored.const_data_ptr());
  auto* target = static_cast<uint8_t*>(out.mutable_data_ptr());
  const int64_t bytes = group_bytes(shape, width);
  parallel_ranges(groups_of(rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = group * kGroupRows, left = rows - first;
      const int64_t count = left < kGroupRows ? left : kGroupRows;
      pack_group(format, source + first * row_bytes, count, k, target + group * bytes);
    }
  });
}

void packed_linear(Tensor x, Tensor weight, std::string name, int64_t rows,
                   std::optional<Tensor> bias, Tensor out) {
  const PackedFormat format = format_named(name);
  const PackedShape shape = shape_of(format);
  check_dim(x, "x", 2);
  check_contiguous(x, "x");
  const int64_t m = x.size(0), k = x.size(1), width = checked_width(shape, k);
  check_packed(weight, shape, rows, width);
  check_dim(out, "out", 2);
  check_type(out, "out", x.scalar_type());
  check_size(out, "out", 0, m);
  check_size(out, "out", 1, rows);
  STD_TORCH_CHECK(rows <= 1 || out.stride(1) == 1, "out must have contiguous rows");
  const int64_t stride = m > 1 ? out.stride(0) : rows;
  STD_TORCH_CHECK(m <= 1 || stride >= rows, "out must have rows that do not overlap");
  const void* addend = nullptr;
  if (bias.has_value()) {
    check_dim(*bias, "bias", 1);
    check_contiguous(*bias, "bias");
    check_type(*bias, "bias", x.scalar_type());
    check_size(*bias, "bias", 0, rows);
    addend = bias->const_data_ptr();
  }
  const PackedArgs args{dtype_of(x, "x"),
                        format,
                        nullptr,
                        nullptr,
                        static_cast<const uint8_t*>(weight.const_data_ptr()),
                        addend,
                        out.mutable_data_ptr(),
                        stride,
                        m,
                        rows,
                        width};
  const void* values = x.const_data_ptr();
  if (m == 0 || rows == 0) return;
  submit([args, values, k] { run_packed_linear(args, values, k); });
}

void packed_embedding(Tensor ids, Tensor weight, std::string name, int64_t rows, Tensor out) {
  const PackedFormat format = format_named(name);
  const PackedShape shape = shape_of(format);
  check_dim(ids, "ids", 1);
  check_contiguous(ids, "ids");
  check_type(ids, "ids", ScalarType::Int);
  check_dim(out, "out", 2);
  check_contiguous(out, "out");
  const int64_t count = ids.size(0), k = out.size(1), width = checked_width(shape, k);
  check_size(out, "out", 0, count);
  check_packed(weight, shape, rows, width);
  const auto* which = static_cast<const int32_t*>(ids.const_data_ptr());
  const auto* packed = static_cast<const uint8_t*>(weight.const_data_ptr());
  const DType dtype = dtype_of(out, "out");
  void* target = out.mutable_data_ptr();
  submit([=] {
    for (int64_t i = 0; i < count; ++i) {
      STD_TORCH_CHECK(which[i] >= 0 && which[i] < rows, "ids[", i, "] = ", which[i],
                      " is not in the table, which has ", rows, " rows");
    }
    parallel_ranges(count, 4, [&](int64_t begin, int64_t end) {
      static thread_local Scratch scratch;
      auto* values = static_cast<float*>(scratch.reserve(width * 4));
      for (int64_t i = begin; i < end; ++i) {
        row_values(format, packed, which[i], width, values);
        kernels().convert(dtype, values, target, i * k, k);
      }
    });
  });
}

}  // namespace runtime_kernels
