#include "trainer/loop/setup.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "formats/ops/export/export.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/compare.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"
#include "lib/system/system.h"
#include "trainer/config/check_model.h"
#include "trainer/config/check_reward.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/dataset_feed.h"
#include "trainer/loop/deliveries.h"
#include "trainer/loop/format_check.h"
#include "trainer/loop/generators.h"
#include "trainer/loop/instance_fit.h"
#include "trainer/loop/memory_estimate.h"
#include "trainer/loop/others_engine.h"
#include "trainer/loop/remote_workers.h"
#include "trainer/reward/reward.h"
#include "trainer/text/open_tokenizer.h"
#include "trainer/text/special_tokens.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTokenizer = uint64_t{256} << 20;

class Maker {
 public:
  Maker(const LoadedConfig& loaded, const RunPlan& plan, const SetupOptions& options)
      : loaded_(loaded), config_(loaded.config), plan_(plan), options_(options) {}

  Result<RunParts> Make() {
    NXDKIT_TRY(Check());
    NXDKIT_ASSIGN(parts_.score_validation, MakeScorer());
    NXDKIT_TRY(MakeModels());
    NXDKIT_TRY(MakeGenerator());
    return std::move(parts_);
  }

  // All that needs no weights. Changes no files.
  Status Check() {
    NXDKIT_TRY(CheckRunFolder());
    NXDKIT_TRY(OpenModel());
    if (NeedsCritic(config_)) NXDKIT_TRY(OpenCritic());
    NXDKIT_TRY(CheckEngineAndMemory());
    NXDKIT_TRY(OpenText());
    if (parts_.critic_model) NXDKIT_TRY(CheckCriticTokens());
    NXDKIT_TRY(OpenData());
    NXDKIT_ASSIGN(parts_.score, MakeScorer());
    return OkStatus();
  }

 private:
  void Note(const std::string& line) const {
    if (options_.note) options_.note(line);
  }
  void Warn(const std::string& line) const {
    if (options_.warn && !line.empty()) options_.warn(line);
  }
  void Tell(const Choice& choice) const {
    Note(ChoiceText(choice));
    if (options_.on_choice) options_.on_choice(choice);
  }
  const DecoderConfig* critic_config() const {
    return parts_.critic_model ? &parts_.critic_model->config : nullptr;
  }
  const ModelSection& model() const { return config_.worker.actor.model; }
  int64_t row_tokens() const {
    return config_.data.max_prompt_length + config_.data.max_response_length;
  }

  static ModelFacts FactsOf(const DecoderConfig& config) {
    const models::ModelConfig& shapes = config.model.config;
    return {shapes.heads, shapes.kv_heads, shapes.vocab, shapes.intermediate, config.max_positions};
  }

  // The run itself will choose; what it would refuse is told before anything is loaded.
  Status CheckRunFolder() {
    const TrainerConfig& trainer = config_.trainer;
    NXDKIT_ASSIGN(continued_,
                  ChooseCheckpoint(*trainer.save_checkpoint_path, trainer.load_checkpoint_path,
                                   trainer.find_last_checkpoint));
    if (!continued_) return OkStatus();
    for (const std::string& warning : continued_->warnings) Warn(warning);
    if (continued_->choice) Tell(*continued_->choice);
    return OkStatus();
  }

  // For templates that print a date: the configured one, else the day on which the run began.
  Status ChooseTemplateDate() {
    if (!chat_->Mentions("strftime_now")) return OkStatus();
    std::string& date = parts_.template_date;
    if (config_.data.template_date) {
      date = *config_.data.template_date;
    } else if (continued_) {
      NXDKIT_ASSIGN(date, TemplateDateOf(*continued_));
    } else {
      date = Today();
    }
    if (!date.empty()) Note(fmt::format("the chat template's date is {} throughout the run", date));
    return OkStatus();
  }

  Result<ops::BoundArtifact> Open(const std::string& path) const {
    NXDKIT_ASSIGN(const ops::Kind kind, ops::Recognise(path));
    NXDKIT_ASSIGN(ops::BoundArtifact opened, ops::OpenAndBind(path, kind, {}));
    for (const std::string& warning : opened.artifact.warnings) Warn(warning);
    for (const Choice& choice : opened.artifact.choices) Tell(choice);
    return opened;
  }

  Status OpenModel() {
    NXDKIT_ASSIGN(parts_.base, Open(*model().model_path));
    NXDKIT_ASSIGN(DecoderConfig config, ParseDecoderConfig(parts_.base.artifact.config_text,
                                                           parts_.base.artifact.config_path));
    const std::vector<ConfigProblem> problems = CheckModel(loaded_, FactsOf(config));
    if (!problems.empty()) return ProblemsError(problems);
    parts_.config = std::make_unique<const DecoderConfig>(std::move(config));
    return OkStatus();
  }

  Status OpenCritic() {
    NXDKIT_ASSIGN(ops::BoundArtifact opened, Open(*config_.worker.critic.model.model_path));
    NXDKIT_ASSIGN(CriticModel critic,
                  MakeCriticModel(std::move(opened), static_cast<uint64_t>(config_.data.seed)));
    const std::vector<ConfigProblem> problems = CheckCriticModel(loaded_, FactsOf(critic.config));
    if (!problems.empty()) return ProblemsError(problems);
    for (const std::string& note : critic.notes) Note("critic: " + note);
    parts_.critic_model = std::make_unique<const CriticModel>(std::move(critic));
    return OkStatus();
  }

  // The critic reads the actor's tokens.
  Status CheckCriticTokens() const {
    const ModelSection& section = config_.worker.critic.model;
    NXDKIT_TRY(CheckVocabulary(parts_.critic_model->config, *section.model_path));
    const auto file = [](const ModelSection& of) {
      return ReadSmallFile(JoinPath(of.tokenizer_path.value_or(*of.model_path), "tokenizer.json"),
                           kMaxTokenizer);
    };
    const auto own = file(section);
    const auto actors = file(model());
    if (own.ok() && actors.ok() && *own != *actors)
      Note(fmt::format(
          "critic: {} has another tokenizer.json than the actor; it will read the actor's tokens",
          *section.model_path));
    return OkStatus();
  }

  Status CheckVocabulary(const DecoderConfig& config, const std::string& folder) const {
    if (tokenizer_->id_limit() <= config.model.config.vocab) return OkStatus();
    return Corrupt("the tokenizer has ids up to {}, the model {} rows", tokenizer_->id_limit() - 1,
                   config.model.config.vocab)
        .in(folder);
  }

  // Before minutes are spent on weights.
  Status CheckEngineAndMemory() {
    const RolloutConfig& rollout = config_.worker.rollout;
    const NeuronOverrideConfig& over = rollout.neuron_override_config;
    if (OthersEngine(rollout)) {
      NXDKIT_TRY(FindCommand(rollout));
      NXDKIT_TRY(PredictsEngine());
      const bool on_devices = options_.instance || options_.rollout_environment.has_given_cores;
      NXDKIT_ASSIGN(engine_, OthersShape(config_, plan_, on_devices));
      NXDKIT_TRY(TakeLogProbs());
    } else if (rollout.model_path) {
      NXDKIT_ASSIGN(const EngineFacts facts, CheckEngineBundle(EngineFor(*rollout.model_path)));
      engine_ = {facts.tp, facts.batch_size, facts.seq_len, facts.dtype};
    } else {
      engine_ = {over.tp_degree.value_or(plan_.rollout_tp),
                 over.batch_size.value_or(std::min<int64_t>(64, plan_.sequences_per_worker)),
                 RolloutPositions(config_), RolloutDtype(rollout)};
    }
    if (options_.instance) NXDKIT_TRY(CheckInstance(*options_.instance));
    // The others are taken to have as much as this machine.
    for (int64_t machine = 0; machine < plan_.nodes; ++machine) NXDKIT_TRY(CheckMemoryOf(machine));
    return OkStatus();
  }

  // Without the engine's log-probabilities nothing shows by the tokens with which weights they were
  // made.
  Status TakeLogProbs() {
    parts_.generator_log_probs = engine_.tells_log_probs;
    if (engine_.tells_log_probs) return OkStatus();
    if (config_.algorithm.rollout_is != "off")
      return BadUsage(
                 "the bundle samples on the device and tells no log-probabilities, and importance "
                 "weights are made of them")
          .member("algorithm.rollout_is")
          .hint("set it to off, or make the bundle with neuron-export --no-on-device-sampling");
    Warn(
        "the bundle samples on the device and tells no log-probabilities: that the engine has the "
        "weights of the step is not shown by them (worker.rollout.max_log_prob_gap)");
    return OkStatus();
  }

  Status CheckMemoryOf(int64_t machine) const {
    NXDKIT_ASSIGN(const MemoryEstimate estimate, EstimateMemory(config_, plan_, *parts_.config,
                                                                engine_, critic_config(), machine));
    const std::optional<uint64_t> limit = MemoryLimitBytes();
    if (!limit) return OkStatus();
    const std::string which = plan_.nodes > 1 ? fmt::format("machine {}: ", machine) : "";
    Note(which + MemoryText(estimate, *limit));
    return config_.trainer.check_memory ? CheckMemory(estimate, *limit) : OkStatus();
  }

  Status CheckInstance(const hardware::Instance& instance) const {
    NXDKIT_ASSIGN(const std::vector<hardware::Fit> fits,
                  FitInstance(instance, config_, plan_, *parts_.config, engine_, critic_config()));
    constexpr const char* kCache =
        "worker.rollout.neuron_override_config.batch_size or data.max_response_length";
    hardware::Levers levers{.parallel = "worker.actor.tensor_parallel_size",
                            .micro_batch = "worker.actor.micro_batch_size_per_device_for_update",
                            .cache = kCache};
    for (const char* what = "training"; const hardware::Fit& fit : fits) {
      NXDKIT_TRY(hardware::CheckFit(fit, levers).member(what));
      levers.parallel = "worker.rollout.tensor_parallel_size";
      Note(fmt::format("{}, {}: {}", fit.instance, std::exchange(what, "rollout"), FitText(fit)));
      for (const std::string& warning : fit.warnings) Warn(warning);
    }
    return OkStatus();
  }

  Status OpenText() {
    const std::string folder = model().tokenizer_path.value_or(*model().model_path);
    NXDKIT_ASSIGN(Tokenizer tokenizer, OpenTokenizer(folder));
    tokenizer_ = std::make_shared<const Tokenizer>(std::move(tokenizer));
    NXDKIT_TRY(CheckVocabulary(*parts_.config, folder));
    NXDKIT_ASSIGN(special_, LoadSpecialTokens(folder, *model().model_path, *tokenizer_));
    parts_.stop_tokens = special_.eos_ids;
    const auto& override_path = config_.data.override_chat_template;
    NXDKIT_ASSIGN(ChatTemplate chat,
                  override_path ? ChatTemplate::Open(*override_path) : ChatTemplate::Load(folder));
    if (override_path) parts_.text_files.chat_template = chat.source();
    NXDKIT_ASSIGN(const bool of_model, SamePath(folder, *model().model_path));
    if (!of_model) parts_.text_files.tokenizer = folder;
    chat_ = std::make_shared<const ChatTemplate>(std::move(chat));
    if (config_.data.format_prompt) {
      NXDKIT_ASSIGN(PromptFormat format, PromptFormat::Open(*config_.data.format_prompt));
      format_ = std::make_shared<const PromptFormat>(std::move(format));
    }
    parts_.decode = [tokenizer_ = tokenizer_, skip = config_.worker.reward.skip_special_tokens](
                        std::span<const int32_t> ids) { return tokenizer_->Decode(ids, skip); };
    return OkStatus();
  }

  Status OpenData() {
    DatasetOptions options;
    options.prompt_key = config_.data.prompt_key;
    options.answer_key = config_.data.answer_key;
    options.image_key = config_.data.image_key;
    options.video_key = config_.data.video_key;
    options.max_prompt_tokens = config_.data.max_prompt_length;
    options.overlong = config_.data.filter_overlong_prompts ? Overlong::kDrop : Overlong::kTruncate;
    options.chat.enable_thinking = config_.data.enable_thinking;
    NXDKIT_TRY(ChooseTemplateDate());
    if (!parts_.template_date.empty()) options.chat.now = MidnightOf(parts_.template_date);
    options.chat.bos_token = special_.bos_token;
    options.chat.eos_token = special_.eos_token;
    const PromptMaker maker{tokenizer_.get(), chat_.get(), format_.get()};
    NXDKIT_TRY(LookAtFormat(maker, options.chat));
    NXDKIT_ASSIGN(const std::shared_ptr<const Dataset> train,
                  Load(config_.data.train_files, maker, options));
    if (!config_.data.val_files.empty()) {
      NXDKIT_ASSIGN(const std::shared_ptr<const Dataset> validation,
                    Load(config_.data.val_files, maker, options));
      for (size_t row = 0; row < validation->size(); ++row)
        parts_.validation.push_back(PromptOf(*validation, row, *tokenizer_));
    }
    const bool validates = config_.trainer.val_freq > 0 || config_.trainer.val_only;
    NXDKIT_ASSIGN(parts_.training_steps,
                  TrainingSteps(config_, static_cast<int64_t>(train->size()),
                                validates ? std::ssize(parts_.validation) : 1));
    NXDKIT_ASSIGN(parts_.train, MakeDatasetFeed(train, tokenizer_, config_.data.seed,
                                                config_.data.shuffle, plan_.prompts_per_call));
    return OkStatus();
  }

  Result<std::shared_ptr<const Dataset>> Load(const std::string& source, const PromptMaker& maker,
                                              const DatasetOptions& options) const {
    NXDKIT_ASSIGN(Dataset dataset, Dataset::Load(source, maker, options));
    std::string line = fmt::format("{}: {} prompts, the longest of {} tokens", source,
                                   dataset.size(), dataset.longest());
    if (dataset.dropped() > 0) line += fmt::format(", {} too long and left out", dataset.dropped());
    if (dataset.truncated() > 0)
      line += fmt::format(", {} too long and cut at the front of their text", dataset.truncated());
    Note(line);
    if (const std::vector<std::string>& empty = dataset.empty_files(); !empty.empty())
      Warn(fmt::format(
          "{}: there are no rows in it{}", empty.front(),
          empty.size() > 1 ? fmt::format(", nor in {} more files", empty.size() - 1) : ""));
    return std::make_shared<const Dataset>(std::move(dataset));
  }

  Result<RewardOptions> RewardNumbers() const {
    RewardOptions numbers;
    for (const ValueEntry& entry : config_.worker.reward.reward_function_kwargs.entries) {
      if (entry.value.kind != ValueKind::kInt && entry.value.kind != ValueKind::kDouble)
        return BadUsage("found no number: rewards take numbers only")
            .member("worker.reward.reward_function_kwargs." + entry.key);
      numbers[entry.key] = entry.value.number;
    }
    return numbers;
  }
  RewardChoice RewardOfRun() const {
    return ResolveReward(config_.worker.reward.reward_function.value_or(""));
  }

  Status LookAtFormat(const PromptMaker& maker, const ChatOptions& chat) const {
    const RewardChoice choice = RewardOfRun();
    if (choice.kind != RewardKind::kBuiltIn) return OkStatus();
    NXDKIT_ASSIGN(const RewardOptions numbers, RewardNumbers());
    const auto prompt = PromptText(maker, "1 + 1", chat);
    if (!prompt.ok()) return OkStatus();  // the first row of the data will tell
    Warn(FormatWarning({.reward = choice.name,
                        .tags = FormatTags(choice.name, numbers),
                        .prompt = *prompt,
                        .tokenizer = tokenizer_.get(),
                        .skips_special = config_.worker.reward.skip_special_tokens}));
    return OkStatus();
  }

  Result<Scorer> MakeScorer() const {
    const RewardChoice choice = RewardOfRun();
    NXDKIT_ASSIGN(const RewardOptions numbers, RewardNumbers());
    NXDKIT_ASSIGN(
        std::shared_ptr<Reward> made,
        MakeReward(choice.kind == RewardKind::kCommand ? "exec:" + choice.name : choice.name,
                   numbers));
    return Scorer([made, poll = options_.poll, progress = options_.progress](
                      std::span<const RewardSample> samples, std::optional<size_t>& bad) {
      const auto count = [&](size_t scored) {
        if (progress) progress(static_cast<int64_t>(scored), std::ssize(samples));
      };
      return made->Score(samples, {poll, count, [&](size_t sample) { bad = sample; }});
    });
  }

  // `section`: worker.actor or worker.critic.
  Result<MeshOptions> MeshOf(const UpdaterConfig& section) const {
    const auto pass = [&](int64_t rows) {
      return MeshOptions::MicroBatch{rows * row_tokens(), section.dynamic_batching ? 0 : rows};
    };
    const OptimConfig& optim = section.optim;
    MeshOptions options;
    options.tp = static_cast<int>(plan_.train_tp);
    options.dp = static_cast<int>(plan_.data_parallel);
    options.ranks_of_process.assign(plan_.ranks_of_machine.begin(), plan_.ranks_of_machine.end());
    options.decoder.compute = ComputeDtype(config_);
    options.decoder.recompute = section.model.enable_gradient_checkpointing;
    options.decoder.max_positions = row_tokens();
    options.max_grad_norm = section.max_grad_norm;
    options.update = pass(section.micro_batch_size_per_device_for_update);
    options.experience = pass(section.micro_batch_size_per_device_for_experience);
    NXDKIT_ASSIGN(options.optimizer.type, ParseOptimizerType(optim.strategy));
    options.optimizer.adam = {optim.betas[0], optim.betas[1], 1e-8, optim.weight_decay};
    options.optimizer.seed = static_cast<uint64_t>(config_.data.seed);
    options.overlap = config_.trainer.overlap_gradients ? Overlap::kOverProcesses : Overlap::kNever;
    options.transport = options_.transport;
    options.led = options_.leader != nullptr;
    options.leader = options_.leader;
    NXDKIT_ASSIGN(std::string real_model, RealPath(*section.model.model_path));
    options.origin = {std::move(real_model), false, options.optimizer.seed};
    return options;
  }

  // The weights are read once, each from one place: a damaged element would be trained from, and of
  // copies that differ, as of a head beside tied embeddings, one would be taken.
  Status CheckWeights(const ops::BoundArtifact& source) const {
    ops::RunOptions run;
    run.jobs = static_cast<int>(std::max<int64_t>(1, plan_.cores / plan_.nodes));
    run.poll = options_.poll;
    NXDKIT_TRY(ops::RequireSound(source, run));
    NXDKIT_ASSIGN(const std::vector<ops::Finding> damaged,
                  ops::CheckChecksums(source.artifact, run));
    return ops::FirstAsError(damaged);
  }

  Status MakeModels() {
    NXDKIT_TRY(CheckWeights(parts_.base));
    if (parts_.critic_model) {
      NXDKIT_TRY(CheckWeights(parts_.critic_model->source));
      NXDKIT_ASSIGN(MeshOptions options, MeshOf(config_.worker.critic));
      options.origin.critic = true;
      NXDKIT_ASSIGN(parts_.critic, MeshModel::Make(parts_.critic_model->config, options,
                                                   parts_.critic_model->source));
    }
    NXDKIT_ASSIGN(MeshOptions options, MeshOf(config_.worker.actor));
    options.temperature = static_cast<float>(config_.worker.rollout.temperature);
    NXDKIT_ASSIGN(parts_.actor, MeshModel::Make(*parts_.config, options, parts_.base));
    if (config_.algorithm.disable_kl) return OkStatus();
    options.decoder.trainable = false;
    NXDKIT_ASSIGN(parts_.reference, MeshModel::Make(*parts_.config, options, parts_.base));
    return OkStatus();
  }

  // How another program's engine lays the model out, as vLLM does; nullopt: nothing is known of it.
  // kUnsupported when vLLM itself would refuse the model.
  Result<std::optional<vllm::Geometry>> PredictsEngine() const {
    const RolloutConfig& rollout = config_.worker.rollout;
    if (rollout.model_path) return std::optional<vllm::Geometry>();
    const vllm::Geometry geometry{.tp = static_cast<int>(plan_.rollout_tp),
                                  .expert_parallel = rollout.enable_expert_parallel};
    const auto tensors = vllm::RankTensors(parts_.config->model, geometry, 0);
    if (tensors.ok()) return std::optional(geometry);
    if (rollout.engine == "vllm")
      return Error(tensors.error()).member("worker.rollout.tensor_parallel_size");
    return std::optional<vllm::Geometry>();
  }

  // The bundle of the configuration, one that is made now, or where folders will be.
  Status MakeSyncTarget() {
    const RolloutConfig& rollout = config_.worker.rollout;
    parts_.sync.text = parts_.text_files;
    if (rollout.model_path) {
      NXDKIT_ASSIGN(parts_.sync.bundle, RealPath(*rollout.model_path));
      return OkStatus();
    }
    if (!OthersEngine(rollout)) return MakeBundle();
    parts_.sync.folder = JoinPath(*config_.trainer.save_checkpoint_path, "rollout_model");
    parts_.sync.dtype = engine_.dtype;
    NXDKIT_ASSIGN(parts_.sync.engine, PredictsEngine());
    NXDKIT_TRY(MakeFolders(parts_.sync.folder));
    // A server has a working folder of its own.
    NXDKIT_ASSIGN(parts_.sync.folder, RealPath(parts_.sync.folder));
    return OkStatus();
  }

  // Rollout workers on other machines read the weights where they are written here, or get them.
  Status LookElsewhere() {
    if (options_.leader == nullptr || !config_.worker.rollout.url.empty()) return OkStatus();
    const std::set<int64_t> machines(plan_.machine_of_worker.begin(),
                                     plan_.machine_of_worker.end());
    std::vector<int> others;
    for (const int64_t machine : machines)
      if (machine != 0) others.push_back(static_cast<int>(machine));
    if (others.empty()) return OkStatus();
    auto deliveries = std::make_shared<Deliveries>(*options_.leader, std::move(others));
    const std::string folder =
        parts_.sync.bundle.empty() ? parts_.sync.folder : ParentPath(parts_.sync.bundle);
    NXDKIT_TRY(deliveries->Look(folder));
    if (deliveries->blind().empty()) return OkStatus();
    for (const int machine : deliveries->blind())
      Note(fmt::format("machine {} does not see {}: the weights of every step are sent to it",
                       machine, folder));
    parts_.deliveries = std::move(deliveries);
    parts_.sync.elsewhere = parts_.deliveries.get();
    return OkStatus();
  }

  Status MakeBundle() {
    parts_.sync.bundle = JoinPath(*config_.trainer.save_checkpoint_path, "rollout_bundle");
    ops::ExportRequest request;
    request.cpu = true;
    request.cache.enabled = false;
    request.convert.from = parts_.base.artifact.kind;
    request.convert.to = ops::Kind::kRollout;
    request.convert.input = *model().model_path;
    request.convert.output = parts_.sync.bundle;
    request.convert.force = true;
    request.convert.sync = false;
    request.convert.run.max_memory = kNoMemoryCap;
    request.convert.options.tp = static_cast<int>(engine_.tp);
    request.convert.options.batch_size = engine_.slots;
    request.convert.options.sequence_length = engine_.positions;
    request.convert.options.dtype = engine_.dtype;
    NXDKIT_TRY(ops::Export(request));
    NXDKIT_TRY(WriteTextFiles(parts_.text_files, parts_.sync.bundle));
    Note(fmt::format("made the rollout bundle {}: tp {}, {} slots of {} tokens", parts_.sync.bundle,
                     engine_.tp, engine_.slots, engine_.positions));
    return OkStatus();
  }

  EngineOptions EngineFor(const std::string& bundle) const {
    const NeuronOverrideConfig& over = config_.worker.rollout.neuron_override_config;
    EngineOptions engine;
    engine.bundle = bundle;
    engine.neuron_override.tp_degree = over.tp_degree.value_or(plan_.rollout_tp);
    engine.neuron_override.batch_size = over.batch_size;
    engine.neuron_override.seq_len = over.seq_len;
    return engine;
  }

  Status MakeGenerator() {
    NXDKIT_TRY(MakeSyncTarget());
    NXDKIT_TRY(LookElsewhere());
    if (OthersEngine(config_.worker.rollout)) return MakeOthersGenerator();
    EngineOptions engine = EngineFor(parts_.sync.bundle);
    if (!plan_.separate) {
      // All cores of the machine are its own while it generates.
      const int64_t cores =
          std::min<int64_t>(plan_.cores / plan_.nodes, std::ssize(AllowedProcessors()));
      engine.threads = static_cast<int>(std::max<int64_t>(1, cores / engine_.tp));
    }
    if (!plan_.worker_processes()) {
      parts_.generator = MakeEngineGenerator(engine, options_.poll, options_.progress);
      return OkStatus();
    }
    NXDKIT_ASSIGN(parts_.generator, MakeWorkerGenerator(OnMachines(PoolFor()), {engine},
                                                        options_.poll, options_.progress));
    return OkStatus();
  }

  Status MakeOthersGenerator() {
    NXDKIT_ASSIGN(const std::vector<EngineOptions> engines,
                  OthersEngines(config_, plan_, parts_.config->model.config.vocab, engine_));
    WorkerPoolOptions pool = PoolFor();
    pool.grace = kOthersGrace;
    for (std::string& variable : OthersVariables()) pool.environment.push_back(std::move(variable));
    NXDKIT_ASSIGN(parts_.generator,
                  MakeWorkerGenerator(OnMachines(pool), engines, options_.poll, options_.progress));
    return OkStatus();
  }

  // Of a run on several machines, when all else is said: the starter has a copy.
  WorkerPoolOptions OnMachines(WorkerPoolOptions pool) const {
    if (options_.leader == nullptr) return pool;
    const RolloutConfig& rollout = config_.worker.rollout;
    const bool have_cores = (plan_.separate || OthersEngine(rollout)) && rollout.url.empty();
    const int64_t cores = options_.instance ? options_.instance->cores : 0;
    const RemoteWorkers workers{plan_, pool, OthersEngine(rollout), have_cores, cores};
    pool.start = workers.StarterOf(*options_.leader);
    pool.environment_of.clear();  // it was that of this machine's workers
    return pool;
  }

  WorkerPoolOptions PoolFor() const {
    WorkerPoolOptions pool;
    pool.command = options_.worker_command;
    pool.workers = static_cast<int>(plan_.rollout_workers);
    pool.environment = options_.rollout_environment.all;
    pool.environment_of = options_.rollout_environment.of;
    pool.log_files = options_.worker_logs;
    pool.on_warning = options_.note;
    return pool;
  }

  const LoadedConfig& loaded_;
  const Config& config_;
  const RunPlan& plan_;
  const SetupOptions& options_;
  std::optional<FoundCheckpoint> continued_;  // what the run goes on from
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  std::shared_ptr<const PromptFormat> format_;
  SpecialTokens special_;
  EngineShape engine_;
  RunParts parts_;
};

}  // namespace

Status CheckParts(const LoadedConfig& loaded, const RunPlan& plan, const SetupOptions& options) {
  return Maker(loaded, plan, options).Check();
}

Result<RunParts> MakeParts(const LoadedConfig& loaded, const RunPlan& plan,
                           const SetupOptions& options) {
  return Maker(loaded, plan, options).Make();
}

}  // namespace nxdkit::trainer
