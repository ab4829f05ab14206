// PRIVATE to tests. Hugging Face folders written by hand, with one fault each, and the report of a
// vLLM Neuron engine's loader on them.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "formats/ops/verify/serve.h"
#include "lib/json/json.h"
#include "tests/formats/ops/sample_config.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {

// A tensor of a folder written by hand: all of its bytes are `fill`, except some.
struct Made {
  std::string dtype = "BF16";
  Shape shape;
  char fill = '\x3f';
  std::map<size_t, char> bytes = {};  // by position
};
using MadeTensors = std::map<std::string, Made>;

inline std::string FileOf(const MadeTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, made] : tensors) {
    const int64_t element = made.dtype == "F32" ? 4 : made.dtype == "BF16" ? 2 : 1;
    std::string own(static_cast<size_t>(*ElementCount(made.shape) * element), made.fill);
    for (const auto& [at, byte] : made.bytes) own.at(at) = byte;
    header[name] = {{"dtype", made.dtype},
                    {"shape", made.shape},
                    {"data_offsets", {data.size(), data.size() + own.size()}}};
    data += own;
  }
  const std::string text = header.dump();
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text + data;
}

class Serving : public ::testing::Test {
 protected:
  Serving() { request_.geometry.tp = 2; }

  // Every tensor of the model.
  MadeTensors All() const {
    const auto config = models::ParseConfig(config_.dump(), "config.json");
    EXPECT_TRUE(config.ok()) << config.error().ToString();
    const auto model = models::MakeModel(*config);
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    MadeTensors tensors;
    for (const models::Param& param : model->params) tensors[param.name] = {.shape = param.shape};
    return tensors;
  }

  // The KV scales of two layers as well, BF16 3.0.
  static MadeTensors WithKvScales(MadeTensors tensors) {
    for (const char* layer : {"model.layers.0.", "model.layers.1."})
      for (const char* name : {"self_attn.k_scale", "self_attn.v_scale"})
        tensors[std::string(layer) + name] = {.shape = {1}, .fill = '\x40'};
    return tensors;
  }

  Result<ops::ServeReport> Judge(const MadeTensors& tensors) {
    folder_.Write("config.json", config_.dump());
    folder_.Write("model.safetensors", FileOf(tensors));
    return Judge();
  }
  Result<ops::ServeReport> Judge() {
    request_.path = folder_.folder();
    return ops::JudgeServing(request_);
  }

  // "check: tensor: message" of each finding.
  static std::vector<std::string> Texts(const Result<ops::ServeReport>& report) {
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    std::vector<std::string> out;
    if (report.ok())
      for (const artifact::Finding& finding : report->findings)
        out.push_back(fmt::format("{}: {}: {}", finding.check, finding.tensor, finding.message));
    return out;
  }

  Scratch folder_;
  Json config_ = Json::parse(TinyModel{.layers = 2, .heads = 8, .kv_heads = 4}.Config());
  ops::ServeRequest request_;
  const std::string layer_ = "model.layers.1.";
  const std::string key_ = layer_ + "self_attn.k_proj.weight";
};

}  // namespace nxdkit::testing_util
