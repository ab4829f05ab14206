// Every family of the program, to tensor parallel shards and back, in all its spellings, and with
// damaged folders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/kinds/table.h"
#include "formats/models/view.h"
#include "formats/ops/diff/diff.h"
#include "formats/ops/inspect/inspect.h"
#include "tests/formats/ops/ops_workshop.h"

namespace nxdkit::ops {
namespace {

using nlohmann::json;
using testing_util::OpsWorkshop;

class EveryFamily : public ::testing::TestWithParam<std::string> {
 protected:
  std::string MakeModel() const {
    MakeModelRequest request;
    request.family = GetParam();
    request.size = "tiny";
    request.output = shop_ / "model";
    const Result<uint64_t> made = MakeModel_(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return request.output;
  }
  static Result<uint64_t> MakeModel_(const MakeModelRequest& request) {
    return ops::MakeModel(request);
  }

  // Compares the weights of both, tensor by tensor.
  static void ExpectSame(const std::string& a, const std::string& b) {
    EXPECT_TRUE(testing_util::ReadBytes(a + "/model.safetensors") ==
                testing_util::ReadBytes(b + "/model.safetensors"))
        << a << " and " << b << " differ";
  }

  OpsWorkshop shop_;
};

TEST_P(EveryFamily, ComesBackFromShards) {
  const std::string model = MakeModel();
  size_t converted = 0;
  for (const int tp : {1, 2, 4, 8}) {
    OutputOptions options;
    options.Set("tp", tp);
    options.Set("hw", "trn2");
    const std::string shards = shop_ / fmt::format("tp{}", tp);
    const Result<ConvertReport> report =
        Convert(OpsWorkshop::Request(model, &kHf, shards, &kNxd, options));
    if (!report.ok()) {
      EXPECT_EQ(report.error().code(), Errc::kUnsupported) << report.error().ToString();
      EXPECT_THAT(report.error().message(), ::testing::HasSubstr("tp")) << GetParam();
      continue;
    }
    const std::string back = shop_.Make(fmt::format("back{}", tp), shards, &kNxd, &kHf);
    ExpectSame(model, back);
    ++converted;
  }
  EXPECT_GE(converted, 3u) << "of four sizes";
}

TEST_P(EveryFamily, ComesBackFromOtherKinds) {
  const std::string model = MakeModel();
  for (const Kind* kind : {&kDcp, &kTorch}) {
    const std::string there = shop_ / (std::string(kind->name) + ".pt");
    const Result<ConvertReport> report = Convert(OpsWorkshop::Request(model, &kHf, there, kind));
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    ConvertRequest back =
        OpsWorkshop::Request(there, kind, shop_ / ("from" + std::string(kind->name)), &kHf);
    back.hints.config = model + "/config.json";
    const Result<ConvertReport> again = Convert(back);
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    ExpectSame(model, back.output);
  }
}

TEST_P(EveryFamily, ComesBackFromItsBundles) {
  const std::string model = MakeModel();
  const Result<models::Family> family =
      models::ParseFamily(models::BuiltInFamilyText(GetParam()), "");
  ASSERT_TRUE(family.ok());
  for (const auto& [flavor, known] :
       {std::pair{"optimum", family->optimum.known}, {"nxdi", family->nxdi.known}})
    for (const int tp : {1, 2, 4, 8})
      for (const bool fused : {false, true}) {
        OutputOptions options;
        options.Set("tp", tp);
        options.Set("flavor", flavor);
        options.Set("fused-qkv", fused);
        const std::string name = fmt::format("{}-{}-{}", flavor, tp, fused);
        const std::string bundle = shop_ / name;
        const Result<ConvertReport> report =
            Convert(OpsWorkshop::Request(model, &kHf, bundle, &kRollout, options));
        if (!known) {
          ASSERT_FALSE(report.ok()) << name;
          EXPECT_EQ(report.error().code(), Errc::kUnsupported) << report.error().ToString();
          continue;
        }
        if (!report.ok()) {  // a bias in a fused module
          EXPECT_TRUE(fused) << report.error().ToString();
          EXPECT_EQ(report.error().code(), Errc::kUnsupported) << report.error().ToString();
          continue;
        }
        ExpectSame(model, shop_.Make(name + "-back", bundle, &kRollout, &kHf));
      }
}

TEST_P(EveryFamily, ComesBackFromItsSpellings) {
  const std::string model = MakeModel();
  const Result<models::Family> family =
      models::ParseFamily(models::BuiltInFamilyText(GetParam()), "");
  ASSERT_TRUE(family.ok());
  for (const std::string& spelling : models::Spellings(*family)) {
    OutputOptions options;
    options.Set("style", spelling);
    const std::string spelled = shop_.Make(spelling, model, &kHf, &kHf, options);
    EXPECT_FALSE(testing_util::ReadBytes(model + "/model.safetensors") ==
                 testing_util::ReadBytes(spelled + "/model.safetensors"))
        << spelling;
    ExpectSame(model, shop_.Make(spelling + "-back", spelled, &kHf, &kHf));
  }
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
}

// A safetensors file in two parts.
struct Weights {
  json header;
  std::string data;

  static Weights Read(const std::string& path) {
    const std::string bytes = testing_util::ReadBytes(path);
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    return {json::parse(bytes.substr(8, size)), bytes.substr(8 + size)};
  }
  void Write(const std::string& path) const {
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
    WriteBytes(path, bytes + text + data);
  }
};

// The complaint about a folder: that it does not fit, or has missing tensors; "" when it is right.
std::string Complaint(const std::string& path) {
  InspectRequest request;
  request.path = path;
  request.kind = &kHf;
  const Result<Inspection> inspection = Inspect(request);
  if (!inspection.ok()) return inspection.error().ToString();
  return inspection->layout.message;
}

constexpr const char* kShards[] = {"model-00001-of-00002.safetensors",
                                   "model-00002-of-00002.safetensors"};

TEST_P(EveryFamily, NamesWhatIsDamaged) {
  const std::string model = MakeModel();
  const std::string path = model + "/model.safetensors";
  const Weights weights = Weights::Read(path);
  ASSERT_EQ(Complaint(model), "");
  std::vector<std::string> names;
  for (const auto& [name, row] : weights.header.items())
    if (name != "__metadata__") names.push_back(name);
  size_t n = 0;
  for (size_t i = 0; i < names.size(); i += std::max<size_t>(1, names.size() / 4), ++n) {
    const std::string& name = names[i];
    // One tensor has another name: missing here, doubled or unknown there.
    Weights renamed = weights;
    renamed.header[name + "_old"] = renamed.header[name];
    renamed.header.erase(name);
    renamed.Write(path);
    EXPECT_THAT(Complaint(model), ::testing::HasSubstr(name)) << name;
    // Its extents in another order, or one of them split.
    Weights turned = weights;
    std::vector<int64_t> shape = turned.header[name]["shape"];
    std::ranges::reverse(shape);
    if (shape == turned.header[name]["shape"].get<std::vector<int64_t>>())
      shape = {1, std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())};
    turned.header[name]["shape"] = shape;
    turned.Write(path);
    EXPECT_THAT(Complaint(model), ::testing::HasSubstr(name)) << name;
    // Another shard, with a tensor that the model does not have.
    weights.Write(path);
    Weights more{{{name + ".more", weights.header[name]}}, ""};
    const std::vector<uint64_t> at = weights.header[name]["data_offsets"];
    more.data = weights.data.substr(at[0], at[1] - at[0]);
    more.header[name + ".more"]["data_offsets"] = {0, at[1] - at[0]};
    json index = {{"metadata", json::object()}, {"weight_map", json::object()}};
    for (const std::string& one : names) index["weight_map"][one] = kShards[0];
    index["weight_map"][name + ".more"] = kShards[1];
    std::filesystem::rename(path, model + "/" + kShards[0]);
    more.Write(model + "/" + kShards[1]);
    WriteBytes(model + "/model.safetensors.index.json", index.dump());
    EXPECT_THAT(Complaint(model), ::testing::HasSubstr(name + ".more")) << name;
    for (const char* file : {kShards[0], kShards[1], "model.safetensors.index.json"})
      std::filesystem::remove(model + "/" + file);
  }
  EXPECT_GE(n, 4u);
}

// --- unsupported models are reported

// A folder of DeepSeek-V3 with a layer of multi-token prediction.
std::string WithDrafter(const OpsWorkshop& shop) {
  MakeModelRequest request;
  request.family = "deepseek_v3";
  request.size = "tiny";
  request.output = shop / "model";
  EXPECT_TRUE(MakeModel(request).ok());
  const std::string path = request.output + "/model.safetensors";
  Weights weights = Weights::Read(path);
  const uint64_t end = weights.data.size();
  weights.data += std::string(32, 'x');
  weights.header["model.layers.4.eh_proj.weight"] = {
      {"dtype", "BF16"}, {"shape", {4, 4}}, {"data_offsets", {end, end + 32}}};
  weights.Write(path);
  json config = json::parse(testing_util::ReadBytes(request.output + "/config.json"));
  config["num_nextn_predict_layers"] = 1;
  WriteBytes(request.output + "/config.json", config.dump());
  return request.output;
}

TEST(Carried, IsKeptInFoldersAndSaidToBeLeftOutOfSets) {
  const OpsWorkshop shop;
  const std::string model = WithDrafter(shop);
  const std::string copy = shop.Make("copy", model, &kHf, &kHf);
  EXPECT_TRUE(
      Weights::Read(copy + "/model.safetensors").header.contains("model.layers.4.eh_proj.weight"));
  OutputOptions options;
  options.Set("tp", 2);
  ConvertRequest request = OpsWorkshop::Request(model, &kHf, shop / "set", &kNxd, options);
  request.verify = true;
  const Result<ConvertReport> report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_THAT(report->warnings,
              ::testing::Contains(::testing::HasSubstr(
                  "1 tensor besides the model's parameters is left out, the first is "
                  "model.layers.4.eh_proj.weight")));
}

// A role that NxD fuses with another, which is missing: the parameter would be in no file.
TEST(Roles, ThatLeaveAParameterOutAreRefused) {
  const OpsWorkshop shop;
  const std::string model = shop / "model";
  std::filesystem::create_directory(model);
  WriteBytes(model + "/config.json", R"({"architectures": ["X"], "num_hidden_layers": 1})");
  Weights{{{"a.weight", {{"dtype", "BF16"}, {"shape", {8, 8}}, {"data_offsets", {0, 128}}}}},
          std::string(128, 'x')}
      .Write(model + "/model.safetensors");
  WriteBytes(shop / "x.family", "family x; match X\nlet L = num_hidden_layers\nc a 8 8 as up\n");
  ConvertRequest request = OpsWorkshop::Request(model, &kHf, shop / "set", &kNxd);
  request.options.Set("tp", 2);
  request.hints.family = shop / "x.family";
  const Result<ConvertReport> report = Convert(request);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().tensor(), "a.weight");
  EXPECT_THAT(report.error().message(), ::testing::HasSubstr("would not have this parameter"));
}

// No layer has attention, so no tensor shows how a set stores q, k and v.
TEST(Families, AModelWithoutAttentionComesBackFromShards) {
  OpsWorkshop shop;
  MakeModelRequest request;
  request.family = "granitemoehybrid";
  request.size = "tiny";
  request.output = shop / "sample";
  ASSERT_TRUE(MakeModel(request).ok());
  json config = json::parse(testing_util::ReadBytes(request.output + "/config.json"));
  for (json& type : config["layer_types"]) type = "mamba";
  config["num_local_experts"] = 0;
  request.family = "";
  request.config = shop / "config.json";
  std::ofstream(*request.config) << config.dump();
  request.output = shop / "model";
  const Result<uint64_t> made = MakeModel(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  OutputOptions options;
  options.Set("tp", 2);
  const Result<ConvertReport> report =
      Convert(OpsWorkshop::Request(request.output, &kHf, shop / "shards", &kNxd, options));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const std::string back = shop.Make("back", shop / "shards", &kNxd, &kHf);
  EXPECT_TRUE(testing_util::ReadBytes(request.output + "/model.safetensors") ==
              testing_util::ReadBytes(back + "/model.safetensors"));
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (const models::FamilyHead& head : models::BuiltInFamilies()) names.push_back(head.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, EveryFamily, ::testing::ValuesIn(FamilyNames()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace nxdkit::ops
