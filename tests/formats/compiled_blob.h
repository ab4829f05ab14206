// For tests: a model.pt as small as they come, a TorchScript archive with a NEFF in it, put
// together by hand; no compiler made it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "formats/torch/zip_writer.h"

namespace nxdkit::testing_util {

// A zip of stored records.
inline std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& records) {
  std::vector<torch::OutputRecord> out;
  for (const auto& [name, contents] : records) out.push_back({name, contents});
  const auto layout = torch::LayOutZip(std::move(out));
  if (!layout.ok()) {
    ADD_FAILURE() << layout.error().ToString();
    return "";
  }
  std::string file(layout->file_bytes, '\0');
  for (const Fragment& fragment : torch::ZipFrame(*layout, {}))
    file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
  return file;
}

inline std::string ToyNeff() {
  std::ifstream file(NXDKIT_TESTDATA "/neff/toy.neff", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `data` is what data.pkl holds; two that differ are two blobs.
inline std::string CompiledBlob(const std::string& data = ToyNeff()) {
  return ZipOf({{"model/data.pkl", "\x80\x02X" + data + "."},
                {"model/constants.pkl", "\x80\x02)."},
                {"model/version", "3\n"}});
}

}  // namespace nxdkit::testing_util
