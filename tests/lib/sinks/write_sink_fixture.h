// A file format for the tests of WriteSink: "HEAD", the tensors one after the other, and a trailer
// of their checksums.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/hash/crc32.h"
#include "lib/plan/executor.h"
#include "lib/sinks/write_sink.h"
#include "tests/formats/memory_sink.h"
#include "tests/lib/plan/plan_fixture.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::testing_util {

class FakeEncoder : public FileEncoder {
 public:
  FakeEncoder(std::vector<OutputTensor> tensors, bool needs_crc)
      : tensors_(std::move(tensors)), needs_crc_(needs_crc) {
    for (const OutputTensor& tensor : tensors_) {
      offsets_.push_back(end_);
      end_ += *PackedBytes(tensor.dtype, tensor.shape);
    }
  }
  const std::vector<OutputTensor>& tensors() const override { return tensors_; }
  uint64_t file_bytes() const override { return end_ + 4 + 12 * tensors_.size(); }
  uint64_t data_offset(size_t index) const override { return offsets_[index]; }
  bool needs_crc() const override { return needs_crc_; }
  std::vector<Fragment> Frame(std::span<const uint32_t> crcs) const override {
    std::string trailer = "TAIL";
    for (size_t i = 0; i < tensors_.size(); ++i) {
      std::string crc = std::to_string(needs_crc_ ? crcs[i] : 0);
      trailer += std::string(12 - crc.size(), ' ') + crc;
    }
    return {{0, "HEAD"}, {end_, trailer}};
  }

 private:
  std::vector<OutputTensor> tensors_;
  std::vector<uint64_t> offsets_;
  bool needs_crc_;
  uint64_t end_ = 4;
};

// Three files: two tensors; one tensor; none. Enough rows that a run has many tasks.
class WriteJob {
 public:
  explicit WriteJob(bool needs_crc = true) : needs_crc_(needs_crc) {
    const Shape a = {64, 16};
    const Shape b = {40};
    params_ = {{"a", a, 0, 0}, {"b", b, 0, 0}, {"e", {0, 3}, 0, 0}};
    source_ = NaiveBind(
        params_, LayoutOf({WholeOf("a", 0, a), WholeOf("b", 1, b), WholeOf("e", 2, {0, 3})}));
    layout_ = LayoutOf({RowsOf("a", 0, a, 0, 32, 0), WholeOf("e", 2, {0, 3}, 0),
                        RowsOf("a", 0, a, 32, 32, 1), WholeOf("b", 1, b, 0)});
    layout_.files = {{"one.bin", -1, -1}, {"sub/two.bin", -1, -1}, {"empty.bin", -1, -1}};
    outputs_ = OutputsOf(layout_, Dtype::kU32);
    plan_ = *BuildPlan(params_, source_, layout_);
  }

  std::vector<OutputFile> Files() const {
    std::vector<OutputFile> files;
    for (uint32_t f = 0; f < layout_.files.size(); ++f) {
      std::vector<OutputTensor> tensors;
      for (size_t t = 0; t < outputs_.size(); ++t)
        if (layout_.tensors[t].file == f) tensors.push_back(outputs_[t]);
      files.push_back(
          {layout_.files[f].path, std::make_unique<FakeEncoder>(std::move(tensors), needs_crc_)});
    }
    return files;
  }

  Result<std::unique_ptr<WriteSink>> Begin(const std::string& folder,
                                           const std::string& fingerprint) const {
    return WriteSink::Begin(folder, layout_, Files(),
                            {.sync = false, .jobs = 2, .fingerprint = fingerprint});
  }

  // Runs the tasks that the sink has not done; `stop_after` tasks of this run, then kInterrupted.
  Status Run(WriteSink& sink, uint64_t stop_after = UINT64_MAX, uint64_t* done = nullptr) const {
    uint64_t count = 0;
    ExecuteOptions options;
    options.worker_bytes = 512;  // 256-byte chunks: 4 rows
    options.poll = [&]() -> Status {
      if (count == stop_after) return Error(Errc::kInterrupted, "stopped by the test");
      ++count;
      return OkStatus();
    };
    NXDKIT_ASSIGN(const Executor executor,
                  Executor::Make(plan_, source_, layout_, outputs_, options));
    Status status = executor.Run(sink);
    if (done) *done = count;
    return status;
  }

  // Runs all of it into any sink.
  Status RunInto(Sink& sink) const {
    ExecuteOptions options;
    options.worker_bytes = 512;
    NXDKIT_ASSIGN(const Executor executor,
                  Executor::Make(plan_, source_, layout_, outputs_, options));
    return executor.Run(sink);
  }

  // The files' contents after success, by path.
  std::vector<std::pair<std::string, std::string>> Expected() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (uint32_t f = 0; f < layout_.files.size(); ++f) {
      std::string data;
      std::vector<OutputTensor> tensors;
      std::vector<uint32_t> crcs;
      for (size_t t = 0; t < outputs_.size(); ++t) {
        if (layout_.tensors[t].file != f) continue;
        const std::vector<uint32_t> numbers = NaiveTensor(params_, layout_.tensors[t]);
        const auto bytes = std::as_bytes(std::span(numbers));
        data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        tensors.push_back(outputs_[t]);
        crcs.push_back(Crc32(0, bytes));
      }
      const FakeEncoder encoder(tensors, needs_crc_);
      out.push_back({layout_.files[f].path, "HEAD" + data + encoder.Frame(crcs)[1].bytes});
    }
    return out;
  }

  void ExpectWhole(const std::string& folder) const {
    for (const auto& [path, bytes] : Expected())
      EXPECT_TRUE(ReadText(folder + "/" + path) == bytes) << path << " has other bytes";
    EXPECT_FALSE(Exists(folder + "/.nxdkit-journal"));
  }

  const Layout& layout() const { return layout_; }

 private:
  bool needs_crc_;
  std::vector<LogicalTensor> params_;
  BoundLayout source_;
  Layout layout_;
  std::vector<OutputTensor> outputs_;
  Plan plan_;
};

}  // namespace nxdkit::testing_util
