// PRIVATE to tests. A small model on disk, made or given, run on any number of tensor-parallel
// ranks, with its gradients joined to whole parameters.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/sample/make_model.h"
#include "tests/formats/ops/sample_config.h"
#include "tests/formats/scratch.h"
#include "tests/trainer/model/whole.h"
#include "trainer/comm/comm.h"
#include "trainer/model/decoder.h"
#include "trainer/model/memory.h"

namespace nxdkit::trainer {

using Floats = std::vector<float>;

struct Outcome {
  Floats log_probs;  // or scores
  Floats entropies;
  std::map<std::string, Floats> gradients;  // whole parameters by name
};

// The same everywhere: two sequences, with some of their tokens as targets.
inline Batch SampleBatch(int32_t vocab = 64) {
  Batch batch;
  for (int32_t i = 0; i < 23; ++i) {
    batch.ids.push_back((i * i * 7 + 3 * i + 5) % vocab);
    batch.positions.push_back(i < 9 ? i : i - 9);
  }
  batch.starts = {0, 9, 23};
  for (const int32_t token : {2, 3, 4, 5, 6, 7, 12, 13, 14, 20, 21})
    batch.targets.push_back({token, batch.ids[static_cast<size_t>(token) + 1]});
  return batch;
}

inline Floats SampleGradient(size_t size) {
  Floats gradient;
  for (size_t i = 0; i < size; ++i)
    gradient.push_back(i % 3 == 0 ? -0.5f : 0.25f * static_cast<float>(i + 1));
  return gradient;
}

class ModelLab {
 public:
  explicit ModelLab(const testing_util::TinyModel& tiny) {
    path_ = folder_.Path("model");
    ops::MakeModelRequest request;
    request.config = folder_.Write("config.json", tiny.Config());
    request.output = path_;
    request.dtype = Dtype::kF32;
    EXPECT_TRUE(ops::MakeModel(request).ok());
    Open();
  }
  // A model with other weights than those of MakeModel.
  explicit ModelLab(const std::string& path) : path_(path), made_(false) { Open(); }

  const DecoderConfig& config() const { return config_; }
  const ops::BoundArtifact& source() const { return source_; }
  const std::string& path() const { return path_; }

  // Runs on each rank with a decoder that has the model's weights.
  Status OnRanks(int tp, const DecoderOptions& options,
                 const std::function<Status(Decoder&, Comm&)>& body) const {
    return ThreadWorld(tp).Run([&](Comm& world) -> Status {
      NXDKIT_ASSIGN(Decoder decoder, Decoder::Make(config_, options, world));
      NXDKIT_TRY(LoadWeights(
          source_, config_.model,
          {{&decoder.table(), decoder.weights().bytes(), decoder.weights().dtype()}}, {}));
      if (made_) Enlarge(decoder);
      decoder.weights().Changed();
      return body(decoder, world);
    });
  }

  // The outputs of the model's head.
  Status Forward(Decoder& decoder, const Batch& batch, float temperature, bool keep,
                 Floats& outputs, float* entropies) const {
    outputs.resize(batch.targets.size());
    return decoder.Forward(batch, temperature, keep, outputs, entropies);
  }

  Outcome Run(int tp, const DecoderOptions& options, const std::vector<Batch>& batches,
              const std::vector<Floats>& gradients, float temperature = 0.8f) const {
    Outcome outcome;
    std::mutex mutex;
    const Status status = OnRanks(tp, options, [&](Decoder& decoder, Comm& world) -> Status {
      for (size_t i = 0; i < batches.size(); ++i) {
        Floats log_probs(batches[i].targets.size()), entropies(log_probs.size());
        NXDKIT_TRY(Forward(decoder, batches[i], temperature, true, log_probs, entropies.data()));
        NXDKIT_TRY(decoder.Backward(batches[i], gradients[i]));
        if (world.rank() != 0) continue;
        outcome.log_probs.insert(outcome.log_probs.end(), log_probs.begin(), log_probs.end());
        outcome.entropies.insert(outcome.entropies.end(), entropies.begin(), entropies.end());
      }
      NXDKIT_TRY(decoder.SumPartialGradients({0, decoder.table().size}));
      const std::scoped_lock lock(mutex);
      Collect(decoder, outcome);
      return OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status.error().ToString();
    return outcome;
  }

 private:
  void Open() {
    auto source = ops::OpenAndBind(path_, &ops::kHf, {});
    ASSERT_TRUE(source.ok()) << source.error().ToString();
    source_ = *std::move(source);
    auto config = ParseDecoderConfig(source_.artifact.config_text, source_.artifact.config_path);
    ASSERT_TRUE(config.ok()) << config.error().ToString();
    config_ = *std::move(config);
  }

  // Generated matrices are so small that attention is flat and its gradients vanish.
  static void Enlarge(Decoder& decoder) {
    for (const Slot& slot : decoder.table().slots) {
      if (slot.shape.size() != 2) continue;
      for (int64_t i = slot.offset; i < slot.offset + slot.size(); ++i) {
        const size_t at = static_cast<size_t>(i);
        if (decoder.weights().dtype() == Dtype::kF32)
          decoder.weights().f32()[at] *= 8;
        else if ((decoder.weights().bf16()[at] & 0x7f80) != 0)  // not zero
          decoder.weights().bf16()[at] += 3 << 7;               // the exponent
      }
    }
  }

  // Adds the rank's share at its place; copies must agree bit for bit.
  void Collect(Decoder& decoder, Outcome& outcome) const {
    for (const Slot& slot : decoder.table().slots) {
      const models::Param& param = config_.model.params[slot.param];
      int64_t size = 1;
      for (const int64_t extent : param.shape) size *= extent;
      Floats& whole = outcome.gradients[param.name];
      if (whole.empty()) whole.assign(static_cast<size_t>(size), NAN);
      for (int64_t i = 0; i < slot.size(); ++i) {
        const float value = decoder.gradients()[static_cast<size_t>(slot.offset + i)];
        float& to = whole[static_cast<size_t>(PlaceInWhole(slot, param.shape, i))];
        if (!std::isnan(to)) {
          EXPECT_EQ(to, value) << param.name << ": copies differ";
        }
        to = value;
      }
    }
  }

  const testing_util::Scratch folder_;
  std::string path_;
  bool made_ = true;
  DecoderConfig config_;
  ops::BoundArtifact source_;
};

}  // namespace nxdkit::trainer
