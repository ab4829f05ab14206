// Time and memory of ckpt-inspect on artifacts of some 100,000 tensors.
//   inspect_bench CKPT_INSPECT FOLDER     the first run makes the artifacts in FOLDER
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "formats/ops/convert/convert.h"
#include "formats/ops/sample/make_model.h"
#include "formats/safetensors/encoder.h"
#include "formats/torch/encoder.h"
#include "lib/hash/crc32.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit {
namespace {

constexpr int kTensors = 100'000;
constexpr int kRuns = 5;

std::vector<OutputTensor> ManyTensors() {
  std::vector<OutputTensor> tensors;
  for (int i = 0; i < kTensors; ++i)
    tensors.push_back({fmt::format("model.layers.{}.experts.{}.weight", i / 100, i % 100),
                       i % 7 == 0 ? Dtype::kF32 : Dtype::kBF16,
                       {4, 2 + i % 3}});
  return tensors;
}

// Makes the file, with zeros as tensor data.
Status WriteZeros(const FileEncoder& encoder, const std::string& path) {
  NXDKIT_ASSIGN(const File file, File::OpenWrite(path));
  NXDKIT_TRY(file.Allocate(encoder.file_bytes()));
  std::vector<uint32_t> crcs;
  for (const OutputTensor& tensor : encoder.tensors()) {
    const std::vector<std::byte> zeros(*PackedBytes(tensor.dtype, tensor.shape));
    crcs.push_back(Crc32(0, zeros));
  }
  for (const Fragment& fragment : encoder.Frame(crcs))
    NXDKIT_TRY(file.WriteAt(fragment.offset, std::as_bytes(std::span(fragment.bytes))));
  return OkStatus();
}

// Tiny matrices in many layers: the most that a config.json may declare.
Status MakeFamilyModel(const std::string& folder, int layers, int width) {
  const std::string config = folder + ".json";
  std::ofstream(config) << fmt::format(
      R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": {0},
"intermediate_size": {0}, "num_hidden_layers": {1}, "num_attention_heads": {0},
"num_key_value_heads": {0}, "head_dim": 1, "vocab_size": {0}, "torch_dtype": "bfloat16"}})",
      width, layers);
  ops::MakeModelRequest request;
  request.config = config;
  request.output = folder;
  NXDKIT_ASSIGN(const uint64_t bytes, ops::MakeModel(request));
  (void)bytes;
  return OkStatus();
}

Status ConvertModel(const std::string& from, const std::string& to, const ops::Kind* kind, int tp) {
  ops::ConvertRequest request;
  request.from = &ops::kHf;
  request.to = kind;
  request.input = from;
  request.output = to;
  request.options.Set("tp", tp);
  request.options.Set("bs", 1);
  request.options.Set("seq", 128);
  request.sync = false;
  NXDKIT_ASSIGN(const ops::ConvertReport report, ops::Convert(request));
  (void)report;
  return OkStatus();
}

Status MakeAll(const std::string& folder) {
  std::filesystem::create_directories(folder);
  NXDKIT_ASSIGN(const auto safetensors, safetensors::Encode(ManyTensors(), {}));
  NXDKIT_TRY(WriteZeros(*safetensors, JoinPath(folder, "many.safetensors")));
  NXDKIT_ASSIGN(const auto torch, torch::EncodeStateDict(ManyTensors(), "many"));
  NXDKIT_TRY(WriteZeros(*torch, JoinPath(folder, "many.pt")));
  NXDKIT_TRY(MakeFamilyModel(JoinPath(folder, "hf"), 10'000, 4));
  NXDKIT_TRY(MakeFamilyModel(JoinPath(folder, "wide"), 170, 64));
  NXDKIT_TRY(ConvertModel(JoinPath(folder, "wide"), JoinPath(folder, "nxd"), &ops::kNxd, 64));
  NXDKIT_TRY(
      ConvertModel(JoinPath(folder, "wide"), JoinPath(folder, "rollout"), &ops::kRollout, 64));
  return WriteFileAtomic(JoinPath(folder, "ready"), "1");
}

struct Cost {
  double seconds = 0;  // of the process, from start to end
  double cpu_seconds = 0;
  long peak_kib = 0;
  int exit_code = 0;
};

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

Cost RunOnce(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  Cost cost;
  cost.exit_code = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (cost.exit_code != 0) return cost;
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cost.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  cost.peak_kib = usage.ru_maxrss;
  cost.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return cost;
}

void Measure(const std::string& tool, const std::string& path, std::vector<std::string> options) {
  std::vector<std::string> command = {tool, path};
  command.insert(command.end(), options.begin(), options.end());
  std::vector<Cost> costs;
  for (int i = 0; i < kRuns; ++i) costs.push_back(RunOnce(command));
  std::ranges::sort(costs, {}, &Cost::seconds);
  const Cost& middle = costs[kRuns / 2];
  fmt::print("{:<18}{:<18}{:>9.3f} s {:>9.3f} s cpu {:>9} KiB{}\n",
             std::filesystem::path(path).filename().string(),
             fmt::format("{}", fmt::join(options, " ")), middle.seconds, middle.cpu_seconds,
             middle.peak_kib,
             middle.exit_code == 0 ? "" : fmt::format("   exit {}", middle.exit_code));
}

int Run(const std::string& tool, const std::string& folder) {
  // In a process of its own: a child's peak memory begins at its parent's.
  if (KindForHint(JoinPath(folder, "ready")) != PathKind::kFile) {
    const Status made = MakeAll(folder);
    fmt::print("{}\n", made.ok() ? "made the artifacts; run again" : made.error().ToString());
    return made.ok() ? 0 : 1;
  }
  fmt::print("median of {} runs: wall time, time of the processor, peak memory\n", kRuns);
  for (const char* name : {"many.safetensors", "many.pt", "hf", "nxd", "rollout"}) {
    const std::string path = JoinPath(folder, name);
    Measure(tool, path, {});
    Measure(tool, path, {"--top", "20"});
    Measure(tool, path, {"--filter", "*"});
    Measure(tool, path, {"--json"});
    Measure(tool, path, {"--json", "--stats"});
  }
  return 0;
}

}  // namespace
}  // namespace nxdkit

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: inspect_bench CKPT_INSPECT FOLDER\n");
    return 2;
  }
  return nxdkit::Run(argv[1], argv[2]);
}
