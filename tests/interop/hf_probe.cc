// The program that hf_interop.py runs; every argument list is read from a JSON file, the answer is
// JSON:
//   open FOLDER     {"sharded", "files": {file name: [tensor names]}}, or the error on stderr
//   split FILE      {"limit", "bytes": [...]} -> [[indices]...]
//   names FILE      {"count"} -> shard names
//   size FILE       ["5GB", ...] -> [bytes or null]
//   index FILE      {"weight_map", "total_size", "total_parameters"} -> the index itself
#include <cstdio>
#include <string>

#include "formats/hf/hf.h"
#include "formats/hf/split.h"
#include "formats/safetensors/safetensors.h"
#include "lib/json/json.h"
#include "lib/system/paths.h"

namespace nxdkit {
namespace {

Status Print(const Json& json) {
  std::puts(json.dump().c_str());
  return OkStatus();
}

Status OpenFolder(const std::string& folder) {
  NXDKIT_ASSIGN(const hf::Checkpoint checkpoint,
                hf::Open(folder, [](const std::string& path) { return safetensors::Open(path); }));
  Json files = Json::object();
  for (const TensorFile& file : checkpoint.files)
    for (const StoredTensor& tensor : file.tensors)
      files[BaseName(file.path)].push_back(tensor.name);
  return Print({{"sharded", checkpoint.sharded}, {"files", files}});
}

Json Names(size_t count) {
  Json names = Json::array();
  for (size_t i = 0; i < count; ++i) names.push_back(hf::ShardName(i, count));
  return names;
}

Json Sizes(const Json& texts) {
  Json sizes = Json::array();
  for (const Json& text : texts) {
    const Result<uint64_t> size = hf::ParseShardSize(text.get<std::string>());
    sizes.push_back(size.ok() ? Json(*size) : Json());
  }
  return sizes;
}

void PrintIndex(const Json& json) {
  std::vector<std::pair<std::string, std::string>> map;
  for (const auto& [tensor, file] : json["weight_map"].items()) map.emplace_back(tensor, file);
  std::fputs(hf::IndexJson(map, json["total_size"], json["total_parameters"]).c_str(), stdout);
}

Status Run(const std::string& command, const std::string& path) {
  if (command == "open") return OpenFolder(path);
  NXDKIT_ASSIGN(const Json json, ReadJsonFile(path, uint64_t{1} << 30));
  if (command == "split")
    return Print(hf::SplitShards(json["bytes"].get<std::vector<uint64_t>>(), json["limit"]));
  if (command == "names") return Print(Names(json["count"]));
  if (command == "size") return Print(Sizes(json));
  if (command != "index") return Error(Errc::kUsage, "no such command").member(command);
  PrintIndex(json);
  return OkStatus();
}

}  // namespace
}  // namespace nxdkit

int main(int argc, char** argv) {
  const nxdkit::Status status = nxdkit::Run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return nxdkit::ExitCode(status.error().code());
}
