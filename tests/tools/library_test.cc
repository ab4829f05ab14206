// The functions of nxdkit.h, called as from a C program.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/json/json.h"
#include "tests/tools/process.h"
#include "tools/library/nxdkit.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

struct Close {
  void operator()(nxdkit_source* source) const { nxdkit_close(source); }
};
using Source = std::unique_ptr<nxdkit_source, Close>;

// The reply of a call, which is then freed.
struct Reply {
  int code = -1;
  Json json;
  std::string message() const {
    return json.contains("error") ? json["error"].value("message", "") : "";
  }
};

Reply ReplyOf(int code, char* text) {
  Reply reply{code, text == nullptr ? Json() : *ParseJson(text)};
  nxdkit_free(text);
  return reply;
}

Reply Call(const Json& request, const std::vector<nxdkit_source*>& sources = {},
           nxdkit_progress progress = nullptr, void* context = nullptr) {
  char* text = nullptr;
  const int code =
      nxdkit_run(request.dump().c_str(), sources.data(), sources.size(), progress, context, &text);
  return ReplyOf(code, text);
}

Source Open(const Json& request) {
  nxdkit_source* source = nullptr;
  char* text = nullptr;
  const int code = nxdkit_open(request.dump().c_str(), nullptr, nullptr, &source, &text);
  EXPECT_EQ(ReplyOf(code, text).json, Json()) << request.dump();
  return Source(source);
}

Reply OpenReply(const Json& request) {
  nxdkit_source* source = nullptr;
  char* text = nullptr;
  const int code = nxdkit_open(request.dump().c_str(), nullptr, nullptr, &source, &text);
  EXPECT_EQ(source, nullptr);
  return ReplyOf(code, text);
}

Json IndexOf(const Source& source) { return *ParseJson(nxdkit_index(source.get())); }

// The number of a tensor in the index.
uint64_t NumberOf(const Source& source, const std::string& name) {
  const Json tensors = IndexOf(source)["tensors"];
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i]["name"] == name) return i;
  ADD_FAILURE() << name << " is not in the index";
  return 0;
}

std::vector<char> Read(const Source& source, const std::string& name, size_t bytes) {
  std::vector<char> to(bytes);
  char* text = nullptr;
  const int code = nxdkit_read(source.get(), NumberOf(source, name), nullptr, nullptr, nullptr,
                               to.data(), to.size(), &text);
  EXPECT_EQ(ReplyOf(code, text).code, 0) << name;
  return to;
}

constexpr const char* kEmbedding = "model.embed_tokens.weight";  // [512, 64] BF16
constexpr size_t kEmbeddingBytes = 512 * 64 * 2;
constexpr const char* kNorm = "model.norm.weight";  // [64] BF16

class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = shop_.path() + "/model";
    ASSERT_EQ(Call({{"command", "make-model"}, {"options", {{"out", model_}}}}).code, 0);
  }
  std::string Sharded(int tp) {
    const std::string tag = shop_.path() + "/tag" + std::to_string(tp);
    EXPECT_EQ(Call({{"command", "convert"},
                    {"arguments", {model_, tag}},
                    {"options", {{"to", "nxd"}, {"tp", tp}, {"sync", false}}}})
                  .code,
              0);
    return tag;
  }

  TempFolder shop_;
  std::string model_;
};

TEST_F(Library, IndexSaysWhatASourceHolds) {
  const Json index = IndexOf(Open({{"path", Sharded(2)}}));
  EXPECT_EQ(index["format"], "nxd");
  EXPECT_EQ(index["model_type"], "qwen3");
  EXPECT_EQ(index["parallel"]["tp"], 2);
  EXPECT_EQ(index["tensors"].size(), 46u);
  EXPECT_EQ(index["config"]["hidden_size"], 64);
}

TEST_F(Library, EveryLayoutReadsTheSame) {
  const Source hf = Open({{"path", model_}});
  const Source nxd = Open({{"path", Sharded(2)}});
  EXPECT_EQ(Read(nxd, kEmbedding, kEmbeddingBytes), Read(hf, kEmbedding, kEmbeddingBytes));
  EXPECT_EQ(Read(nxd, kNorm, 128), Read(hf, kNorm, 128));
}

TEST_F(Library, BoxHasItsSteps) {
  const Source source = Open({{"path", Sharded(2)}});
  const std::vector<char> whole = Read(source, kEmbedding, kEmbeddingBytes);
  const int64_t begin[] = {3, 1}, end[] = {500, 64}, step[] = {100, 8};
  std::vector<char> box(5 * 8 * 2);
  ASSERT_EQ(nxdkit_read(source.get(), NumberOf(source, kEmbedding), begin, end, step, box.data(),
                        box.size(), nullptr),
            0);
  for (int row = 0; row < 5; ++row)
    for (int column = 0; column < 8; ++column)
      for (int byte = 0; byte < 2; ++byte)
        EXPECT_EQ(box[(row * 8 + column) * 2 + byte],
                  whole[((3 + 100 * row) * 64 + 1 + 8 * column) * 2 + byte])
            << row << " " << column;
}

TEST_F(Library, BoxesThatAreNoneAreRefused) {
  const Source source = Open({{"path", model_}});
  const uint64_t norm = NumberOf(source, kNorm);
  char to[128];
  const auto read = [&](uint64_t tensor, int64_t begin, int64_t end, int64_t step, size_t bytes) {
    char* text = nullptr;
    const int code = nxdkit_read(source.get(), tensor, &begin, &end, &step, to, bytes, &text);
    return ReplyOf(code, text);
  };
  EXPECT_EQ(read(norm, 0, 64, 1, 128).code, 0);
  const auto refused = [&](Reply reply, const char* message) {
    EXPECT_EQ(reply.code, 2);
    EXPECT_THAT(reply.message(), HasSubstr(message));
  };
  refused(read(norm, 0, 65, 1, 128), "65");
  refused(read(norm, -1, 64, 1, 128), "-1");
  refused(read(norm, 9, 8, 1, 0), "9");
  refused(read(norm, 0, 64, 0, 128), "step");
  refused(read(norm, 0, 64, INT64_MIN, 128), "step");
  refused(read(norm, 0, 64, 1, 127), "127");
  refused(read(99, 0, 64, 1, 128), "there is no tensor 99");
}

TEST_F(Library, RanksAreWhatConvertWrites) {
  const Source model = Open({{"path", model_}});
  const std::string tag = Sharded(2);
  nxdkit_source* rank = nullptr;
  ASSERT_EQ(nxdkit_open_rank(model.get(), R"({"layout": "nxd", "rank": 1, "options": {"tp": 2}})",
                             &rank, nullptr),
            0);
  const Source held(rank);
  const Json tensors = IndexOf(held)["tensors"];
  const Reply shown = Call({{"command", "inspect"}, {"arguments", {tag}}});
  for (const Json& stored : shown.json["tensors"]) {
    if (stored.value("tp_rank", -1) != 1) continue;
    const auto same = std::ranges::find_if(
        tensors, [&](const Json& tensor) { return tensor["name"] == stored["name"]; });
    ASSERT_NE(same, tensors.end()) << stored["name"];
    EXPECT_EQ((*same)["shape"], stored["shape"]) << stored["name"];
  }
  char* text = nullptr;
  nxdkit_source* none = nullptr;
  const int code = nxdkit_open_rank(
      model.get(), R"({"layout": "nxd", "rank": 2, "options": {"tp": 2}})", &none, &text);
  EXPECT_THAT(ReplyOf(code, text).message(), HasSubstr("2"));
  EXPECT_EQ(code, 2);
}

TEST_F(Library, MemoryStandsForFiles) {
  const Source model = Open({{"path", model_}});
  const Json index = IndexOf(model);
  std::vector<std::vector<char>> bytes;
  std::vector<const void*> data;
  Json tensors = Json::array();
  for (const Json& tensor : index["tensors"]) {
    size_t size = 2;
    for (const Json& length : tensor["shape"]) size *= length.get<size_t>();
    bytes.push_back(Read(model, tensor["name"], size));
    tensors.push_back(tensor);
  }
  for (const std::vector<char>& tensor : bytes) data.push_back(tensor.data());
  const Json request = {{"name", "the trainer"},
                        {"options", {{"config", model_ + "/config.json"}}},
                        {"tensors", tensors}};
  nxdkit_source* source = nullptr;
  ASSERT_EQ(nxdkit_open_memory(request.dump().c_str(), data.data(), &source, nullptr), 0);
  const Source memory(source);
  const std::string bundle = shop_.path() + "/bundle";
  const Json convert = {{"command", "convert"},
                        {"arguments", Json::array({{{"source", 0}}, bundle})},
                        {"options", {{"to", "rollout"}, {"tp", 2}, {"bs", 2}, {"seq", 64}}}};
  EXPECT_EQ(Call(convert, {source}).code, 0);
  const Reply verified = Call(
      {{"command", "verify"}, {"arguments", {bundle}}, {"options", {{"against", {{"source", 0}}}}}},
      {source});
  EXPECT_EQ(verified.code, 0) << verified.json;
  const Json digest = {{"command", "digest"}, {"arguments", Json::array({{{"source", 0}}})}};
  EXPECT_EQ(Call(digest, {source}).json["digest"],
            Call({{"command", "digest"}, {"arguments", {model_}}}).json["digest"]);
}

TEST_F(Library, FailuresSayWhatTheCommandsSay) {
  const Reply none = OpenReply({{"path", shop_.path() + "/none"}});
  EXPECT_EQ(none.code, 3);
  EXPECT_EQ(none.json["error"]["code"], "not_found");
  std::ofstream(model_ + "/model.safetensors") << "short";
  const Reply cut = OpenReply({{"path", model_}});
  EXPECT_EQ(cut.code, 3);
  EXPECT_EQ(cut.json["error"]["file"], model_ + "/model.safetensors");
  const Reply unknown =
      Call({{"command", "inspect"}, {"arguments", {model_}}, {"options", {{"tops", 3}}}});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.message(), HasSubstr("--top"));
}

TEST_F(Library, RequestsThatAreNoneAreRefused) {
  const auto refused = [](const char* request, const char* message) {
    char* text = nullptr;
    const int code = nxdkit_run(request, nullptr, 0, nullptr, nullptr, &text);
    EXPECT_EQ(code, 2) << message;
    EXPECT_THAT(ReplyOf(code, text).message(), HasSubstr(message));
  };
  refused(nullptr, "NULL");
  refused("", "not JSON");
  refused("[1]", "expected a JSON object");
  refused("{}", "command");
  refused(R"({"command": "train"})", "train");
  refused(R"({"command": "digest", "arguments": [{"source": 0}]})", "there is no source 0");
  refused(R"({"command": "digest", "arguments": ["a\u0000b"]})", "zero byte");
  refused(R"({"command": "digest", "options": []})", "expected an object");
}

TEST(LibraryOfNulls, TakesNullForWhatNobodyWants) {
  EXPECT_EQ(nxdkit_run(nullptr, nullptr, 0, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(nxdkit_open("{}", nullptr, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(nxdkit_open_memory(nullptr, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(nxdkit_open_rank(nullptr, "{}", nullptr, nullptr), 2);
  EXPECT_EQ(nxdkit_read(nullptr, 0, nullptr, nullptr, nullptr, nullptr, 0, nullptr), 2);
  EXPECT_EQ(nxdkit_explain(nullptr, 0, nullptr, nullptr), 2);
  EXPECT_STREQ(nxdkit_index(nullptr), "{}");
  nxdkit_close(nullptr);
  nxdkit_free(nullptr);
}

// --- the program of all commands

TEST(Umbrella, SaysWhatIsWrongWithItsWord) {
  const std::string program = NXDKIT_TOOLS "/nxdkit";
  const auto error = [&](const std::vector<std::string>& words) {
    std::vector<std::string> command{program};
    command.insert(command.end(), words.begin(), words.end());
    const ProcessResult result = RunProcess(command);
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_THAT(error({}), HasSubstr("the word of a command is missing"));
  EXPECT_THAT(error({"convrt"}), HasSubstr("did you mean convert?"));
  EXPECT_THAT(error({"--quiet", "inspect", "m"}), HasSubstr("options come after the word"));
  EXPECT_THAT(error({"-q", "train"}), HasSubstr("options come after the word"));
}

TEST(Umbrella, RunsTheCommandOfItsWord) {
  const ProcessResult result = RunProcess({NXDKIT_TOOLS "/nxdkit", "inspect", "--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("ckpt-inspect (nxdkit)"));
}

// --- progress

struct Calls {
  std::thread::id thread;
  int count = 0;
  int stop_at = -1;
  std::string last_phase;
  uint64_t last_done = 0;
  uint64_t last_total = 0;
};

extern "C" int CountCall(void* context, const char* phase, uint64_t done, uint64_t total,
                         const char*) {
  Calls& calls = *static_cast<Calls*>(context);
  calls.thread = std::this_thread::get_id();
  calls.last_phase = phase;
  calls.last_done = done;
  calls.last_total = total;
  return ++calls.count == calls.stop_at ? 1 : 0;
}

TEST_F(Library, ProgressIsToldOnTheCallersThread) {
  Calls calls;
  EXPECT_EQ(Call({{"command", "digest"}, {"arguments", {model_}}}, {}, CountCall, &calls).code, 0);
  EXPECT_GE(calls.count, 1);
  EXPECT_EQ(calls.thread, std::this_thread::get_id());
  EXPECT_EQ(calls.last_phase, "hashing tensors");
  EXPECT_EQ(calls.last_done, calls.last_total);
}

// It waits for a step that never comes: only the caller ends it.
TEST_F(Library, CallerStopsWhatWaits) {
  Calls calls;
  calls.stop_at = 3;
  const std::string run = shop_.path() + "/run";
  std::filesystem::create_directory(run);
  const Reply stopped = Call({{"command", "convert"},
                              {"arguments", {run, shop_.path() + "/models"}},
                              {"options", {{"follow", true}, {"to", "hf"}}}},
                             {}, CountCall, &calls);
  EXPECT_EQ(stopped.code, 130) << stopped.json;
  EXPECT_EQ(stopped.json["error"]["code"], "interrupted");
}

// --- side effects that a library must not have

TEST_F(Library, ProcessIsLeftAsItWas) {
  struct sigaction before = {}, after = {};
  ASSERT_EQ(::sigaction(SIGINT, nullptr, &before), 0);
  const mode_t mask = ::umask(022);
  const std::string locale = std::setlocale(LC_ALL, nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Call({{"command", "inspect"}, {"arguments", {model_}}});
  Call({{"command", "inspect"}, {"arguments", {"/no/such"}}, {"options", {{"verbose", true}}}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(::sigaction(SIGINT, nullptr, &after), 0);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  EXPECT_EQ(::umask(mask), mode_t{022});
  EXPECT_EQ(std::setlocale(LC_ALL, nullptr), locale);
}

TEST_F(Library, ThreadsReadOneSource) {
  const Source source = Open({{"path", Sharded(2)}});
  const std::vector<char> expected = Read(source, kEmbedding, kEmbeddingBytes);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        if (Read(source, kEmbedding, kEmbeddingBytes) != expected) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Library, ChildThatForkedReadsWhatItOpens) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(Call({{"command", "digest"}, {"arguments", {model_}}}).code);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Library, FileThatChangesIsAnError) {
  const Source source = Open({{"path", model_}});
  std::filesystem::resize_file(model_ + "/model.safetensors", 1000);
  char to[128];
  char* text = nullptr;
  const int code = nxdkit_read(source.get(), NumberOf(source, kNorm), nullptr, nullptr, nullptr, to,
                               sizeof to, &text);
  const Reply reply = ReplyOf(code, text);
  EXPECT_EQ(reply.code, 3);
  EXPECT_THAT(reply.message(), HasSubstr("changed since it was opened"));
  EXPECT_EQ(reply.json["error"]["file"], model_ + "/model.safetensors");
}

}  // namespace
}  // namespace nxdkit::test
