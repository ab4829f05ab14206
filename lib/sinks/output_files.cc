#include "lib/sinks/output_files.h"

#include <fmt/core.h>

#include <utility>

#include "lib/system/paths.h"

namespace nxdkit {

OutputFiles::OutputFiles(std::string folder, const Layout& layout, std::vector<OutputFile> files)
    : folder_(std::move(folder)),
      files_(std::move(files)),
      members_(files_.size()),
      crcs_(layout.tensors.size()) {
  for (uint32_t t = 0; t < layout.tensors.size(); ++t) {
    std::vector<uint32_t>& members = members_[layout.tensors[t].file];
    places_.push_back({layout.tensors[t].file, static_cast<uint32_t>(members.size())});
    members.push_back(t);
  }
  for (size_t f = 0; f < files_.size(); ++f)
    NXDKIT_CHECK(files_[f].encoder->tensors().size() == members_[f].size());
}

std::string OutputFiles::Path(size_t file) const {
  return files_[file].path.empty() ? folder_ : JoinPath(folder_, files_[file].path);
}

const std::string& OutputFiles::NameOf(uint32_t tensor) const {
  const Place place = places_[tensor];
  return encoder(place.file).tensors()[place.index].name;
}

uint64_t OutputFiles::DataOffset(uint32_t tensor) const {
  const Place place = places_[tensor];
  return encoder(place.file).data_offset(place.index);
}

Result<std::vector<uint32_t>> OutputFiles::Crcs(size_t file) const {
  std::vector<uint32_t> out;
  if (!encoder(file).needs_crc()) return out;
  for (uint32_t tensor : members_[file]) {
    const PiecewiseCrc32::Part seen = crcs_[tensor].FromStart();
    const OutputTensor& output = encoder(file).tensors()[out.size()];
    const uint64_t bytes = *PackedBytes(output.dtype, output.shape);
    if (seen.bytes != bytes)
      return Error(Errc::kInternal,
                   fmt::format("{} of {} bytes have a checksum", seen.bytes, bytes))
          .on(output.name);
    out.push_back(seen.crc);
  }
  return out;
}

}  // namespace nxdkit
