#include "trainer/kernels/matmul.h"

#include <compare>
#include <dnnl.hpp>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

// A run has few shapes when rows are packed to a budget, but there is no bound: at this number, all
// are dropped.
constexpr size_t kMaxPrimitives = 512;

// In the layout that the library prefers, b is 5 to 7 percent faster to multiply with: worth it
// when enough rows of a use it, more of them if b has to be transposed on the way. (For a
// transposed a, reordering costs what it gains.)
constexpr int64_t kRowsToPack = 512;
constexpr int64_t kRowsToPackTransposed = 2048;
constexpr int64_t kMaxPackedBytes = int64_t{64} << 20;

struct Key {
  int64_t m, n, k, a_stride, b_stride, c_stride;
  bool a_transposed, b_transposed, add, pack;
  auto operator<=>(const Key&) const = default;
};

dnnl::memory::desc Describe(int64_t rows, int64_t columns, int64_t stride, bool transposed,
                            dnnl::memory::data_type type) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, type, strides};
}

std::vector<float> Widen(const Matrix& matrix, int64_t rows, int64_t columns) {
  std::vector<float> wide(static_cast<size_t>(rows * columns));
  const std::byte* from = static_cast<const std::byte*>(matrix.data);
  for (int64_t row = 0; row < rows; ++row)
    ConvertElements(Dtype::kBF16, from + row * matrix.stride * 2, Dtype::kF32,
                    reinterpret_cast<std::byte*>(wide.data() + row * columns), columns);
  return wide;
}

}  // namespace

struct MatrixEngine::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  struct Product {
    dnnl::matmul multiply;
    dnnl::reorder pack;  // empty unless the key asks for it
  };
  std::map<Key, Product> primitives;
  std::vector<std::byte> packed;  // b
  bool bf16 = true;

  Product& Find(const Key& key) {
    if (const auto it = primitives.find(key); it != primitives.end()) return it->second;
    if (primitives.size() >= kMaxPrimitives) primitives.clear();
    using Type = dnnl::memory::data_type;
    dnnl::primitive_attr attributes;
    if (key.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::memory::desc b = Describe(key.k, key.n, key.b_stride, key.b_transposed, Type::bf16);
    const dnnl::memory::desc any({key.k, key.n}, Type::bf16, dnnl::memory::format_tag::any);
    const dnnl::matmul::desc desc(
        Describe(key.m, key.k, key.a_stride, key.a_transposed, Type::bf16), key.pack ? any : b,
        Describe(key.m, key.n, key.c_stride, false, Type::f32));
    const dnnl::matmul::primitive_desc primitive(desc, attributes, engine);
    Product product{dnnl::matmul(primitive), {}};
    if (key.pack) {
      const dnnl::memory::desc layout = primitive.weights_desc();
      product.pack = dnnl::reorder({engine, b, engine, layout});
      if (packed.size() < layout.get_size()) packed.resize(layout.get_size());
    }
    return primitives.emplace(key, std::move(product)).first->second;
  }

  void Run(const Key& key, const Matrix& a, const Matrix& b, float* c) {
    Product& product = Find(key);
    // The library's handles are not const; the sources are only read.
    const auto memory = [&](const dnnl::memory::desc& desc, const void* data) {
      return dnnl::memory(desc, engine, const_cast<void*>(data));
    };
    const_dnnl_primitive_desc_t pd = product.multiply.get_primitive_desc();
    const auto at = [&](dnnl_query_t what) {
      return dnnl::memory::desc(*dnnl_primitive_desc_query_md(pd, what, 0));
    };
    dnnl::memory weights = memory(at(dnnl_query_weights_md), key.pack ? packed.data() : b.data);
    if (key.pack) {
      const dnnl::memory plain = memory(
          Describe(key.k, key.n, key.b_stride, key.b_transposed, dnnl::memory::data_type::bf16),
          b.data);
      product.pack.execute(stream, {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, weights}});
    }
    product.multiply.execute(stream, {{DNNL_ARG_SRC, memory(at(dnnl_query_src_md), a.data)},
                                      {DNNL_ARG_WEIGHTS, weights},
                                      {DNNL_ARG_DST, memory(at(dnnl_query_dst_md), c)}});
    stream.wait();
  }

  void RunBf16(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
               int64_t c_stride, bool add) {
    const int64_t enough = b.transposed ? kRowsToPackTransposed : kRowsToPack;
    const bool pack = m >= enough && n * k * 2 <= kMaxPackedBytes;
    Run({m, n, k, a.stride, b.stride, c_stride, a.transposed, b.transposed, add, pack}, a, b, c);
  }
};

MatrixEngine::MatrixEngine() : state_(std::make_unique<State>()) {}
MatrixEngine::~MatrixEngine() = default;
MatrixEngine::MatrixEngine(MatrixEngine&&) noexcept = default;

Status MatrixEngine::Multiply(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                              float* c, int64_t c_stride, bool add) {
  if (m == 0 || n == 0) return OkStatus();
  if (a.dtype == Dtype::kF32) return MultiplyF32(m, n, k, a, b, c, c_stride, add);
  if (state_->bf16) try {
      state_->RunBf16(m, n, k, a, b, c, c_stride, add);
      return OkStatus();
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented)
        return Error(Errc::kInternal, fmt::format("oneDNN refuses a {} x {} x {} product: {}", m, n,
                                                  k, error.what()));
      state_->bf16 = false;
    }
  const std::vector<float> wide_a = a.transposed ? Widen(a, k, m) : Widen(a, m, k);
  const std::vector<float> wide_b = b.transposed ? Widen(b, n, k) : Widen(b, k, n);
  return MultiplyF32(m, n, k, {wide_a.data(), Dtype::kF32, a.transposed ? m : k, a.transposed},
                     {wide_b.data(), Dtype::kF32, b.transposed ? k : n, b.transposed}, c, c_stride,
                     add);
}

Status MultiplyF32(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
                   int64_t c_stride, bool add, float scale) {
  if (m == 0 || n == 0) return OkStatus();
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, scale,
                 static_cast<const float*>(a.data), a.stride, static_cast<const float*>(b.data),
                 b.stride, add ? 1.0f : 0.0f, c, c_stride);
  if (status == dnnl_success) return OkStatus();
  return Error(Errc::kInternal, fmt::format("oneDNN refuses a {} x {} x {} product: status {}", m,
                                            n, k, static_cast<int>(status)));
}

}  // namespace nxdkit::trainer
