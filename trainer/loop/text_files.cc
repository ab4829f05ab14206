#include "trainer/loop/text_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "formats/hf/hf.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{256} << 20;
// Of hf::SideFiles those that are no tokenizer's.
constexpr std::string_view kOfModel[] = {"config.json",           "generation_config.json",
                                         "hf_quant_config.json",  "preprocessor_config.json",
                                         "processor_config.json", "quantization_config.json",
                                         "quantize_config.json",  "video_preprocessor_config.json"};

bool IsOfModel(std::string_view name) {
  return std::ranges::find(kOfModel, name) != std::end(kOfModel);
}

Status ReplaceTokenizer(const std::string& from, const std::string& folder) {
  for (const std::string& name : hf::SideFiles(folder)) {
    if (IsOfModel(name)) continue;
    std::error_code error;
    std::filesystem::remove(JoinPath(folder, name), error);
    if (error) return OutputError("delete", error.value()).in(JoinPath(folder, name));
  }
  for (const std::string& name : hf::SideFiles(from)) {
    if (name == "config.json") continue;
    const std::string to = JoinPath(folder, name);
    if (IsOfModel(name) && KindOf(to) != PathKind::kMissing) continue;
    NXDKIT_ASSIGN(const std::string bytes, ReadSmallFile(JoinPath(from, name), kMaxBytes));
    NXDKIT_TRY(WriteFileAtomic(to, bytes));
  }
  return OkStatus();
}

}  // namespace

Status WriteTextFiles(const TextFiles& files, const std::string& folder) {
  if (!files.tokenizer.empty()) NXDKIT_TRY(ReplaceTokenizer(files.tokenizer, folder));
  if (files.chat_template.empty()) return OkStatus();
  return WriteFileAtomic(JoinPath(folder, "chat_template.jinja"), files.chat_template);
}

}  // namespace nxdkit::trainer
