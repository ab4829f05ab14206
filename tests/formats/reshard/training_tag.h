// PRIVATE to tests. An NxD tag as training leaves it, optimizer state included, made the slow and
// obvious way: tensors are cut by the layouts of the model, and their rows copied one by one. With
// nxd-reshard it shares only parts that have other tests: the model's layouts and the torch
// encoder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "formats/models/sample_model.h"
#include "formats/nxd/sidecar.h"
#include "formats/torch/encoder.h"
#include "lib/hash/crc32.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/model_layouts.h"
#include "tests/lib/rest_of.h"

namespace nxdkit::testing_util {

// One main file before it is written.
struct FileDraft {
  struct Tensor {
    OutputTensor output;
    std::string bytes;
  };
  std::string name;  // below the tag: "optim/dp_rank_00_tp_rank_00_pp_rank_00.pt"
  int tp = 0;
  int pp = 0;
  int dp = 0;
  torch::PickleDict root;       // names tensors[i] by index or by reference
  std::vector<Tensor> tensors;  // each of them must be named

  bool is_optimizer() const { return name.starts_with("optim/"); }
  // The items of a dict under a string key, or one of its numbers.
  static torch::PickleDict& Items(torch::PickleValue& dict) {
    return *std::get<torch::PickleValue::Dict>(dict.value).items;
  }
  static torch::PickleValue& At(torch::PickleDict& dict, const std::string& key) {
    for (auto& [name, value] : dict)
      if (name.string() && *name.string() == key) return value;
    throw std::out_of_range(key);
  }
  torch::PickleDict& Table(const std::string& key) { return Items(At(root, key)); }
  torch::PickleDict& Group(size_t index) {
    return Items(
        (*std::get<torch::PickleValue::List>(At(root, "param_groups").value).items)[index]);
  }
  // The state of the pid at this place of base_state.
  torch::PickleDict& State(size_t index) { return Items(Table("base_state")[index].second); }
  Tensor& TensorOf(const torch::PickleValue& value) {
    if (value.tensor()) return tensors[value.tensor()->index];
    return tensors[static_cast<size_t>(value.reference()->tid)];
  }
  // F32 values rounded to BF16.
  static Tensor Rounded(const Tensor& wide) {
    Tensor tensor{{wide.output.name, Dtype::kBF16, wide.output.shape},
                  std::string(wide.bytes.size() / 2, '\0')};
    ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(wide.bytes.data()),
                    Dtype::kBF16, reinterpret_cast<std::byte*>(tensor.bytes.data()),
                    static_cast<int64_t>(wide.bytes.size() / 4));
    return tensor;
  }
};

struct TrainingTag {
  nlohmann::json config = SmallConfig();
  nxd::Geometry geometry;
  int dp = 1;
  std::string form = "zero1";    // zero1, merged, replicated, none
  std::string groups = "norms";  // norms, biases, one
  bool xser = false;
  bool int_step = false;  // a Python number instead of a tensor
  bool shape_info = true;
  bool master_weights = true;
  bool rounded = false;    // the weights are the rounded master weights, as training leaves them
  std::string wide = "-";  // weights with this in their names are not rounded: F32
  std::function<void(FileDraft&)> change;  // damages files on the way
};

class TagWriter {
 public:
  TagWriter(std::string folder, const TrainingTag& tag)
      : folder_(std::move(folder)), tag_(tag), model_(ModelOf(tag.config)) {}

  void Write() {
    const bool tied_head = model_.config.tied;
    layout_ = NxdLayout(model_, tag_.geometry, tied_head);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const Dtype dtype = seed == 1 ? Dtype::kBF16 : Dtype::kF32;
      values_.push_back(
          RunPlan(model_.Logical(), models::SampleCheckpoint(model_, seed, dtype), layout_, dtype));
    }
    for (uint32_t f = 0; f < layout_.files.size(); ++f) WriteRank(f);
    WriteText("config.json", tag_.config.dump());
    WriteText("nxdkit.json", nxd::WriteSidecar(tag_.geometry, model_.config.family->model_type, "",
                                               "bfloat16", "test"));
    WriteText("scheduler.pt", "any bytes of the scheduler");
    WriteText("user_content.pt", "any bytes of the user");
    WriteText("checkpoint", "1");
    WriteText("done", "1");
  }

 private:
  using Value = torch::PickleValue;
  using Tensor = FileDraft::Tensor;
  enum Kind { kWeights, kExpAvg, kExpAvgSq, kMaster };

  static Value Text(std::string text) { return {std::move(text)}; }
  static Value Number(int64_t number) { return {number}; }

  void WriteText(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!out.flush()) ADD_FAILURE() << path;
  }

  void WriteEncoded(const std::string& name, const Result<std::unique_ptr<FileEncoder>>& encoder,
                    const std::vector<Tensor>& tensors) const {
    ASSERT_TRUE(encoder.ok()) << encoder.error().ToString();
    std::string file((*encoder)->file_bytes(), '\0');
    std::vector<uint32_t> crcs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      file.replace((*encoder)->data_offset(i), tensors[i].bytes.size(), tensors[i].bytes);
      crcs.push_back(Crc32(0, std::as_bytes(std::span(tensors[i].bytes))));
    }
    for (const Fragment& fragment : (*encoder)->Frame(crcs))
      file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
    WriteText(name, file);
  }

  Value Leaf(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    const size_t index = tensors_.size() - 1;
    if (tag_.xser) return {torch::TensorReference{static_cast<int64_t>(index)}};
    return {torch::TensorIndex{index}};
  }

  // Writes `root_items` and the tensors given to Leaf since the last file.
  void WriteArchive(const std::string& name, const LayoutFile& rank, int d,
                    torch::PickleDict root_items) {
    FileDraft draft{name, static_cast<int>(rank.tp_rank), static_cast<int>(rank.pp_rank),
                    d,    std::move(root_items),          std::exchange(tensors_, {})};
    if (tag_.change) tag_.change(draft);
    const Value root = Value::MakeDict(std::move(draft.root));
    const std::vector<Tensor>& tensors = draft.tensors;
    const std::string stem = std::filesystem::path(name).stem().string();
    std::vector<OutputTensor> outputs;
    for (const Tensor& tensor : tensors) outputs.push_back(tensor.output);
    if (!tag_.xser) return WriteEncoded(name, torch::EncodeValue(root, outputs, stem), tensors);
    torch::PickleDict info;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string tid = fmt::format("tensor_{}", i);
      WriteEncoded(fmt::format("{}.tensors/{}.pt", name, tid), torch::EncodeTensor(outputs[i], tid),
                   {tensors[i]});
      info.push_back({Number(static_cast<int64_t>(i)),
                      Value::MakeDict({{Text("dtype"), {outputs[i].dtype}},
                                       {Text("shape"), {torch::TorchSize{outputs[i].shape}}},
                                       {Text("expert_model_parallel"), {false}}})});
    }
    WriteEncoded(name, torch::EncodeValue(root, {}, stem), {});
    WriteEncoded(name + ".info.pt",
                 torch::EncodeValue(Value::MakeDict(std::move(info)), {}, stem + ".pt.info"), {});
  }

  Tensor Whole(Kind kind, size_t t) const {
    const bool wide = layout_.tensors[t].name.find(tag_.wide) != std::string::npos;
    if (kind == kWeights && wide) return Whole(kMaster, t);
    if (kind == kWeights && tag_.rounded) return FileDraft::Rounded(Whole(kMaster, t));
    const auto& bytes = values_[kind].bytes(t);
    return {values_[kind].outputs()[t],
            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
  }

  // The rows of the data parallel rank: zero rows are appended, then equal chunks taken.
  Tensor Part(Kind kind, size_t t, int d) const {
    Tensor tensor = Whole(kind, t);
    if (tag_.form != "zero1") return tensor;
    const auto rows = static_cast<uint64_t>(tensor.output.shape[0]);
    const uint64_t row_bytes = tensor.bytes.size() / rows;
    const uint64_t padded = (rows + tag_.dp - 1) / tag_.dp * tag_.dp;
    tensor.bytes.resize(padded * row_bytes, '\0');
    tensor.output.shape[0] = static_cast<int64_t>(padded / tag_.dp);
    const uint64_t part = padded / tag_.dp * row_bytes;
    tensor.bytes = tensor.bytes.substr(part * static_cast<uint64_t>(d), part);
    return tensor;
  }

  std::vector<std::vector<size_t>> Groups(const std::vector<size_t>& tensors) const {
    std::vector<std::vector<size_t>> groups(tag_.groups == "one" ? 1 : 2);
    for (const size_t t : tensors) {
      const std::string& name = layout_.tensors[t].name;
      // On one pipeline rank the head of a tied model is the embedding itself.
      if (model_.config.tied && tag_.geometry.pp == 1 && name == "lm_head.weight") continue;
      bool second = tag_.groups != "one" && name.find("bias") != std::string::npos;
      second |= tag_.groups == "norms" && name.find("norm") != std::string::npos;
      groups[second ? 1 : 0].push_back(t);
    }
    return groups;
  }

  Value ParamGroups(const std::vector<std::vector<size_t>>& groups) const {
    torch::PickleList list;
    int64_t pid = 0;
    for (const auto& group : groups) {
      torch::PickleList pids;
      for (size_t i = 0; i < group.size(); ++i) pids.push_back(Number(pid++));
      list.push_back(Value::MakeDict({{Text("lr"), {3e-4}},
                                      {Text("betas"), Value::MakeList({{0.9}, {0.95}})},
                                      {Text("weight_decay"), {list.empty() ? 0.01 : 0.0}},
                                      {Text("foreach"), {Value::None{}}},
                                      {Text("maximize"), {false}},
                                      {Text("params"), Value::MakeList(std::move(pids))}}));
    }
    return Value::MakeList(std::move(list));
  }

  Value Step() {
    if (tag_.int_step) return Number(12);
    return Leaf({{"step", Dtype::kF32, {}}, std::string("\0\0\x40\x41", 4)});  // 12.0
  }

  void WriteOptimizer(const std::string& name, const LayoutFile& rank,
                      const std::vector<size_t>& tensors, int d) {
    const auto groups = Groups(tensors);
    torch::PickleDict state, shapes, masters;
    int64_t pid = 0;
    for (const auto& group : groups)
      for (const size_t t : group) {
        Value step = Step();
        Value first = Leaf(Part(kExpAvg, t, d));
        state.push_back(
            {Number(pid), Value::MakeDict({{Text("step"), step},
                                           {Text("exp_avg"), first},
                                           {Text("exp_avg_sq"), Leaf(Part(kExpAvgSq, t, d))}})});
        torch::PickleList extents;
        for (const int64_t extent : layout_.tensors[t].shape) extents.push_back(Number(extent));
        shapes.push_back({Number(pid), Value::MakeList(std::move(extents))});
        ++pid;
      }
    pid = 0;
    const bool zero = tag_.form != "replicated";
    if (zero && tag_.master_weights)
      for (const auto& group : groups)
        for (const size_t t : group) masters.push_back({Number(pid++), Leaf(Part(kMaster, t, d))});
    torch::PickleDict root = {{Text("state"), Value::MakeDict(zero ? torch::PickleDict() : state)},
                              {Text("param_groups"), ParamGroups(groups)}};
    if (zero) root.push_back({Text("base_state"), Value::MakeDict(std::move(state))});
    if (zero && tag_.shape_info)
      root.push_back({Text("shape_info"), Value::MakeDict(std::move(shapes))});
    if (zero && tag_.master_weights)
      root.push_back({Text("sharded_master_weights"), Value::MakeDict(std::move(masters))});
    WriteArchive(name, rank, d, std::move(root));
  }

  void WriteRank(uint32_t file) {
    std::vector<size_t> tensors;
    torch::PickleDict state_dict;
    for (size_t t = 0; t < layout_.tensors.size(); ++t) {
      if (layout_.tensors[t].file != file) continue;
      tensors.push_back(t);
      state_dict.push_back({Text(layout_.tensors[t].name), Leaf(Whole(kWeights, t))});
    }
    const LayoutFile& rank = layout_.files[file];
    const std::string end =
        fmt::format("tp_rank_{:02d}_pp_rank_{:02d}.pt", rank.tp_rank, rank.pp_rank);
    WriteArchive("model/dp_rank_00_" + end, rank, 0, std::move(state_dict));
    if (tag_.form == "none") return;
    if (tag_.form == "merged") return WriteOptimizer("optim/full_" + end, rank, tensors, 0);
    for (int d = 0; d < (tag_.form == "zero1" ? tag_.dp : 1); ++d)
      WriteOptimizer(fmt::format("optim/dp_rank_{:02d}_{}", d, end), rank, tensors, d);
  }

  std::string folder_;
  const TrainingTag& tag_;
  models::Model model_;
  Layout layout_;
  std::vector<MemorySink> values_;  // by Kind
  std::vector<Tensor> tensors_;
};

// Makes the folder and writes the tag into it.
inline void WriteTrainingTag(const std::string& folder, const TrainingTag& tag) {
  TagWriter(folder, tag).Write();
}

// The files of model/ and optim/ with their bytes, and the carried files.
inline std::vector<std::pair<std::string, std::string>> TagFiles(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (!entry.is_regular_file() || name.ends_with(".json")) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files.push_back({name, RestOf(in)});
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "" when both hold the same files, else the difference.
inline std::string TagDifference(const std::string& a, const std::string& b) {
  const auto x = TagFiles(a);
  const auto y = TagFiles(b);
  for (size_t i = 0; i < x.size() || i < y.size(); ++i) {
    if (i >= x.size()) return y[i].first + " is only in " + b;
    if (i >= y.size()) return x[i].first + " is only in " + a;
    if (x[i].first != y[i].first) return x[i].first + " and " + y[i].first;
    if (x[i].second != y[i].second) return x[i].first + " differs";
  }
  return "";
}

}  // namespace nxdkit::testing_util
