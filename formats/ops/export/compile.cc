#include "formats/ops/export/compile.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "formats/kinds/open_file.h"
#include "formats/models/gqa.h"
#include "formats/rollout/bundle.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"

namespace nxdkit::ops {
namespace {

// Keys of a config.json that change nothing in a graph.
constexpr auto kOutsideOfGraph = std::to_array<std::string_view>(
    {"_name_or_path", "transformers_version", "_diffusers_version", "eos_token_id", "bos_token_id",
     "pad_token_id", "torchscript", "torch_dtype", "dtype", "_commit_hash", "use_cache",
     "return_dict", "_attn_implementation_autoset", "initializer_range"});

constexpr char kVendorCompiler[] = "neuronx-cc";

constexpr double kMostVersionSeconds = 120;  // Python on a slow file system takes many

constexpr char kSampling[] = "{sampling}";

constexpr std::string_view kUsualTarget = "trn1";

struct Placeholder {
  std::string_view name;
  std::string value;
};

std::array<Placeholder, 7> Placeholders(const CompileRequest& request) {
  const rollout::NeuronConfig& neuron = request.neuron;
  return {{{"{model}", request.model},
           {"{output}", request.output},
           {"{tp}", fmt::format("{}", neuron.tp)},
           {"{bs}", fmt::format("{}", neuron.batch_size)},
           {"{seq}", fmt::format("{}", neuron.sequence_length)},
           {"{dtype}", neuron.torch_dtype},
           {kSampling, neuron.on_device_sampling ? "device" : "host"}}};
}

// In one pass: replaced text is not looked at again.
std::string Replaced(const std::string& word, std::span<const Placeholder> placeholders) {
  std::string out;
  for (size_t at = 0; at < word.size();) {
    const auto it = std::ranges::find_if(placeholders, [&](const Placeholder& p) {
      return std::string_view(word).substr(at).starts_with(p.name);
    });
    if (it == placeholders.end()) {
      out += word[at++];
      continue;
    }
    out += it->value;
    at += it->name.size();
  }
  return out;
}

bool Mentions(const std::vector<std::string>& command, std::string_view placeholder) {
  return std::ranges::any_of(command, [&](const std::string& word) {
    return word.find(placeholder) != std::string::npos;
  });
}

// The variables that a compiler and its Python need to find their files; no credentials, no
// settings of nxdkit.
constexpr auto kNames = std::to_array<std::string_view>(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV",
     "CONDA_PREFIX", "LD_LIBRARY_PATH", "HF_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
     "XDG_CACHE_HOME"});
constexpr std::string_view kPrefixes[] = {"LC_", "NEURON_"};

constexpr size_t kShownLines = 12;
constexpr uint64_t kTailBytes = 16 << 10;
constexpr auto kGrace = std::chrono::seconds(5);
constexpr auto kPollEvery = std::chrono::milliseconds(100);

// The last lines of the log that are not empty.
std::vector<std::string> LastLines(const std::string& path) {
  std::vector<std::string> lines;
  const Result<File> file = File::OpenRead(path);
  if (!file.ok()) return lines;
  const uint64_t bytes = std::min(file->bytes(), kTailBytes);
  std::string tail(bytes, '\0');
  const auto to = std::as_writable_bytes(std::span(tail.data(), tail.size()));
  if (!file->ReadAt(file->bytes() - bytes, to).ok()) return lines;
  for (size_t at = 0; at < tail.size();) {
    const size_t end = std::min(tail.find_first_of("\r\n", at), tail.size());
    if (end > at) lines.push_back(tail.substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() > kShownLines) lines.erase(lines.begin(), lines.end() - kShownLines);
  return lines;
}

Result<Descriptor> OpenFor(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open()) return OutputError(flags & O_CREAT ? "create" : "open", errno).in(path);
  return file;
}

// The word after "version ", if it can be the name of a folder.
}  // namespace

std::string GraphText(const std::string& config_text, const rollout::NeuronConfig& neuron,
                      const models::ModelConfig& model, const std::string& target) {
  Json config = Json::object();
  const Result<Json> parsed = ParseJson(config_text, kLikePython);
  if (parsed.ok() && parsed->is_object())
    for (const auto& [key, value] : parsed->items())
      if (std::ranges::find(kOutsideOfGraph, key) == std::end(kOutsideOfGraph)) config[key] = value;
  const models::GqaStrategy strategy =
      models::RolloutPlacement(model.heads, model.kv_heads, neuron.tp).strategy;
  Json settings = {{"batch_size", neuron.batch_size},
                   {"dtype", neuron.torch_dtype},
                   {"flavor", rollout::FlavorName(neuron.flavor)},
                   {"fused_qkv", neuron.fused_qkv},
                   {"gqa_strategy", models::GqaStrategyName(strategy)},
                   {"sequence_length", neuron.sequence_length},
                   {"tp_degree", neuron.tp}};
  // Absent in the usual case: the keys of existing caches stay.
  if (neuron.on_device_sampling != (neuron.flavor == rollout::Flavor::kOptimum))
    settings["on_device_sampling"] = neuron.on_device_sampling;
  if (!target.empty() && target != kUsualTarget) settings["target"] = target;
  return DumpPython(Json{{"model", std::move(config)},
                         {"neuron", std::move(settings)},
                         {"schema", "nxdkit-graph"},
                         {"version", 1}}) +
         "\n";
}

std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more) {
  std::vector<std::string_view> names(std::begin(kNames), std::end(kNames));
  names.insert(names.end(), more.begin(), more.end());
  std::vector<std::string> out = WithoutRelativePlaces(EnvironmentOf(names, kPrefixes));
  std::ranges::sort(out);
  return out;
}

Result<CommandResult> RunCommand(const Command& command) {
  NXDKIT_CHECK(!command.words.empty());
  const std::optional<std::string> program = FindProgram(command.words[0]);
  if (!program) return NotFound("no such program, or it may not be executed").in(command.words[0]);
  NXDKIT_ASSIGN(const Descriptor log,
                OpenFor(command.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND));
  NXDKIT_ASSIGN(const Descriptor nothing, OpenFor("/dev/null", O_RDONLY));
  NXDKIT_ASSIGN(Process process, Process::Start({.program = *program,
                                                 .words = command.words,
                                                 .environment = command.environment,
                                                 .in = nothing.fd(),
                                                 .out = log.fd(),
                                                 .err = log.fd(),
                                                 .signal_with_parent = SIGTERM}));
  while (!process.WaitForEnd(kPollEvery)) {
    if (Status asked = command.poll ? command.poll() : OkStatus(); !asked.ok()) {
      process.End(kGrace);
      return std::move(asked).error();
    }
  }
  process.Kill();  // with processes that it left running
  // The user may have interrupted while it ended.
  if (command.poll) NXDKIT_TRY(command.poll());
  return CommandResult{process.exit_code(), LastLines(command.log)};
}

bool IsToldOfSampling(const std::vector<std::string>& command) {
  return Mentions(command, "{output}") && Mentions(command, kSampling);
}

std::vector<std::string> CompilerWords(std::vector<std::string> command,
                                       const CompileRequest& request) {
  const auto placeholders = Placeholders(request);
  if (!Mentions(command, "{output}"))
    for (const char* word :
         {"export", "neuron", "--model", "{model}", "--batch_size", "{bs}", "--sequence_length",
          "{seq}", "--tensor_parallel_size", "{tp}", "--torch_dtype", "{dtype}", "{output}"})
      command.emplace_back(word);
  for (std::string& word : command) word = Replaced(word, placeholders);
  return command;
}

std::string VersionIn(const std::vector<std::string>& lines) {
  constexpr std::string_view kBefore = "version ";
  for (const std::string& line : lines) {
    const size_t at = line.find(kBefore);
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(at + kBefore.size());
    const size_t end =
        std::min(rest.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz.+"), rest.size());
    if (end > 0 && rest[0] >= '0' && rest[0] <= '9') return std::string(rest.substr(0, end));
  }
  return "";
}

Result<std::string> CompilerVersion(const std::function<Status()>& poll) {
  return VersionOf({kVendorCompiler}, poll);
}

Result<std::string> VersionOf(std::vector<std::string> command,
                              const std::function<Status()>& poll) {
  const std::string name = command.at(0);
  if (!FindProgram(name)) return std::string();
  command.emplace_back("--version");
  const Result<File> log = File::OpenTemporary();
  if (!log.ok()) return std::string();
  const std::string path = fmt::format("/proc/self/fd/{}", log->fd());
  const Stopwatch watch;
  const auto limited = [&]() -> Status {
    if (poll) NXDKIT_TRY(poll());
    if (watch.Seconds() < kMostVersionSeconds) return OkStatus();
    return Error(Errc::kIo, "it does not print its version").in(name);
  };
  const Result<CommandResult> result =
      RunCommand({std::move(command), CompilerEnvironment({}), path, limited});
  if (!result.ok() && result.error().code() == Errc::kInterrupted) return result.error();
  return result.ok() && result->exit_code == 0 ? VersionIn(result->last_lines) : std::string();
}

Result<std::vector<std::string>> CompiledFiles(const std::string& folder) {
  const Result<rollout::Bundle> bundle = rollout::OpenBundle(folder, OpenTensorFile);
  if (!bundle.ok() && bundle.error().code() == Errc::kIo) return bundle.error();
  if (!bundle.ok() || !bundle->config || bundle->blobs.empty())
    return Error(Errc::kUnsupported,
                 bundle.ok()
                     ? fmt::format("the compiler ended well, but left no {}",
                                   bundle->config ? "model.pt" : "neuron_config.json")
                     : "the compiler ended well, but left no bundle: " + bundle.error().ToString());
  std::vector<std::string> names = bundle->blobs;
  names.push_back("neuron_config.json");
  NXDKIT_ASSIGN(const bool has_config, HasFile(folder, "config.json"));
  if (has_config) names.push_back("config.json");
  return names;
}

Status MoveFiles(const std::vector<std::string>& names, const std::string& from,
                 const std::string& to) {
  for (const std::string& name : names)
    if (std::rename(JoinPath(from, name).c_str(), JoinPath(to, name).c_str()) != 0)
      return OutputError("move", errno).in(JoinPath(from, name));
  return OkStatus();
}

}  // namespace nxdkit::ops
