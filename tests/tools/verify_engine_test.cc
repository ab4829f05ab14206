// ckpt-verify --engine, with a peer that answers like a server, rightly and wrongly. The real
// server: tests/vllm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/lib/http_peer.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::HttpPeer;
using testing_util::PeerAnswer;

constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

class EngineCheck : public ::testing::Test {
 protected:
  Json Predicted(const std::string& model, const std::string& options) const {
    Words words = {Workshop::Tool("ckpt-digest"), "--as", "vllm", "--json"};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(model);
    return Json::parse(RunProcess(words).out)["checksums"];
  }
  // A server that holds `checksums`.
  static ProcessResult Ask(const std::string& model, const Json& checksums, Words more = {}) {
    const HttpPeer peer([&](const std::string& path, const std::string& body) {
      if (path == "/version") return PeerAnswer{.body = R"({"version":"0.32.0"})"};
      EXPECT_EQ(path, "/weight_checker");
      EXPECT_EQ(Json::parse(body), Json({{"action", "checksum"}}));
      return PeerAnswer{.body = Json({{"checksums", checksums}}).dump()};
    });
    return Verify(model, peer, std::move(more));
  }
  static ProcessResult Verify(const std::string& model, const HttpPeer& peer, Words more = {}) {
    Words words = {Workshop::Tool("ckpt-verify"), "--engine", peer.url(), model};
    words.insert(words.end(), more.begin(), more.end());
    return RunProcess(words);
  }
  static std::string Key(int rank, const std::string& name) {
    return "dp0:pp0:pcp0:tp" + std::to_string(rank) + ":" + name;
  }
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const Json checksums_ = Predicted(model_, "--tp 2");
};

TEST_F(EngineCheck, OneThatHoldsTheWeightsIsGood) {
  const ProcessResult good = Ask(model_, checksums_, {"--json"});
  ASSERT_EQ(good.exit_code, 0) << good.out << good.err;
  const Json json = Json::parse(good.out);
  EXPECT_THAT(SourceSchemas().Faults("ckpt-verify.json", json), ::testing::IsEmpty());
  EXPECT_EQ(json["engine"]["compared"], checksums_.size());
  EXPECT_EQ(json["engine"]["tp"], 2);
  EXPECT_EQ(json["engine"]["not_covered"], 0);
  const std::string set = workshop_ / "set";
  ExpectConverts("--from hf --to nxd --tp 4 --hw trn1", model_, set);
  EXPECT_EQ(Ask(set, checksums_).exit_code, 0) << "from another layout";
}

TEST_F(EngineCheck, WhatDiffersIsNamedWithItsRank) {
  Json checksums = checksums_;
  checksums[Key(1, "model.layers.2.self_attn.qkv_proj.weight")] = std::string(64, 'a');
  const ProcessResult result = Ask(model_, checksums);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("model.layers.2.self_attn.qkv_proj.weight: rank 1: "
                                    "the engine holds different bytes"));
  EXPECT_THAT(result.out, HasSubstr("1 finding"));
}

TEST_F(EngineCheck, BothDirectionsCount) {
  Json checksums = checksums_;
  checksums.erase(Key(0, "model.norm.weight"));
  checksums[Key(1, "model.layers.9.input_layernorm.weight")] = std::string(64, 'b');
  const ProcessResult result = Ask(model_, checksums);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("model.norm.weight: rank 0: the engine has no such parameter"));
  EXPECT_THAT(result.out, HasSubstr("model.layers.9.input_layernorm.weight: rank 1: the engine has "
                                    "it, and nothing of the model fills it"));
}

// Another step of the same model: every parameter differs.
TEST_F(EngineCheck, OldWeightsAreNotPassedOver) {
  const std::string other = workshop_.MakeModel("other", testing_util::TinyLlama(), "--seed 2");
  const ProcessResult result = Ask(other, checksums_, {"--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(Json::parse(result.out)["findings"].size(), checksums_.size());
}

TEST_F(EngineCheck, AnEmptyTensorIsNotCoveredAndNeverEqual) {
  Json checksums = checksums_;
  size_t packed = 0;
  for (auto& [key, digest] : checksums.items())
    if (key.find("_proj.weight") != std::string::npos) {
      digest = kOfNothing;
      ++packed;
    }
  const ProcessResult result = Ask(model_, checksums, {"--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["engine"]["not_covered"], packed);
  EXPECT_EQ(json["engine"]["compared"], checksums_.size() - packed);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("cannot be compared"));
}

TEST_F(EngineCheck, ExpertsMayBeCutOrWhole) {
  const std::string model = workshop_.MakeModel("moe", testing_util::TinyMixtral());
  for (const char* options : {"--tp 2", "--tp 2 --enable-expert-parallel"}) {
    const Json checksums = Predicted(model, options);
    const ProcessResult result = Ask(model, checksums, {"--json"});
    ASSERT_EQ(result.exit_code, 0) << options << result.out;
    EXPECT_EQ(Json::parse(result.out)["engine"]["expert_parallel"],
              std::string(options).ends_with("parallel"));
  }
}

TEST_F(EngineCheck, FaultsOfAServerAreErrors) {
  const struct {
    PeerAnswer answer;
    int exit_code;
    const char* message;
  } rows[] = {
      {{.status = 404, .body = R"({"detail":"Not Found"})"}, 4, "VLLM_SERVER_DEV_MODE=1"},
      {{.status = 500, .body = R"({"error":{"message":"Cannot copy out of meta tensor"}})"},
       5,
       "the server answers 500: Cannot copy out of meta tensor"},
      {{.status = 503, .body = R"({"error":"dead"})"}, 5, "the server answers 503: dead"},
      {{.body = "[]"}, 3, "is not a JSON object"},
      {{.body = "{}"}, 3, "has no checksums"},
      {{.body = R"({"checksums":{}})"}, 3, "answers for no parameter"},
      {{.body = R"({"checksums":{"dp0:pp0:pcp0:tp0:x":"12"}})"}, 3, "expected 64 hexadecimal"},
      {{.body = "{\"checksums\":{\"dp0:pp1:pcp0:tp0:x\":\"" + std::string(64, 'a') + "\"}}"},
       4,
       "one pipeline stage"},
      {{.body = "{\"checksums\":{\"dp0:pp0:pcp0:tp7:x\":\"" + std::string(64, 'a') + "\"}}"},
       3,
       "answers for 1 rank, the last of which is 7"},
      {{.body = "{\"checksums\":", .promised = 100}, 5, "no answer: "},
      {{.wait_ms = 30'000}, 5, "timed out"},
  };
  for (const auto& row : rows) {
    const HttpPeer peer([&](const std::string& path, const std::string&) {
      return path == "/version" ? PeerAnswer{.body = R"({"version":"0.32.0"})"} : row.answer;
    });
    const ProcessResult result =
        Verify(model_, peer, {"--timeout", row.answer.wait_ms > 0 ? "1" : "60"});
    EXPECT_EQ(result.exit_code, row.exit_code) << row.message << result.err;
    EXPECT_THAT(result.err, HasSubstr(row.message));
  }
}

// Like the JSON of a server that tries to fill the memory: a tree of these has twenty times as
// much.
TEST_F(EngineCheck, AnAnswerOfNothingButBracketsTakesNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take address space of their own";
#endif
  std::string body = R"({"checksums":{},"more":[0)";
  body.reserve(size_t{31} << 20);
  while (body.size() < (size_t{30} << 20)) body += ",[],0";
  const HttpPeer peer([&](const std::string& path, const std::string&) {
    return PeerAnswer{.body = path == "/version" ? R"({"version":"0.32.0"})" : body + "]}"};
  });
  // With memory for the answer a few times over: the rest is the program's own.
  const ProcessResult result =
      RunProcess({"sh", "-c", "ulimit -v 600000; exec \"$0\" \"$@\"", Workshop::Tool("ckpt-verify"),
                  "--engine", peer.url(), "-j", "1", model_});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("answers for no parameter"));
}

TEST_F(EngineCheck, AnAnswerThatIsTooLongIsNotRead) {
  const HttpPeer peer([&](const std::string& path, const std::string&) {
    if (path == "/version") return PeerAnswer{.body = R"({"version":"0.32.0"})"};
    return PeerAnswer{.body = R"({"checksums":{)" + std::string(size_t{33} << 20, ' ') + "}}"};
  });
  const ProcessResult result = Verify(model_, peer);
  EXPECT_EQ(result.exit_code, 6) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the answer is longer than 33554432 bytes"));
  const HttpPeer version([&](const std::string&, const std::string&) {
    return PeerAnswer{.body = "{\"version\":\"" + std::string(size_t{1} << 20, 'v') + "\"}"};
  });
  EXPECT_EQ(Verify(model_, version).exit_code, 6);
}

// A server's text is cut and escaped: not a megabyte of it, and no control sequence for the
// terminal.
TEST_F(EngineCheck, TheServersWordsAreShort) {
  const std::string name(100'000, 'n');
  const std::string digest(64, 'a');
  const struct {
    PeerAnswer answer;
    std::string version = "0.32.0";
    int exit_code;
    std::string message;
  } rows[] = {
      {{.status = 500, .body = "{\"error\":\"\\u001b[2J" + name + "\"}"},
       "0.32.0",
       5,
       "the server answers 500: \\x1b[2Jnnn"},
      {{.status = 500, .body = std::string(1'000'000, 'w')}, "0.32.0", 5, "answers 500: www"},
      {{.body = "{\"checksums\":{\"" + name + "\":\"" + digest + "\"}}"},
       "0.32.0",
       4,
       "the engine answers for nnn"},
      {{.body = "{\"checksums\":{\"" + name + "\":\"" + name + "\"}}"},
       "0.32.0",
       3,
       "expected 64 hexadecimal"},
      {{.body = "{\"checksums\":{\"a\":\"" + digest + "\",\"a\":\"" + digest + "\"}}"},
       "0.32.0",
       3,
       "two digests have the same name"},
      {{.body = "{\"checksums\":{\"a\":[]}}"}, "0.32.0", 3, "expected 64 hexadecimal"},
      {{.body = Json({{"checksums", checksums_}}).dump()}, "1\x1b[2J" + name, 0, ""},
  };
  for (const auto& row : rows) {
    const HttpPeer peer([&](const std::string& path, const std::string&) {
      return path == "/version" ? PeerAnswer{.body = Json({{"version", row.version}}).dump()}
                                : row.answer;
    });
    for (const Words& more : {Words{}, Words{"--json"}}) {
      const ProcessResult result = Verify(model_, peer, more);
      EXPECT_EQ(result.exit_code, row.exit_code) << row.message << result.err.substr(0, 500);
      EXPECT_THAT(result.err, HasSubstr(row.message));
      EXPECT_LT(result.err.size(), 3000u) << row.message;
      EXPECT_LT(result.out.size(), 5000u) << row.message;
      EXPECT_EQ((result.out + result.err).find('\x1b'), std::string::npos);
    }
  }
}

TEST_F(EngineCheck, IsAQuestionOfItsOwn) {
  EXPECT_EQ(Workshop::Verify(model_, "--engine http://127.0.0.1:1 --against x").exit_code, 2);
  EXPECT_EQ(Workshop::Verify(model_, "--dtype bf16").exit_code, 2);
  EXPECT_EQ(Workshop::Verify(model_, "--engine unix:/x").exit_code, 2);
  EXPECT_EQ(Workshop::Verify(model_, "--engine http://127.0.0.1:1").exit_code, 5);
}

}  // namespace
}  // namespace nxdkit::test
