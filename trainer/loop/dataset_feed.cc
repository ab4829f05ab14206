#include "trainer/loop/dataset_feed.h"

#include <fmt/core.h>

#include <utility>

namespace nxdkit::trainer {
namespace {

class DatasetFeed : public PromptFeed {
 public:
  DatasetFeed(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Tokenizer> tokenizer,
              DataPosition start, BatchSampler sampler, int64_t count)
      : dataset_(std::move(dataset)),
        tokenizer_(std::move(tokenizer)),
        start_(std::move(start)),
        sampler_(std::move(sampler)),
        count_(count) {}

  Result<std::vector<Prompt>> Next(int64_t count) override {
    NXDKIT_CHECK(count == count_);
    std::vector<Prompt> prompts;
    for (const uint32_t row : sampler_.Next())
      prompts.push_back(PromptOf(*dataset_, row, *tokenizer_));
    return prompts;
  }
  std::string Position() const override { return PositionToJson(sampler_.position()); }
  std::string Place() const override {
    const DataPosition& at = sampler_.position();
    return fmt::format("epoch {}, row {} of {}", at.epoch + 1, at.next_row, at.rows);
  }
  Status Seek(const std::string& position) override {
    NXDKIT_ASSIGN(const DataPosition saved, PositionFromJson(position));
    NXDKIT_ASSIGN(sampler_, BatchSampler::Resume(saved, start_, count_));
    return OkStatus();
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DataPosition start_;
  BatchSampler sampler_;
  int64_t count_;
};

}  // namespace

Prompt PromptOf(const Dataset& dataset, size_t row, const Tokenizer& tokenizer) {
  const std::span<const int32_t> ids = dataset.ids(row);
  return {{ids.begin(), ids.end()},
          tokenizer.Decode(ids, false),
          std::string(dataset.ground_truth(row))};
}

Result<std::unique_ptr<PromptFeed>> MakeDatasetFeed(std::shared_ptr<const Dataset> dataset,
                                                    std::shared_ptr<const Tokenizer> tokenizer,
                                                    int64_t seed, bool shuffle, int64_t count) {
  DataPosition start = {.seed = static_cast<uint64_t>(seed),
                        .shuffle = shuffle,
                        .rows = dataset->size(),
                        .fingerprint = dataset->fingerprint()};
  NXDKIT_ASSIGN(BatchSampler sampler, BatchSampler::Make(start, count));
  return std::unique_ptr<PromptFeed>(std::make_unique<DatasetFeed>(
      std::move(dataset), std::move(tokenizer), std::move(start), std::move(sampler), count));
}

}  // namespace nxdkit::trainer
