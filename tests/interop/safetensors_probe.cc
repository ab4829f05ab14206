// The program that safetensors_interop.py runs:
//   write SPEC FILE   SPEC: {"metadata": {k: v}, "tensors": [{"name", "dtype", "shape", "hex"}]}
//   dump FILE         the tensors and the SHA-256 of their bytes, as JSON
//   fault FILE...     a line per file: the fault's name, "None" if accepted, or the error code
//   probes DIR        the probe table as files <id>.safetensors, and table.json
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "formats/safetensors/encoder.h"
#include "formats/safetensors/safetensors.h"
#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"
#include "tests/formats/safetensors/probe_rows.h"

namespace nxdkit {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

Status WriteAt(const File& file, uint64_t offset, const std::string& bytes) {
  return file.WriteAt(offset, std::as_bytes(std::span(bytes)));
}

Status Write(const std::string& spec_path, const std::string& out) {
  NXDKIT_ASSIGN(const Json spec, ReadJsonFile(spec_path, uint64_t{1} << 30));
  std::vector<OutputTensor> tensors;
  for (const Json& row : spec["tensors"]) {
    const std::optional<Dtype> dtype = DtypeFromName(row["dtype"].get<std::string>());
    if (!dtype) return Error(Errc::kUsage, "no such dtype").on(row["name"].get<std::string>());
    tensors.push_back({row["name"], *dtype, row["shape"].get<Shape>()});
  }
  NXDKIT_ASSIGN(
      const auto encoder,
      safetensors::Encode(tensors, spec["metadata"].get<std::map<std::string, std::string>>()));
  NXDKIT_ASSIGN(const File file, File::OpenWrite(out));
  NXDKIT_TRY(file.Allocate(encoder->file_bytes()));
  for (size_t i = 0; i < tensors.size(); ++i)
    NXDKIT_TRY(WriteAt(file, encoder->data_offset(i), FromHex(spec["tensors"][i]["hex"])));
  for (const Fragment& fragment : encoder->Frame({}))
    NXDKIT_TRY(WriteAt(file, fragment.offset, fragment.bytes));
  return OkStatus();
}

Status Dump(const std::string& path) {
  NXDKIT_ASSIGN(const TensorFile file, safetensors::Open(path));
  Json json{{"tensors", Json::object()}, {"metadata", Json::object()}};
  for (const auto& [key, value] : file.metadata) json["metadata"][key] = value;
  for (const StoredTensor& tensor : file.tensors) {
    NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensor.dtype, tensor.shape));
    std::vector<std::byte> data(bytes);
    NXDKIT_TRY(tensor.storage->ReadAt(tensor.offset, data));
    json["tensors"][tensor.name] = {{"dtype", std::string(Name(tensor.dtype))},
                                    {"shape", tensor.shape},
                                    {"sha256", Sha256Hex(data)}};
  }
  std::puts(json.dump().c_str());
  return OkStatus();
}

std::string FaultOf(const std::string& path) {
  const Result<TensorFile> file = safetensors::Open(path);
  const std::string_view fault = safetensors::testing::FaultOf(file);
  if (file.ok() || fault != safetensors::testing::kNone) return std::string(fault);
  return std::string(ErrcName(file.error().code()));
}

Status WriteProbes(const std::string& folder) {
  Json table = Json::array();
  constexpr const char* kOurs[] = {"same", "strict", "unsupported"};
  for (const auto& probe : safetensors::testing::Probes()) {
    table.push_back({{"id", probe.id},
                     {"reference", std::string(probe.reference)},
                     {"ours", kOurs[static_cast<int>(probe.ours)]}});
    NXDKIT_TRY(WriteFileAtomic(JoinPath(folder, probe.id + ".safetensors"), probe.bytes));
  }
  return WriteFileAtomic(JoinPath(folder, "table.json"), table.dump());
}

Status Run(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  if (command == "write" && words.size() == 3) return Write(words[1], words[2]);
  if (command == "dump" && words.size() == 2) return Dump(words[1]);
  if (command == "probes" && words.size() == 2) return WriteProbes(words[1]);
  if (command != "fault")
    return Error(Errc::kUsage, "write SPEC FILE | dump FILE | fault FILE... | probes DIR");
  for (size_t i = 1; i < words.size(); ++i) std::puts(FaultOf(words[i]).c_str());
  return OkStatus();
}

}  // namespace
}  // namespace nxdkit

int main(int argc, char** argv) {
  const nxdkit::Status status = nxdkit::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return nxdkit::ExitCode(status.error().code());
}
