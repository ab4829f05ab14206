// Tokens per second of the rollout engine, against two limits measured in the same run: the
// memory's (the weights are read once for every pass) and the products alone (oneDNN with packed
// weights).
//
//   rollout_bench [--bf16|--f32] [--threads N] [--bs N] [--prompt N] [--new N] [--tp N]
//                 [--folder NEW]
//
// --folder keeps the model, for bench/rollout_peer.py, which does the same with transformers. Run
// both with GOMP_SPINCOUNT=20000 when other programs are running.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dnnl.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "formats/kinds/table.h"
#include "formats/ops/export/export.h"
#include "formats/ops/sample/make_model.h"
#include "trainer/comm/comm.h"
#include "trainer/kernels/packed_matrix.h"
#include "trainer/rollout/engine.h"

namespace {

using namespace nxdkit;
using namespace nxdkit::trainer;

struct Setup {
  Dtype dtype = Dtype::kBF16;
  int threads = 2;
  int64_t batch = 16;
  int64_t prompt = 128;
  int64_t fresh = 128;
  int64_t tp = 1;
  std::string folder;  // "": a temporary one
};

// 48 million parameters.
constexpr int64_t kHidden = 512, kIntermediate = 1536, kLayers = 10, kHeads = 8, kKvHeads = 4,
                  kHead = 64, kVocab = 32000;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Best(int rounds, const std::function<void()>& body) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = Seconds();
    body();
    best = std::min(best, Seconds() - start);
  }
  return best;
}

// All threads read a buffer far larger than any cache.
double ReadGigabytesPerSecond(int threads) {
  std::vector<uint64_t> memory(size_t{64} << 20, 1);
  ThreadWorld world(threads);
  const size_t part = memory.size() / static_cast<size_t>(threads);
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  const double seconds = Best(4, [&] {
    (void)world.Run([&](Comm& comm) -> Status {
      const size_t rank = static_cast<size_t>(comm.rank());
      const uint64_t* first = memory.data() + rank * part;
      uint64_t lanes[16] = {};
      for (size_t i = 0; i + 16 <= part; i += 16)
        for (size_t k = 0; k < 16; ++k) lanes[k] += first[i + k];
      sums[rank] = std::accumulate(lanes, lanes + 16, uint64_t{0});
      return OkStatus();
    });
  });
  if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 0) std::puts("");
  return static_cast<double>(memory.size() * 8) / seconds / 1e9;
}

struct Products {
  double ours = 0;  // seconds
  double dnnl = 0;
};

// oneDNN multiplies bf16 only with AVX-512; otherwise it is timed with f32.
bool TheirsIsNarrow(const Setup& setup) {
  constexpr auto kNeeds = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const bool can = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeds) == kNeeds;
  return setup.dtype == Dtype::kBF16 && can;
}

// The time of one product of `rows` tokens, with weights that are in no cache: enough copies to
// fill it.
Products TimeProduct(const Setup& setup, int64_t n, int64_t k) {
  using Type = dnnl::memory::data_type;
  using Desc = dnnl::memory::desc;
  const bool narrow = setup.dtype == Dtype::kBF16;
  const bool theirs_narrow = TheirsIsNarrow(setup);
  const Type type = theirs_narrow ? Type::bf16 : Type::f32;
  const int64_t bytes = n * k * (narrow ? 2 : 4);
  const int copies = static_cast<int>(std::clamp<int64_t>((int64_t{100} << 20) / bytes, 2, 48));
  const int64_t m = setup.batch;
  const std::vector<float> weights(static_cast<size_t>(n * k), 0.01f);
  const std::vector<uint16_t> weights16(weights.size(), 0x3c24);
  const std::vector<float> a(static_cast<size_t>(m * k), 0.5f);
  std::vector<uint16_t> a16(a.size(), 0x3f00), scratch;
  std::vector<float> c(static_cast<size_t>(m * n));
  const auto pick = [](bool bf16, const auto& two, const auto& four) {
    return bf16 ? static_cast<const void*>(two.data()) : static_cast<const void*>(four.data());
  };
  Products out;
  (void)ThreadWorld(1, setup.threads).Run([&](Comm&) -> Status {
    std::vector<PackedMatrix> ours;
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const dnnl::matmul::primitive_desc desc({Desc({m, k}, type, dnnl::memory::format_tag::ab),
                                             Desc({k, n}, type, dnnl::memory::format_tag::any),
                                             Desc({m, n}, Type::f32, dnnl::memory::format_tag::ab)},
                                            engine);
    dnnl::matmul product(desc);
    std::vector<dnnl::memory> theirs;
    for (int i = 0; i < copies; ++i) {
      NXDKIT_ASSIGN(
          PackedMatrix packed,
          PackedMatrix::Make(n, k, {pick(narrow, weights16, weights), setup.dtype, k, false}));
      ours.push_back(std::move(packed));
      dnnl::memory plain(Desc({k, n}, type, dnnl::memory::dims{1, k}), engine,
                         const_cast<void*>(pick(theirs_narrow, weights16, weights)));
      theirs.emplace_back(desc.weights_desc(), engine);
      dnnl::reorder(plain, theirs.back()).execute(stream, plain, theirs.back());
    }
    stream.wait();
    void* from = const_cast<void*>(pick(theirs_narrow, a16, a));
    const dnnl::memory in(desc.src_desc(), engine, from), to(desc.dst_desc(), engine, c.data());
    out.ours = Best(5, [&] {
      for (const PackedMatrix& one : ours) one.Multiply(m, a.data(), k, c.data(), n, scratch);
    });
    out.dnnl = Best(5, [&] {
      for (const dnnl::memory& one : theirs)
        product.execute(stream, {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, one}, {DNNL_ARG_DST, to}});
      stream.wait();
    });
    out.ours /= copies;
    out.dnnl /= copies;
    return OkStatus();
  });
  return out;
}

Products TimePass(const Setup& setup) {
  Products pass;
  const auto add = [&](const char* name, int64_t n, int64_t k, double times) {
    const Products one = TimeProduct(setup, n, k);
    const double flops = 2e-9 * static_cast<double>(setup.batch * n * k);
    fmt::print(
        "  {:8} {:5} x {:5}: {:7.1f} us, {:5.1f} GFLOP/s; oneDNN packed {:7.1f} us, ratio "
        "{:.2f}\n",
        name, n, k, one.ours * 1e6, flops / one.ours, one.dnnl * 1e6, one.dnnl / one.ours);
    pass.ours += one.ours * times;
    pass.dnnl += one.dnnl * times;
  };
  add("q k v", (kHeads + 2 * kKvHeads) * kHead, kHidden, kLayers);
  add("o", kHidden, kHeads * kHead, kLayers);
  add("gate up", 2 * kIntermediate, kHidden, kLayers);
  add("down", kHidden, kIntermediate, kLayers);
  add("head", kVocab, kHidden, 1);
  return pass;
}

Result<std::string> MakeBundle(const std::string& folder, const Setup& setup) {
  const std::string config = folder + "/config.json";
  std::ofstream(config) << fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": {},
  "intermediate_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
  "num_key_value_heads": {}, "head_dim": {}, "vocab_size": {}, "tie_word_embeddings": true,
  "max_position_embeddings": 65536, "torch_dtype": "bfloat16"}})",
      kHidden, kIntermediate, kLayers, kHeads, kKvHeads, kHead, kVocab);
  ops::MakeModelRequest model;
  model.config = config;
  model.output = folder + "/model";
  model.dtype = setup.dtype;
  NXDKIT_TRY(ops::MakeModel(model));
  ops::ExportRequest request;
  request.convert.from = &ops::kHf;
  request.convert.to = &ops::kRollout;
  request.convert.input = model.output;
  request.convert.output = folder + "/bundle";
  request.convert.sync = false;
  request.convert.options.Set("tp", static_cast<int>(setup.tp));
  request.convert.options.Set("bs", setup.batch);
  request.convert.options.Set("seq", setup.prompt + setup.fresh);
  request.cpu = true;
  NXDKIT_TRY(ops::Export(request));
  return request.convert.output;
}

struct Elapsed {
  double wall = 0;
  double cpu = 0;
};
template <typename Body>
Elapsed Time(const Body& body) {
  const double start = Seconds();
  const std::clock_t cpu = std::clock();
  body();
  return {Seconds() - start, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

void Report(const char* what, const Engine& engine, const GenerateStats& stats,
            const Elapsed& elapsed, double limit) {
  const double seconds = elapsed.wall;
  const double tokens = static_cast<double>(stats.prompt_tokens + stats.response_tokens);
  const double gigabytes =
      static_cast<double>(engine.facts().weight_bytes * stats.passes) / 1e9 / seconds;
  const double parameters = static_cast<double>(engine.facts().weight_bytes) /
                            static_cast<double>(ElementBytes(engine.facts().dtype));
  fmt::print(
      "{}: {:.0f} new tokens/s ({:.0f} per CPU second), {:.0f} prompt tokens/s, {:.2f} ms a pass, "
      "{:.1f} GFLOP/s, weights {:.1f} GB/s = {:.2f} of the memory's\n",
      what, static_cast<double>(stats.response_tokens) / seconds,
      static_cast<double>(stats.response_tokens) / elapsed.cpu,
      static_cast<double>(stats.prompt_tokens) / seconds,
      seconds * 1e3 / static_cast<double>(stats.passes), 2e-9 * parameters * tokens / seconds,
      gigabytes, gigabytes / limit);
}

Status Run(const Setup& setup, const std::string& folder) {
  const double limit = ReadGigabytesPerSecond(setup.threads);
  fmt::print("{} threads read {:.1f} GB/s\n", setup.threads, limit);
  const Products products = TimePass(setup);
  fmt::print("the products of a pass of {} tokens: {:.2f} ms, oneDNN packed {:.2f} ms\n",
             setup.batch, products.ours * 1e3, products.dnnl * 1e3);
  NXDKIT_ASSIGN(const std::string bundle, MakeBundle(folder, setup));
  EngineOptions options;
  options.bundle = bundle;
  options.threads = setup.threads / static_cast<int>(setup.tp);
  const double start = Seconds();
  NXDKIT_ASSIGN(Engine engine, Engine::Load(options));
  fmt::print("loaded in {:.2f} s: {} MB of weights, {} MB of cache\n", Seconds() - start,
             engine.facts().weight_bytes / 1'000'000, engine.facts().cache_bytes / 1'000'000);
  std::vector<RolloutRequest> requests(static_cast<size_t>(setup.batch));
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int64_t t = 0; t < setup.prompt; ++t)
      requests[i].prompt.push_back(
          static_cast<int32_t>((static_cast<int64_t>(i) * 977 + t * 31 + 5) % kVocab));
    requests[i].prompt_index = static_cast<uint32_t>(i);
  }
  // The first round warms the cache's memory.
  for (const int64_t fresh : {int64_t{1}, int64_t{1}, setup.fresh}) {
    for (RolloutRequest& request : requests) request.sampling.max_tokens = fresh;
    Result<Generated> generated = Generated();
    const Elapsed elapsed = Time([&] { generated = engine.Generate(requests); });
    if (!generated.ok()) return generated.error();
    Report(fresh == 1 ? "prompts " : "generate", engine, generated->stats, elapsed, limit);
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  for (int i = 1; i < argc; ++i) {
    const auto number = [&] { return i + 1 < argc ? std::atol(argv[++i]) : 1; };
    const std::string word = argv[i];
    if (word == "--bf16") setup.dtype = Dtype::kBF16;
    if (word == "--f32") setup.dtype = Dtype::kF32;
    if (word == "--threads") setup.threads = static_cast<int>(number());
    if (word == "--bs") setup.batch = number();
    if (word == "--prompt") setup.prompt = number();
    if (word == "--new") setup.fresh = number();
    if (word == "--tp") setup.tp = number();
    if (word == "--folder" && i + 1 < argc) setup.folder = argv[++i];
  }
  std::string folder = setup.folder;
  if (folder.empty()) {
    folder = (std::filesystem::temp_directory_path() / "rollout-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) return 1;
  } else {
    std::filesystem::create_directories(folder);
  }
  const Status status = Run(setup, folder);
  if (setup.folder.empty()) std::filesystem::remove_all(folder);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().ToString());
  return status.ok() ? 0 : 1;
}
