// PRIVATE to tests. Small deltas of made-up parameters.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "formats/delta/writer.h"

namespace nxdkit::delta::testing {

using Bytes = std::vector<std::byte>;

// The packed bytes of each parameter, before and after.
struct Models {
  Head head;
  std::vector<Bytes> base;
  std::vector<Bytes> result;

  void Add(const std::string& name, Dtype dtype, Shape shape, uint32_t seed, int change_every) {
    Param param;
    param.name = name;
    param.dtype = dtype;
    param.shape = std::move(shape);
    std::mt19937 random(seed);
    Bytes bytes(param.bytes());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    base.push_back(bytes);
    const size_t width = static_cast<size_t>(ElementBytes(dtype));
    if (change_every > 0)
      for (size_t at = 0; at < bytes.size(); at += width * static_cast<size_t>(change_every))
        bytes[at] ^= std::byte{1};
    result.push_back(std::move(bytes));
    param.base.fill(static_cast<std::byte>(seed));
    param.result.fill(static_cast<std::byte>(seed + 1));
    head.params.push_back(std::move(param));
  }

  std::span<const std::byte> BlockOf(const std::vector<Bytes>& model, size_t param,
                                     uint64_t block) const {
    const size_t at = block * kBlockBytes;
    return std::span(model[param])
        .subspan(at, std::min<size_t>(kBlockBytes, model[param].size() - at));
  }
};

inline Models SmallModels(Coding coding) {
  Models models;
  models.head.coding = coding;
  models.head.base.fill(std::byte{0xba});
  models.head.result.fill(std::byte{0x5e});
  models.Add("a.weight", Dtype::kBF16, {20, 30}, 1, 7);
  models.Add("unchanged", Dtype::kBF16, {64}, 3, 0);
  models.Add("empty", Dtype::kF32, {0, 4}, 5, 1);
  models.Add("a.bias", Dtype::kF32, {}, 7, 1);
  models.Add("mask", Dtype::kU8, {9}, 9, 2);
  return models;
}

using Order = std::vector<std::pair<size_t, uint64_t>>;  // parameter, block
inline Order BlocksInOrder(const Models& models) {
  Order order;
  for (size_t p = 0; p < models.head.params.size(); ++p)
    for (uint64_t b = 0; b < models.head.params[p].blocks(); ++b) order.push_back({p, b});
  return order;
}

inline void Write(const std::string& path, const Models& models, const Order& order) {
  auto writer = Writer::Create(path, models.head);
  ASSERT_TRUE(writer.ok()) << writer.error().ToString();
  BlockEncoder encoder;
  for (const auto& [param, block] : order) {
    Bytes bytes;
    const Result<uint64_t> changed =
        encoder.Encode(models.head.params[param].dtype, models.head.coding,
                       models.BlockOf(models.base, param, block),
                       models.BlockOf(models.result, param, block), bytes);
    ASSERT_TRUE(changed.ok());
    const Status put = (*writer)->Put(param, block, *changed, std::move(bytes));
    ASSERT_TRUE(put.ok()) << put.error().ToString();
  }
  const Result<Head> finished = (*writer)->Finish(models.head, false);
  ASSERT_TRUE(finished.ok()) << finished.error().ToString();
}

// Base with the whole delta applied; an error as the reader gave it.
inline Result<std::vector<Bytes>> ApplyAll(const Delta& delta, std::vector<Bytes> base) {
  BlockDecoder decoder;
  Changes changes;
  for (size_t p = 0; p < delta.head().params.size(); ++p) {
    const Param& param = delta.head().params[p];
    for (uint64_t b = 0; b < param.blocks(); ++b) {
      NXDKIT_TRY(delta.Read(p, b, decoder, changes));
      const size_t at = b * kBlockBytes;
      Apply(changes, param.dtype, delta.head().coding, 0,
            std::span(base[p]).subspan(at, std::min<size_t>(kBlockBytes, base[p].size() - at)));
    }
  }
  return base;
}

}  // namespace nxdkit::delta::testing
