// Runs a plan into memory, and makes sources out of memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "lib/plan/executor.h"
#include "lib/plan/plan.h"

namespace nxdkit::testing_util {

class BytesStorage : public Storage {
 public:
  explicit BytesStorage(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t bytes() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      return Error(Errc::kCorrupt, "read past the end of a memory storage").at(offset);
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return OkStatus();
  }

 private:
  std::vector<std::byte> bytes_;
  std::string path_ = "memory";
};

class MemorySink : public Sink {
 public:
  explicit MemorySink(std::vector<OutputTensor> outputs) : outputs_(std::move(outputs)) {
    for (const OutputTensor& output : outputs_)
      data_.emplace_back(*PackedBytes(output.dtype, output.shape), std::byte{0xA5});
  }

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    NXDKIT_CHECK(offset + bytes.size() <= data_[tensor].size());
    std::memcpy(data_[tensor].data() + offset, bytes.data(), bytes.size());
    return OkStatus();
  }

  const std::vector<OutputTensor>& outputs() const { return outputs_; }
  std::vector<std::byte>& bytes(size_t i) { return data_[i]; }
  const std::vector<std::byte>& bytes(size_t i) const { return data_[i]; }

  // The tensors made so far as a source with this layout.
  BoundLayout Bind(const Layout& layout) const {
    BoundLayout bound{layout, {}};
    for (size_t i = 0; i < outputs_.size(); ++i) {
      StoredTensor stored;
      stored.name = outputs_[i].name;
      stored.dtype = outputs_[i].dtype;
      stored.shape = outputs_[i].shape;
      stored.strides = RowMajorStrides(stored.shape);
      stored.storage = std::make_shared<BytesStorage>(data_[i]);
      bound.stored.push_back(std::move(stored));
    }
    return bound;
  }

 private:
  std::vector<OutputTensor> outputs_;
  std::vector<std::vector<std::byte>> data_;
};

inline std::vector<OutputTensor> OutputsOf(const Layout& layout, Dtype dtype) {
  std::vector<OutputTensor> outputs;
  for (const TensorLayout& tensor : layout.tensors)
    outputs.push_back({tensor.name, tensor.dtype.value_or(dtype), tensor.shape});
  return outputs;
}

inline MemorySink RunPlan(const std::vector<LogicalTensor>& params, const BoundLayout& source,
                          const Layout& layout, Dtype dtype, uint64_t buffer_bytes = 1 << 20,
                          int jobs = 2) {
  MemorySink sink(OutputsOf(layout, dtype));
  const Result<Plan> plan = BuildPlan(params, source, layout);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.error().ToString();
    return sink;
  }
  ExecuteOptions options;
  options.jobs = jobs;
  options.buffer_bytes = buffer_bytes;
  const auto executor = Executor::Make(*plan, source, layout, sink.outputs(), options);
  if (!executor.ok()) {
    ADD_FAILURE() << executor.error().ToString();
    return sink;
  }
  const Status done = executor->Run(sink);
  if (!done.ok()) ADD_FAILURE() << done.error().ToString();
  return sink;
}

}  // namespace nxdkit::testing_util
