#include "trainer/loop/setup_text.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"
#include "trainer/config/check_reward.h"
#include "trainer/loop/dataset_feed.h"
#include "trainer/loop/format_check.h"
#include "trainer/text/open_tokenizer.h"
#include "trainer/text/special_tokens.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTokenizer = uint64_t{256} << 20;

struct RunText {
  std::shared_ptr<const Tokenizer> tokenizer;
  ChatTemplate chat;
  std::optional<PromptFormat> format;
  SpecialTokens special;

  PromptMaker maker() const { return {tokenizer.get(), &chat, format ? &*format : nullptr}; }
};

Status CheckVocabulary(const Tokenizer& tokenizer, const DecoderConfig& config,
                       const std::string& folder) {
  if (tokenizer.id_limit() <= config.model.config.vocab) return OkStatus();
  return Corrupt("the tokenizer has ids up to {}, the model {} rows", tokenizer.id_limit() - 1,
                 config.model.config.vocab)
      .in(folder);
}

// The folder of the model's own small files: in another trainer's checkpoint, a folder below it.
std::string ModelFolder(const ModelSection& section, const artifact::Artifact& model) {
  return model.side_folder.empty() ? *section.model_path : model.side_folder;
}

std::string TokenizerFolder(const ModelSection& section, const artifact::Artifact& model) {
  const bool named = section.tokenizer_path && section.tokenizer_path != section.model_path;
  return named ? *section.tokenizer_path : ModelFolder(section, model);
}

// The critic reads the actor's tokens.
Status CheckCriticTokens(const SetupContext& setup, const Tokenizer& tokenizer,
                         const RunModels& models) {
  const DecoderConfig& critic = models.critic_model->config;
  const WorkerConfig& worker = setup.config.worker;
  const std::string& path = *worker.critic.model.model_path;
  NXDKIT_TRY(CheckVocabulary(tokenizer, critic, path));
  const auto file = [](const ModelSection& of, const artifact::Artifact& model) {
    return ReadSmallFile(JoinPath(TokenizerFolder(of, model), "tokenizer.json"), kMaxTokenizer);
  };
  const auto own = file(worker.critic.model, models.critic_model->source.artifact);
  const auto actors = file(worker.actor.model, models.base.artifact);
  if (own.ok() && actors.ok() && *own != *actors)
    setup.Note(fmt::format(
        "critic: {} has another tokenizer.json than the actor; it will read the actor's tokens",
        path));
  return OkStatus();
}

// For templates that print a date: the configured one, else the day the run began.
Result<std::string> TemplateDate(const SetupContext& setup, const ChatTemplate& chat,
                                 const std::optional<FoundCheckpoint>& continued) {
  std::string date;
  if (!chat.Mentions("strftime_now")) return date;
  if (setup.config.data.template_date)
    date = *setup.config.data.template_date;
  else if (continued)
    NXDKIT_TRY(TemplateDateOf(*continued).To(date));
  else
    date = Today();
  if (!date.empty())
    setup.Note(fmt::format("the chat template's date is {} throughout the run", date));
  return date;
}

DatasetOptions OptionsOf(const DataConfig& data, const RunText& text, const std::string& date) {
  return {.prompt_key = data.prompt_key,
          .answer_key = data.answer_key,
          .image_key = data.image_key,
          .video_key = data.video_key,
          .max_prompt_tokens = data.max_prompt_length,
          .overlong = data.filter_overlong_prompts ? Overlong::kDrop : Overlong::kTruncate,
          .chat = {.enable_thinking = data.enable_thinking,
                   .bos_token = text.special.bos_token,
                   .eos_token = text.special.eos_token,
                   .now = MidnightOf(date)}};
}

Result<std::shared_ptr<const Dataset>> LoadData(const SetupContext& setup,
                                                const std::string& source, const RunText& text,
                                                const DatasetOptions& options) {
  NXDKIT_ASSIGN(Dataset dataset, Dataset::Load(source, text.maker(), options));
  std::string line =
      fmt::format("{}: {}, the longest of {}", source, Counted(dataset.size(), "prompt"),
                  Counted(dataset.longest(), "token"));
  if (dataset.dropped() > 0) line += fmt::format(", {} too long and left out", dataset.dropped());
  if (dataset.truncated() > 0)
    line += fmt::format(", {} too long and cut at the front of their text", dataset.truncated());
  setup.Note(line);
  if (!dataset.read_as().empty())
    setup.Warn(fmt::format("{}: rows are read as {}", source, dataset.read_as()));
  if (const std::vector<std::string>& empty = dataset.empty_files(); !empty.empty())
    setup.Warn(fmt::format(
        "{}: there are no rows in it{}", empty.front(),
        empty.size() > 1 ? fmt::format(", nor in {} more files", empty.size() - 1) : ""));
  return std::make_shared<const Dataset>(std::move(dataset));
}

RewardChoice RewardOfRun(const RewardConfig& reward) {
  return ResolveReward(reward.reward_function.value_or(""));
}

Result<RewardOptions> RewardNumbers(const RewardConfig& reward) {
  RewardOptions numbers;
  for (const ValueEntry& entry : reward.reward_function_kwargs.entries) {
    if (entry.value.kind != ValueKind::kInt && entry.value.kind != ValueKind::kDouble)
      return BadUsage("found no number: rewards take numbers only")
          .member("worker.reward.reward_function_kwargs." + entry.key);
    numbers[entry.key] = entry.value.number;
  }
  return numbers;
}

Status LookAtFormat(const SetupContext& setup, const RunText& text, const ChatOptions& chat) {
  const RewardConfig& reward = setup.config.worker.reward;
  const RewardChoice choice = RewardOfRun(reward);
  if (choice.kind != RewardKind::kBuiltIn) return OkStatus();
  NXDKIT_ASSIGN(const RewardOptions numbers, RewardNumbers(reward));
  const auto prompt = PromptText(text.maker(), {{"user", "1 + 1"}}, chat);
  if (!prompt.ok()) return OkStatus();  // the first row of the data will show it
  setup.Warn(FormatWarning({.reward = choice.name,
                            .tags = FormatTags(choice.name, numbers),
                            .prompt = *prompt,
                            .tokenizer = text.tokenizer.get(),
                            .skips_special = reward.skip_special_tokens}));
  return OkStatus();
}

Result<RunText> OpenText(const SetupContext& setup, const RunModels& models, TextFiles& files) {
  const ModelSection& model = setup.config.worker.actor.model;
  const std::string folder = TokenizerFolder(model, models.base.artifact);
  const std::string own_folder = ModelFolder(model, models.base.artifact);
  NXDKIT_ASSIGN(Tokenizer opened, OpenTokenizer(folder));
  auto tokenizer = std::make_shared<const Tokenizer>(std::move(opened));
  NXDKIT_TRY(CheckVocabulary(*tokenizer, *models.config, folder));
  NXDKIT_ASSIGN(SpecialTokens special, LoadSpecialTokens(folder, own_folder, *tokenizer));
  const DataConfig& data = setup.config.data;
  const auto& override_path = data.override_chat_template;
  NXDKIT_ASSIGN(ChatTemplate chat,
                override_path ? ChatTemplate::Open(*override_path) : ChatTemplate::Load(folder));
  if (override_path) files.chat_template = chat.source();
  NXDKIT_ASSIGN(const bool of_model, SamePath(folder, own_folder));
  if (!of_model) files.tokenizer = folder;
  std::optional<PromptFormat> format;
  if (data.format_prompt) NXDKIT_TRY(PromptFormat::Open(*data.format_prompt).To(format));
  return RunText{std::move(tokenizer), std::move(chat), std::move(format), std::move(special)};
}

Status OpenData(const SetupContext& setup, const RunText& text, RunData& data, RunRecord& record) {
  const Config& config = setup.config;
  const DatasetOptions options = OptionsOf(config.data, text, record.template_date);
  NXDKIT_TRY(LookAtFormat(setup, text, options.chat));
  NXDKIT_ASSIGN(const std::shared_ptr<const Dataset> train,
                LoadData(setup, config.data.train_files, text, options));
  if (!config.data.val_files.empty()) {
    NXDKIT_ASSIGN(const std::shared_ptr<const Dataset> validation,
                  LoadData(setup, config.data.val_files, text, options));
    for (size_t row = 0; row < validation->size(); ++row)
      data.validation.push_back(PromptOf(*validation, row, *text.tokenizer));
  }
  const bool validates = config.trainer.val_freq > 0 || config.trainer.val_only;
  NXDKIT_ASSIGN(record.training_steps, TrainingSteps(config, static_cast<int64_t>(train->size()),
                                                     validates ? std::ssize(data.validation) : 1));
  NXDKIT_ASSIGN(data.train, MakeDatasetFeed(train, text.tokenizer, config.data.seed,
                                            config.data.shuffle, setup.plan.prompts_per_call));
  return OkStatus();
}

}  // namespace

Status OpenTextAndData(const SetupContext& setup, const RunModels& models,
                       const std::optional<FoundCheckpoint>& continued, RunData& data,
                       RunRecord& record) {
  NXDKIT_ASSIGN(const RunText text, OpenText(setup, models, record.text_files));
  if (models.critic_model) NXDKIT_TRY(CheckCriticTokens(setup, *text.tokenizer, models));
  data.stop_tokens = text.special.eos_ids;
  data.decode = [tokenizer = text.tokenizer, skip = setup.config.worker.reward.skip_special_tokens](
                    std::span<const int32_t> ids) { return tokenizer->Decode(ids, skip); };
  NXDKIT_ASSIGN(record.template_date, TemplateDate(setup, text.chat, continued));
  NXDKIT_TRY(OpenData(setup, text, data, record));
  NXDKIT_ASSIGN(data.score, MakeScorer(setup));
  return OkStatus();
}

Result<Scorer> MakeScorer(const SetupContext& setup) {
  const RewardConfig& reward = setup.config.worker.reward;
  const RewardChoice choice = RewardOfRun(reward);
  NXDKIT_ASSIGN(const RewardOptions numbers, RewardNumbers(reward));
  NXDKIT_ASSIGN(
      std::shared_ptr<Reward> made,
      MakeReward(choice.kind == RewardKind::kCommand ? "exec:" + choice.name : choice.name,
                 numbers));
  return Scorer([made, poll = setup.hooks.poll, progress = setup.hooks.progress](
                    std::span<const RewardSample> samples, std::optional<size_t>& bad) {
    const auto count = [&](size_t scored) {
      if (progress) progress(static_cast<int64_t>(scored), std::ssize(samples));
    };
    return made->Score(samples, {poll, count, [&](size_t sample) { bad = sample; }});
  });
}

}  // namespace nxdkit::trainer
