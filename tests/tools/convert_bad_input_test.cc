// Damaged and mistaken inputs as a user meets them: nxd-convert exits 3 (or 4), names the file, the
// place, the found and the expected value, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

constexpr char kShard[] = "/model-00002-of-00004.safetensors";

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Replaces the first `from` of a file by `to`; with the same length where offsets must stay.
void Exchange(const std::string& path, const std::string& from, const std::string& to) {
  std::string bytes = ReadFile(path);
  const size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos) << from << " is not in " << path;
  bytes.replace(at, from.size(), to);
  Write(path, bytes);
}

// The legacy format has no checksums before its pickles. The fourth asks for os.system("ls").
std::string ForbiddenLegacyFile() {
  using std::string_literals::operator""s;
  return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s  // magic
         "\x80\x02M\xe9\x03."s
         "\x80\x02}."s  // protocol, system information
         "\x80\x02"
         "cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."s
         "\x80\x02]."s;
}

struct Case {
  std::string name;
  std::string source;   // of the conversion that reads the damage
  std::string options;  // of the conversion that meets the damage
  std::function<void(const std::string& path)> damage;
  int exit_code;
  std::string message;  // after the path of the input
};

class ConvertBadInput : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string model = workshop_.MakeModel("hf", testing_util::TinyLlama());
    ExpectConverts("--from hf --to hf --max-shard-size 20kB", model, workshop_ / "shards");
    ExpectConverts("--from hf --to nxd --tp 2", model, workshop_ / "nxd");
    ExpectConverts("--from hf --to rollout --tp 2 --bs 1 --seq 32", model, workshop_ / "rollout");
  }
  const Workshop workshop_;
};

TEST_P(ConvertBadInput, IsRefusedWithItsPlace) {
  const Case& bad = GetParam();
  const std::string input = workshop_ / "bad";
  fs::copy(workshop_ / bad.source, input, fs::copy_options::recursive);
  bad.damage(input);
  ExpectRefused(bad.options, input, workshop_ / "out", bad.exit_code, input + bad.message);
}

constexpr char kFromHf[] = "--from hf --to nxd --tp 2";
constexpr char kFromNxd[] = "--from nxd --to hf";

INSTANTIATE_TEST_SUITE_P(
    All, ConvertBadInput,
    ::testing::Values(
        Case{"DataCutOff", "shards", kFromHf,
             [](const std::string& path) {
               fs::resize_file(path + kShard, fs::file_size(path + kShard) - 10);
             },
             3,
             std::string(kShard) +
                 ": offset 1352: MetadataIncompleteBuffer: the tensors take 19584 "
                 "bytes, the file has 19574 bytes of data"},
        Case{"GhostInTheIndex", "shards", kFromHf,
             [](const std::string& path) {
               Exchange(path + "/model.safetensors.index.json", "model.norm.weight",
                        "model.ghost.weight");
             },
             3,
             "/model-00004-of-00004.safetensors: model.norm.weight: the index "
             "model.safetensors.index.json does not name this tensor"},
        Case{"AShardIsMissing", "shards", kFromHf,
             [](const std::string& path) { fs::remove(path + kShard); }, 3,
             "/model.safetensors.index.json: model-00002-of-00004.safetensors: "},
        Case{"ConfigOfAnotherModel", "hf", kFromHf,
             [](const std::string& path) {
               Exchange(path + "/config.json", "\"intermediate_size\": 48",
                        "\"intermediate_size\": 64");
             },
             3,
             "/model.safetensors: model.layers.0.mlp.down_proj.weight: shape [32, 48] found, "
             "[32, 64] expected"},
        Case{"AForbiddenGlobal", "nxd", kFromNxd,
             [](const std::string& path) {
               const std::string file = path + "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt";
               Write(file, ForbiddenLegacyFile());
             },
             4,
             "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt: object: rank 0: offset 27: the pickle "
             "asks for the "
             "global posix.system"},
        Case{"ChangedPickle", "nxd", kFromNxd,
             [](const std::string& path) {
               Exchange(path + "/model/dp_rank_00_tp_rank_01_pp_rank_00.pt", "_rebuild_tensor_v2",
                        "_rebuild_tensor_v9");
             },
             3,
             "/model/dp_rank_00_tp_rank_01_pp_rank_00.pt: "
             "dp_rank_00_tp_rank_01_pp_rank_00/data.pkl: rank 1: offset 128: the data has CRC-32 "},
        Case{"RolloutConfigOfAnotherTp", "rollout", "--from rollout --to hf",
             [](const std::string& path) {
               Exchange(path + "/neuron_config.json", "\"tp_degree\": 2", "\"tp_degree\": 4");
             },
             4, "/checkpoint/weights: only 2 of 4 ranks were found"},
        Case{"NothingThere", "hf", kFromHf, [](const std::string& path) { fs::remove_all(path); },
             3, ": no such file or folder"},
        Case{"AnEmptyFolder", "hf", kFromHf,
             [](const std::string& path) {
               fs::remove_all(path);
               fs::create_directory(path);
             },
             3, ": no weights: none of model.safetensors, "},
        Case{"AnotherFormat", "hf", kFromNxd, [](const std::string&) {}, 3,
             ": no NxD shard set found"}),
    [](const auto& test) { return test.param.name; });

TEST(ConvertMistakenFormat, TheHintNamesTheFormatThatItIs) {
  const Workshop workshop;
  const std::string model = workshop.MakeModel("hf", testing_util::TinyLlama());
  const ProcessResult result = Workshop::Convert(kFromNxd, model, workshop / "out");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, ::testing::HasSubstr("hint: it looks like hf"));
}

}  // namespace
}  // namespace nxdkit::test
