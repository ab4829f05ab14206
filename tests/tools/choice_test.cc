// One of several is taken: every command reports which, and refuses where nothing decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ProcessResult CallTool(const Words& command) {
  Words words = command;
  words[0] = Workshop::Tool(command[0]);
  return RunProcess(words);
}

// Runs with --json; the document must match the command's schema.
Json RunJson(int exit_code, const Words& command) {
  Words words = command;
  words.emplace_back("--json");
  const ProcessResult result = CallTool(words);
  EXPECT_EQ(result.exit_code, exit_code) << command[0] << ": " << result.err;
  const Json json = JsonOf(result);
  EXPECT_THAT(SourceSchemas().Faults(command[0] + ".json", json), IsEmpty()) << command[0];
  return json;
}

Json Chosen(const std::string& path, size_t of, const char* by) {
  return {{"path", path}, {"of", of}, {"by", by}};
}

// Three tags of three models, all finished at the same time: as after aws s3 sync, or tar.
class NewestTag : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* step : {"9", "10", "100"}) {
      const std::string model =
          shop_.MakeModel(std::string("m") + step, TinyModel{}, std::string("--seed ") + step);
      ExpectConverts("--from hf --to nxd --tp 2", model, root_ + "/step_" + step);
      Touch(step, 0);
    }
  }
  void Touch(const std::string& step, int hours) const {
    fs::last_write_time(root_ + "/step_" + step + "/done", time_ + std::chrono::hours(hours));
  }
  std::string Model(const char* step) const { return shop_ / (std::string("m") + step); }
  std::string Digest(const std::string& path) const { return CallTool({"ckpt-digest", path}).out; }

  const Workshop shop_;
  const std::string root_ = shop_ / "root";
  const std::string newest_ = root_ + "/step_100";
  const fs::file_time_type time_ = fs::file_time_type::clock::now() - std::chrono::hours(24);
};

TEST_F(NewestTag, IsThatOfTheHighestNumber) {
  EXPECT_THAT(Digest(root_), HasSubstr("sha256:"));
  EXPECT_EQ(Digest(root_), Digest(Model("100")));
  Touch("9", 1);
  EXPECT_EQ(Digest(root_), Digest(Model("100")));
}

TEST_F(NewestTag, EveryCommandSaysWhichItTook) {
  Touch("9", 1);
  const std::string bundle = shop_ / "bundle";
  ExpectConverts("--from hf --to rollout --tp 2", Model("9"), bundle);
  const auto convert = [&](const std::string& options, const std::string& output) {
    Words words = {"nxd-convert", "--no-sync"};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.insert(words.end(), {root_, output});
    return words;
  };
  const std::pair<int, Words> rows[] = {
      {0, convert("--to hf", shop_ / "hf")},
      {0, convert("--to hf --dry-run", shop_ / "no")},
      {0, convert("--to torch", shop_ / "model.bin")},
      {0, convert("--to nxd --tp 1", shop_ / "tp1")},
      {0, convert("--to rollout --tp 2", shop_ / "b2")},
      {0, convert("--to rollout --into", bundle)},
      {0, convert("--to delta --base " + Model("9"), shop_ / "delta")},
      {0, {"nxd-convert", "--to", "delta", "--base", root_, Model("9"), shop_ / "back"}},
      {0, {"nxd-reshard", "--tp", "1", root_, shop_ / "resharded"}},
      {0, {"ckpt-inspect", root_}},
      {0, {"ckpt-verify", root_}},
      {0, {"ckpt-verify", root_, "--against", Model("100")}},
      {0, {"ckpt-verify", Model("100"), "--against", root_}},
      {1, {"ckpt-verify", bundle, "--weights", root_}},  // it has no blob
      {0, {"ckpt-diff", root_, Model("100")}},
      {0, {"ckpt-diff", Model("100"), root_}},
      {0, {"ckpt-digest", root_}},
      {0, {"ckpt-digest", root_, "--as", "vllm"}},
      {0, {"ckpt-digest", root_, "--manifest", shop_ / "manifest.json"}},
      {0, {"ckpt-digest", root_, "--check", shop_ / "manifest.json"}},
  };
  for (const auto& [code, command] : rows) {
    SCOPED_TRACE(command[0] + " " + command[1] + " " + command.back());
    const Json json = RunJson(code, command);
    ASSERT_TRUE(json.contains("chosen"));
    EXPECT_EQ(json.value("chosen", Json()), Json::array({Chosen(newest_, 3, "number")}));
    EXPECT_THAT(json["warnings"].dump(), AllOf(HasSubstr("has the highest number, but "),
                                               HasSubstr("step_9 was finished later")));
  }
}

TEST_F(NewestTag, TextNamesItToo) {
  const ProcessResult result = CallTool({"ckpt-digest", root_});
  EXPECT_EQ(result.err, "ckpt-digest: took " + newest_ + ", the highest number of 3\n");
  EXPECT_EQ(CallTool({"ckpt-digest", "-q", root_}).err, "");
  EXPECT_EQ(CallTool({"ckpt-digest", "--tag", "step_9", root_}).err, "") << "the user has named it";
  const Json json = RunJson(0, {"ckpt-digest", "--tag", "step_9", root_});
  EXPECT_EQ(json.value("chosen", Json()), Json::array({Chosen(root_ + "/step_9", 3, "option")}));
  EXPECT_FALSE(RunJson(0, {"ckpt-digest", newest_}).contains("chosen"));
}

// Names without numbers, and equal times.
TEST_F(NewestTag, NothingIsTakenWhereNothingTells) {
  fs::remove_all(root_ + "/step_10");
  fs::rename(root_ + "/step_9", root_ + "/first");
  fs::rename(newest_, root_ + "/last");
  ExpectRefused("--to hf", root_, shop_ / "hf", 2,
                "neither names nor times tell which of 2 finished tags is the newest: first, last");
  const Json json = RunJson(0, {"ckpt-inspect", root_});
  EXPECT_EQ(json["format"], "nxd_root");
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("name one with --tag"));
  fs::last_write_time(root_ + "/last/done", time_ + std::chrono::hours(1));
  EXPECT_EQ(RunJson(0, {"ckpt-inspect", root_})["chosen"],
            Json::array({Chosen(root_ + "/last", 2, "time")}));
}

// An older save is still in the folder.
class WeightSets : public ::testing::Test {
 protected:
  void SetUp() override {
    ExpectConverts("--to torch", new_, shop_ / "new.bin");
    fs::copy(old_, bin_);
    fs::copy(shop_ / "new.bin", bin_ + "/pytorch_model.bin");
    fs::copy(old_ + "/model.safetensors", sharded_ + "/model.safetensors");
  }

  const Workshop shop_;
  const std::string old_ = shop_.MakeModel("old", TinyModel{}, "--seed 1");
  const std::string new_ = shop_.MakeModel("new", TinyModel{}, "--seed 2");
  const std::string sharded_ =
      shop_.MakeModel("sharded", TinyModel{}, "--seed 2 --max-shard-size 20KB");
  const std::string bin_ = shop_ / "bin";
  const std::string index_ = "model.safetensors.index.json";
};

TEST_F(WeightSets, AreRefusedByEveryCommand) {
  for (const auto& [folder, other] :
       {std::pair(bin_, std::string("pytorch_model.bin")), std::pair(sharded_, index_)}) {
    const Words rows[] = {{"nxd-convert", "--to", "hf", folder, shop_ / "no"},
                          {"nxd-convert", "--to", "nxd", "--tp", "2", folder, shop_ / "no"},
                          {"nxd-convert", "--to", "delta", "--base", folder, new_, shop_ / "no"},
                          {"neuron-export", "--tp", "1", "--target", "cpu", folder, shop_ / "no"},
                          {"ckpt-verify", folder},
                          {"ckpt-verify", new_, "--against", folder},
                          {"ckpt-diff", new_, folder},
                          {"ckpt-digest", folder}};
    for (const Words& command : rows) {
      const ProcessResult result = CallTool(command);
      EXPECT_EQ(result.exit_code, 2) << command[0];
      EXPECT_THAT(result.err, AllOf(HasSubstr(folder + ": 2 sets of weights"),
                                    HasSubstr("model.safetensors, " + other), HasSubstr("hint: ")))
          << command[0];
      EXPECT_FALSE(Traces(shop_ / "no"));
    }
  }
}

TEST_F(WeightSets, OneIsChosenByItsFileOrIndex) {
  const std::string old_digest = CallTool({"ckpt-digest", old_}).out;
  const std::string new_digest = CallTool({"ckpt-digest", new_}).out;
  const std::tuple<std::string, std::string, std::string> rows[] = {
      {bin_, "model.safetensors", old_digest},
      {bin_, "pytorch_model.bin", new_digest},
      {sharded_, "model.safetensors", old_digest},
      {sharded_, index_, new_digest}};
  for (const auto& [folder, file, digest] : rows) {
    const Json json = RunJson(0, {"ckpt-digest", "--weights", file, folder});
    EXPECT_EQ(json["digest"].get<std::string>() + "\n", digest) << folder << " " << file;
    EXPECT_EQ(json.value("chosen", Json()),
              Json::array({Chosen(folder + "/" + file, 2, "option")}));
    EXPECT_EQ(CallTool({"ckpt-digest", folder + "/" + file}).out, digest) << "named as the path";
  }
  const std::string& model = new_;
  const Words good[] = {
      {"nxd-convert", "--to", "hf", "--weights", index_, sharded_, shop_ / "a"},
      {"neuron-export", "--tp", "1", "--target", "cpu", "--weights", index_, sharded_, shop_ / "b"},
      {"ckpt-verify", sharded_, "--weights", index_},
      {"ckpt-verify", sharded_, "--weights", index_, "--against", model},
      {"ckpt-verify", model, "--against", sharded_, "--against-weights", index_},
      {"ckpt-verify", model, "--against", sharded_ + "/" + index_},
      {"ckpt-diff", model, sharded_, "--b-weights", index_},
      {"ckpt-diff", sharded_, model, "--a-weights", sharded_ + "/" + index_},
      {"nxd-convert", "--to", "hf", sharded_ + "/" + index_, shop_ / "c"}};
  for (const Words& command : good) {
    const ProcessResult result = CallTool(command);
    EXPECT_EQ(result.exit_code, 0) << command[0] << " " << result.err;
  }
  EXPECT_EQ(CallTool({"ckpt-digest", shop_ / "a"}).out, new_digest);
  EXPECT_EQ(CallTool({"ckpt-digest", shop_ / "c"}).out, new_digest);
  EXPECT_EQ(
      CallTool({"ckpt-verify", sharded_, "--weights", "model.safetensors", "--against", model})
          .exit_code,
      1);
}

TEST_F(WeightSets, InspectShowsThemAll) {
  const Json json = RunJson(0, {"ckpt-inspect", sharded_});
  EXPECT_EQ(json["weight_sets"], Json::array({{{"file", "model.safetensors"}, {"read", true}},
                                              {{"file", index_}, {"read", false}}}));
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("2 sets of weights"));
  const ProcessResult text = CallTool({"ckpt-inspect", "--weights", index_, sharded_});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("model.safetensors, " + index_ + " (shown)"));
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(RunJson(0, {"ckpt-inspect", new_})["weight_sets"], Json::array());
}

}  // namespace
}  // namespace nxdkit::test
