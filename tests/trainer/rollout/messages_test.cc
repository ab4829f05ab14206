// The protocol of the workers: messages survive encoding and decoding, and damage is an error, not
// a crash.
#include "trainer/rollout/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/rollout/rollout_lab.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;

EngineOptions SampleOptions() {
  EngineOptions options;
  options.bundle = "/bundles/a";
  options.neuron_override = {.tp_degree = 2, .seq_len = 64, .torch_dtype = "float32"};
  options.expect = {.serial = 3, .label = "step_3", .digest = "sha256:00"};
  options.threads = 4;
  options.pass_tokens = 99;
  options.digest = true;
  options.kind = EngineKind::kVllm;
  options.other = {.url = "http://h:1",
                   .command = {"a", "", "b c"},
                   .variables = {"A=1"},
                   .tp = 2,
                   .vocab = 64,
                   .seq_len = 32,
                   .dtype = Dtype::kF32,
                   .temperature = 0.5f,
                   .in_flight = 3,
                   .tells_log_probs = false,
                   .starts_anew = true,
                   .start_seconds = 4,
                   .answer_seconds = 5,
                   .version = "step 1",
                   .parameters = {{"tp0:a", "00"}, {"tp1:a", "11"}}};
  return options;
}

EngineFacts SampleFacts() {
  EngineFacts facts;
  facts.model_type = "qwen3";
  facts.tp = 2;
  facts.vocab = 64;
  facts.dtype = Dtype::kF32;
  facts.version = rollout::WeightsVersion{5, "step_5", "/checkpoints/5", "sha256:11"};
  facts.digest = "sha256:22";
  facts.engine = "vllm 0.32.0";
  facts.seconds = {{"check", 0.5}, {"reload", 2}};
  facts.proved = 7;
  facts.not_covered = 2;
  return facts;
}

std::string SampleRequestBytes() {
  const auto requests = SampleRequests(2, 2, {.top_k = 4, .stop_tokens = {5, 6}});
  std::vector<NumberedRequest> numbered;
  for (size_t i = 0; i < requests.size(); ++i) numbered.push_back({i * 10, &requests[i]});
  return EncodeRequests(numbered);
}

const RolloutResponse kResponse = {{1, 2, 3}, {-0.5f, -1, -2}, FinishReason::kStop};

TEST(Messages, ComeBack) {
  const auto options = Decode<EngineOptions>(Encode(SampleOptions()));
  ASSERT_TRUE(options.ok()) << Text(options);
  EXPECT_EQ(Encode(*options), Encode(SampleOptions()));
  EXPECT_EQ(options->neuron_override.tp_degree, 2);
  EXPECT_FALSE(options->neuron_override.batch_size.has_value());
  EXPECT_EQ(options->expect.label, "step_3");
  EXPECT_EQ(options->kind, EngineKind::kVllm);
  EXPECT_EQ(options->other.command, (std::vector<std::string>{"a", "", "b c"}));
  EXPECT_EQ(options->other.parameters, SampleOptions().other.parameters);
  const auto facts = Decode<EngineFacts>(Encode(SampleFacts()));
  ASSERT_TRUE(facts.ok()) << Text(facts);
  EXPECT_EQ(facts->version, SampleFacts().version);
  EXPECT_EQ(facts->digest, "sha256:22");
  EXPECT_EQ(facts->seconds, SampleFacts().seconds);
  EXPECT_EQ(facts->proved, 7);
  const auto requests = DecodeRequests(SampleRequestBytes());
  ASSERT_TRUE(requests.ok()) << Text(requests);
  EXPECT_EQ(requests->numbers, (std::vector<uint64_t>{0, 10, 20, 30}));
  EXPECT_EQ(requests->requests[3].sampling.stop_tokens, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(requests->requests[3].sample_index, 1u);
  const auto response = DecodeResponse(EncodeResponse(7, kResponse));
  ASSERT_TRUE(response.ok()) << Text(response);
  EXPECT_EQ(response->number, 7u);
  EXPECT_EQ(response->response, kResponse);
  const Error error = ErrorFrom(
      EncodeError(Error(Errc::kLimit, "too much").in("f").member("m").on("t").hint("less")));
  EXPECT_EQ(error.code(), Errc::kLimit);
  EXPECT_EQ(error.ToString(),
            Error(Errc::kLimit, "too much").in("f").member("m").on("t").ToString());
  EXPECT_EQ(error.hint(), "less");
}

TEST(Messages, AnEmptyRequestIsSmallEnoughToBeCounted) {
  const RolloutRequest empty;
  const auto decoded = DecodeRequests(EncodeRequests({{1, &empty}, {2, &empty}}));
  ASSERT_TRUE(decoded.ok()) << Text(decoded);
  EXPECT_EQ(decoded->requests.size(), 2u);
}

// Every message cut anywhere is an error; with any byte changed it is decoded or an error.
TEST(Messages, DamageIsAnError) {
  const auto decode = [](size_t kind, std::string_view bytes) -> bool {
    switch (kind) {
      case 0:
        return Decode<EngineOptions>(bytes).ok();
      case 1:
        return Decode<EngineFacts>(bytes).ok();
      case 2:
        return DecodeRequests(bytes).ok();
      case 3:
        return DecodeResponse(bytes).ok();
      case 4:
        return Decode<GenerateStats>(bytes).ok();
      default:
        return DecodeHello(bytes).ok();
    }
  };
  const std::vector<std::string> messages = {Encode(SampleOptions()),
                                             Encode(SampleFacts()),
                                             SampleRequestBytes(),
                                             EncodeResponse(7, kResponse),
                                             Encode(GenerateStats{1, 2, 3, 4}),
                                             EncodeHello()};
  for (size_t kind = 0; kind < messages.size(); ++kind) {
    const std::string& whole = messages[kind];
    ASSERT_TRUE(decode(kind, whole)) << kind;
    EXPECT_FALSE(decode(kind, whole + "x")) << kind;
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_FALSE(decode(kind, std::string_view(whole).substr(0, i))) << kind << " cut at " << i;
      std::string changed = whole;
      for (const int byte : {0x00, 0x7f, 0xff}) {
        changed[i] = static_cast<char>(byte);
        (void)decode(kind, changed);
      }
    }
  }
  EXPECT_EQ(ErrorFrom("nonsense").code(), Errc::kCorrupt);
}

TEST(Messages, ACountThatIsNotThereTakesNoMemory) {
  std::string bytes = EncodeResponse(7, kResponse);
  for (size_t i = 8; i < 16; ++i) bytes[i] = static_cast<char>(0x7f);
  const auto decoded = DecodeResponse(bytes);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code(), Errc::kCorrupt);
  EXPECT_EQ(decoded.error().offset(), 16u);
  EXPECT_THAT(decoded.error().message(), HasSubstr("are announced, 33 are left"));
}

TEST(Frames, AreTakenOneByOneFromWhatHasArrived) {
  const std::string two =
      MakeFrame(FrameKind::kProgress, "") + MakeFrame(FrameKind::kDone, "payload");
  std::string arrived;
  std::vector<Frame> frames;
  for (const char c : two) {
    arrived += c;
    auto frame = TakeFrame(arrived);
    ASSERT_TRUE(frame.ok());
    if (frame->has_value()) frames.push_back(**frame);
  }
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1].kind, FrameKind::kDone);
  EXPECT_EQ(frames[1].payload, "payload");
  EXPECT_EQ(arrived, "");
}

TEST(Frames, ThatAreNoneAreRefused) {
  struct Case {
    size_t at;
    char byte;
    const char* said;
  };
  for (const Case& one : {Case{0, 'X', "is not a frame"}, Case{4, 10, "a frame of kind 10"},
                          Case{14, 1, "is over the limit of 1073741824"}}) {
    std::string bytes = MakeFrame(FrameKind::kDone, "payload");
    bytes[one.at] = one.byte;
    const auto frame = TakeFrame(bytes);
    ASSERT_FALSE(frame.ok());
    EXPECT_EQ(frame.error().code(), Errc::kCorrupt);
    EXPECT_THAT(frame.error().message(), HasSubstr(one.said));
  }
}

TEST(Worker, SaysWhatItDoesNotUnderstand) {
  EXPECT_THAT(Text(DecodeHello(std::string("\5\0\0\0", 4))), HasSubstr("speaks version 5"));
}

}  // namespace
}  // namespace nxdkit::trainer
