// PRIVATE to tests. Artifacts of every form for the tests of ckpt-inspect, of one tiny model.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "formats/ops/convert/convert.h"
#include "formats/ops/inspect/inspect.h"
#include "formats/ops/inspect/tensors.h"
#include "formats/ops/sample/make_model.h"
#include "formats/safetensors/encoder.h"
#include "formats/torch/encoder.h"
#include "lib/hash/crc32.h"
#include "tests/formats/compiled_blob.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {

// The bytes of the file, with `data(i)` as the elements of tensor i.
inline std::string FileBytes(const FileEncoder& encoder,
                             const std::function<std::string(size_t)>& data) {
  std::string file(encoder.file_bytes(), '\0');
  std::vector<uint32_t> crcs;
  for (size_t i = 0; i < encoder.tensors().size(); ++i) {
    const std::string bytes = data(i);
    EXPECT_EQ(bytes.size(), *PackedBytes(encoder.tensors()[i].dtype, encoder.tensors()[i].shape));
    file.replace(encoder.data_offset(i), bytes.size(), bytes);
    crcs.push_back(Crc32(0, std::as_bytes(std::span(bytes))));
  }
  for (const Fragment& fragment : encoder.Frame(crcs))
    file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
  return file;
}

inline std::string ZeroBytes(const FileEncoder& encoder) {
  return FileBytes(encoder, [&](size_t i) {
    return std::string(*PackedBytes(encoder.tensors()[i].dtype, encoder.tensors()[i].shape), '\0');
  });
}

inline std::string SafetensorsOf(std::vector<OutputTensor> tensors) {
  const auto encoder = safetensors::Encode(std::move(tensors), {});
  if (encoder.ok()) return ZeroBytes(**encoder);
  ADD_FAILURE() << encoder.error().ToString();
  return "";
}

inline std::string TorchOf(const torch::PickleValue& root, std::vector<OutputTensor> tensors) {
  const auto encoder = torch::EncodeValue(root, std::move(tensors), "archive");
  if (encoder.ok()) return ZeroBytes(**encoder);
  ADD_FAILURE() << encoder.error().ToString();
  return "";
}

inline torch::PickleValue Text(std::string text) { return {std::move(text)}; }
inline torch::PickleValue Number(int64_t number) { return {number}; }
inline torch::PickleValue Tensor(size_t index) { return {torch::TensorIndex{index}}; }
inline torch::PickleValue Reference(int64_t tid) { return {torch::TensorReference{tid}}; }

// A tiny Qwen3 model (4 layers, hidden 64, 8 heads of 16, 4 key/value heads, tied) and artifacts
// converted from it.
class Models {
 public:
  Models() {
    ops::MakeModelRequest request;
    request.family = "qwen3";
    request.size = "tiny";
    request.output = path("model");
    const auto made = ops::MakeModel(request);
    if (!made.ok()) ADD_FAILURE() << made.error().ToString();
  }

  std::string path(std::string_view name) const { return scratch_.Path(name); }
  const Scratch& scratch() const { return scratch_; }

  // Converts the model to `name` and returns its path.
  std::string Make(const std::string& name, const ops::Kind* kind,
                   const std::function<void(ops::OutputOptions&)>& options) const {
    ops::ConvertRequest request;
    request.to = kind;
    request.input = path("model");
    request.output = path(name);
    request.options.Set("bs", 4);
    request.options.Set("seq", 128);
    request.sync = false;
    options(request.options);
    const auto converted = ops::Convert(request);
    if (!converted.ok()) ADD_FAILURE() << converted.error().ToString();
    return request.output;
  }

 private:
  Scratch scratch_;
};

inline ops::Inspection InspectOk(const std::string& path, ops::InputHints hints = {}) {
  if (hints.origin.empty()) hints.origin = "the options";
  auto inspection = ops::Inspect({path, std::move(hints)});
  if (inspection.ok()) return *std::move(inspection);
  ADD_FAILURE() << inspection.error().ToString();
  return {};
}

inline std::vector<std::string> Names(const ops::Inspection& inspection,
                                      const ops::Selection& selection = {}) {
  std::vector<std::string> names;
  for (const ops::TensorPlace place : ops::SelectTensors(inspection, selection))
    names.push_back(inspection.tensor(place).name);
  return names;
}

}  // namespace nxdkit::testing_util
