// Launchers of packed weights: packing, the product, and the rows of an embedding.
#include <cstring>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "runtime_kernels/block_layout.h"
#include "runtime_kernels/ops/block_pack.h"
#include "scratch.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

BlockFormat format_named(const std::string& name) {
  std::string known;
  for (int i = 0; i < kBlockFormats; ++i) {
    if (name == kBlockShapes[i].name) return static_cast<BlockFormat>(i);
    known += std::string(i > 0 ? ", " : "") + kBlockShapes[i].name;
  }
  STD_TORCH_CHECK(false, "format '", name, "' is not one of ", known);
}

int64_t groups_of(int64_t rows) { return (rows + kGroupRows - 1) / kGroupRows; }

// Elements of a row in memory: whole chunks.
int64_t padded_width(BlockShape shape, int64_t k) {
  STD_TORCH_CHECK(k > 0, "rows must not be empty");
  const int64_t chunk = chunk_elements(shape);
  STD_TORCH_CHECK(k % chunk == 0 || shape.sub_blocks == 0, "rows of ", shape.name,
                  " have a multiple of ", chunk, " elements, not ", k);
  return (k + chunk - 1) / chunk * chunk;
}

int64_t stored_row_bytes(BlockShape shape, int64_t k) {
  if (shape.sub_blocks == 0) return 4 + k;
  return k / chunk_elements(shape) * shape.row_bytes;
}

void pack_group(BlockFormat format, const uint8_t* stored, int64_t rows, int64_t k, uint8_t* out) {
  const BlockShape shape = shape_of(format);
  const int64_t chunks = k / chunk_elements(shape);
  const int64_t chunk_bytes = header_bytes(shape) + shape.sub_blocks * quant_bytes(shape);
  BlockRow row;
  for (int64_t lane = 0; lane < rows; ++lane) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk, stored += shape.row_bytes) {
      read_stored(format, stored, &row);
      put_row(shape, row, lane, out + chunk * chunk_bytes);
    }
  }
}

// int8's stored rows: the scale as float32, then k signed bytes.
void pack_int8_group(const uint8_t* stored, int64_t rows, int64_t k, int64_t width, uint8_t* out) {
  uint8_t* scales = out + width * kGroupRows;
  std::memset(out, 128, static_cast<size_t>(width * kGroupRows));
  for (int64_t lane = 0; lane < rows; ++lane, stored += 4 + k) {
    std::memcpy(scales + 4 * lane, stored, 4);
    for (int64_t e = 0; e < k; ++e) {
      out[e / 4 * 64 + 4 * lane + e % 4] = static_cast<uint8_t>(stored[4 + e] ^ 0x80);
    }
  }
}

void row_values(BlockShape shape, const uint8_t* weight, int64_t row, int64_t width, float* out) {
  const uint8_t* group = weight + row / kGroupRows * group_bytes(shape, width);
  const int64_t lane = row % kGroupRows, elements = chunk_elements(shape);
  if (shape.sub_blocks == 0) {
    float scale;
    std::memcpy(&scale, group + width * kGroupRows + 4 * lane, 4);
    for (int64_t e = 0; e < width; ++e) {
      out[e] = scale * static_cast<float>(group[e / 4 * 64 + 4 * lane + e % 4] - shape.offset);
    }
    return;
  }
  const int64_t bytes = header_bytes(shape) + shape.sub_blocks * quant_bytes(shape);
  BlockRow part;
  for (int64_t e = 0; e < width; e += elements, group += bytes) {
    get_row(shape, lane, group, &part);
    values_of(shape, part, out + e);
  }
}

void check_packed(const Tensor& weight, BlockShape shape, int64_t rows, int64_t width) {
  check_dim(weight, "weight", 1);
  check_contiguous(weight, "weight");
  check_type(weight, "weight", ScalarType::Byte);
  check_size(weight, "weight", 0, groups_of(rows) * group_bytes(shape, width));
}

template <class T>
T* at(void* p, int64_t bytes) {
  return reinterpret_cast<T*>(static_cast<char*>(p) + bytes);
}

// The product of m rows. Scratch memory is the calling thread's.
void run_block_linear(BlockArgs args, const void* x, int64_t x_width) {
  static thread_local Scratch scratch;
  const KernelTable& table = kernels();
  const int64_t blocks = args.k / kSubBlock;
  const int64_t scale_bytes = args.m * blocks * static_cast<int64_t>(sizeof(QuantScale));
  void* memory = scratch.reserve(scale_bytes + args.m * blocks * 8 * table.quad_bytes);
  const QuantizeArgs quantize{args.dtype,
                              x,
                              x_width,
                              args.format == BlockFormat::kInt8,
                              at<void>(memory, scale_bytes),
                              at<QuantScale>(memory, 0)};
  constexpr int64_t kGrain = 8192;
  parallel_ranges(args.m, kGrain / args.k + 1,
                  [&](int64_t begin, int64_t end) { table.quantize(quantize, begin, end); });
  args.quads = quantize.quads;
  args.scales = quantize.scales;
  // Ranges by the bytes of weights in them.
  constexpr int64_t kBytes = 32768;
  const int64_t grain = kBytes / group_bytes(shape_of(args.format), args.k);
  parallel_ranges(groups_of(args.n), grain > 0 ? grain : 1, [&](int64_t begin, int64_t end) {
    table.block_linear(args, begin, end);
  });
}

}  // namespace

int64_t block_packed_bytes(std::string format, int64_t rows, int64_t k) {
  const BlockShape shape = shape_of(format_named(format));
  STD_TORCH_CHECK(rows >= 0, "rows must not be negative: ", rows);
  return groups_of(rows) * group_bytes(shape, padded_width(shape, k));
}

void block_pack(Tensor stored, std::string name, int64_t k, Tensor out) {
  const BlockFormat format = format_named(name);
  const BlockShape shape = shape_of(format);
  const int64_t width = padded_width(shape, k);
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
      uint8_t* place = target + group * bytes;
      std::memset(place, 0, static_cast<size_t>(bytes));
      const uint8_t* from = source + first * row_bytes;
      if (format == BlockFormat::kInt8) {
        pack_int8_group(from, count, k, width, place);
      } else {
        pack_group(format, from, count, k, place);
      }
    }
  });
}

void block_linear(Tensor x, Tensor weight, std::string name, int64_t rows,
                  std::optional<Tensor> bias, Tensor out) {
  const BlockFormat format = format_named(name);
  const BlockShape shape = shape_of(format);
  check_dim(x, "x", 2);
  check_contiguous(x, "x");
  const int64_t m = x.size(0), k = x.size(1), width = padded_width(shape, k);
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
  const BlockArgs args{dtype_of(x, "x"),
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
  submit([args, values, k] { run_block_linear(args, values, k); });
}

void block_embedding(Tensor ids, Tensor weight, std::string name, int64_t rows, Tensor out) {
  const BlockShape shape = shape_of(format_named(name));
  check_dim(ids, "ids", 1);
  check_contiguous(ids, "ids");
  check_type(ids, "ids", ScalarType::Int);
  check_dim(out, "out", 2);
  check_contiguous(out, "out");
  const int64_t count = ids.size(0), k = out.size(1), width = padded_width(shape, k);
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
        row_values(shape, packed, which[i], width, values);
        kernels().convert(dtype, values, target, i * k, k);
      }
    });
  });
}

}  // namespace runtime_kernels
