#include "trainer/data/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "lib/base/errors.h"
#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "lib/system/command_text.h"
#include "trainer/data/command_rows.h"
#include "trainer/data/row_form.h"
#include "trainer/data/row_reader.h"
#include "trainer/data/source.h"
#include "trainer/template/python_text.h"

namespace nxdkit::trainer {
namespace {

Status RefuseMedia(const Json& row, const std::string& key) {
  const Json* value = JsonFind(row, key);
  if (value == nullptr || (value->is_array() && value->empty())) return OkStatus();
  return Unsupported("a row with images or videos").member(key);
}

// `empty`: texts without rows are added to it. Tables know their number of rows.
Status ReadAll(const DataSource& source, const DatasetOptions& options, const EachRow& each,
               std::vector<std::string>& empty) {
  if (source.is_command) {
    NXDKIT_ASSIGN(std::vector<std::string> words, SplitCommand(source.path));
    return ReadCommandRows({.words = std::move(words), .source = source.path}, each);
  }
  NXDKIT_ASSIGN(const std::vector<std::string> files, ResolveFiles(source));
  bool any = false;  // the file has a row
  const EachRow noted = [&](const Json& row, uint64_t line) {
    any = true;
    return each(row, line);
  };
  for (const std::string& file : files) {
    if (IsTable(file)) {
      NXDKIT_TRY(ReadTableRows(file,
                               {.prompt = options.prompt_key,
                                .answer = options.answer_key,
                                .media = {options.image_key, options.video_key},
                                .others = ColumnsOfForms()},
                               each));
      continue;
    }
    any = false;
    NXDKIT_TRY(ReadRows(file, noted));
    if (!any) empty.push_back(file);
  }
  return OkStatus();
}

}  // namespace

Result<std::string> PromptText(const PromptMaker& maker, std::vector<ChatMessage> messages,
                               const ChatOptions& chat) {
  std::string& content = messages.back().content;
  if (maker.format != nullptr) NXDKIT_TRY(maker.format->Render(content).To(content));
  return maker.chat_template->Render(messages, chat);
}

Result<std::vector<int32_t>> MakePrompt(const PromptMaker& maker, std::vector<ChatMessage> messages,
                                        const ChatOptions& chat) {
  NXDKIT_ASSIGN(const std::string prompt, PromptText(maker, std::move(messages), chat));
  return maker.tokenizer->Encode(prompt, /*add_special_tokens=*/false);
}

class DatasetLoader {
 public:
  DatasetLoader(const PromptMaker& maker, const DatasetOptions& options)
      : maker_(maker), options_(options) {}

  Status AddRow(const Json& row) {
    ++rows_;
    NXDKIT_TRY(RefuseMedia(row, options_.image_key));
    NXDKIT_TRY(RefuseMedia(row, options_.video_key));
    if (!reading_) reading_.emplace(row, RowKeys{options_.prompt_key, options_.answer_key});
    NXDKIT_ASSIGN(RowText text, reading_->Read(row));
    NXDKIT_ASSIGN(std::vector<int32_t> ids, MakePrompt(maker_, text.messages, options_.chat));
    if (ids.empty()) return Corrupt("the prompt has no tokens");
    if (Fits(ids)) {
      Keep(ids, text.answer);
      return OkStatus();
    }
    switch (options_.overlong) {
      case Overlong::kDrop:
        ++data_.dropped_;
        return OkStatus();
      case Overlong::kError:
        return OverLimit("a prompt of {} tokens is over the limit of {}", ids.size(),
                         options_.max_prompt_tokens)
            .hint("drop such rows (data.filter_overlong_prompts) or raise data.max_prompt_length");
      case Overlong::kTruncate:
        break;
    }
    NXDKIT_ASSIGN(ids, Truncated(text.messages));
    ++data_.truncated_;
    Keep(ids, text.answer);
    return OkStatus();
  }

  Result<Dataset> Finish() {
    if (rows_ == 0) return Corrupt("there are no rows");
    if (data_.size() == 0)
      return BadUsage("no row remains of {}: {} are longer than {} tokens", rows_, data_.dropped_,
                      options_.max_prompt_tokens)
          .hint("raise data.max_prompt_length");
    data_.fingerprint_ = Fingerprint();
    data_.read_as_ = reading_->text();
    return std::move(data_);
  }

 private:
  bool Fits(const std::vector<int32_t>& ids) const {
    return static_cast<int64_t>(ids.size()) <= options_.max_prompt_tokens;
  }

  void Keep(const std::vector<int32_t>& ids, std::string_view answer) {
    data_.ids_.insert(data_.ids_.end(), ids.begin(), ids.end());
    data_.id_ends_.push_back(data_.ids_.size());
    data_.answers_ += answer;
    data_.answer_ends_.push_back(data_.answers_.size());
    data_.longest_ = std::max(data_.longest_, static_cast<int64_t>(ids.size()));
  }

  // The ids with the longest tail of the last message that fits, found by bisection: now and then
  // fewer characters take more tokens, so it may be a little shorter than possible, never longer.
  Result<std::vector<int32_t>> Truncated(std::vector<ChatMessage> messages) const {
    const std::string text = std::move(messages.back().content);
    const auto with = [&](std::string_view content) {
      messages.back().content = content;
      return MakePrompt(maker_, messages, options_.chat);
    };
    std::vector<std::string_view> points;
    for (const std::string_view point : jinja::Points(text)) points.push_back(point);
    NXDKIT_ASSIGN(std::vector<int32_t> best, with(""));
    if (!Fits(best))
      return OverLimit(
                 "the prompt format and the chat template alone take {} tokens, over the limit of "
                 "{}",
                 best.size(), options_.max_prompt_tokens)
          .hint("raise data.max_prompt_length");
    size_t fits = points.size(), too_long = 0;  // characters cut from the front
    while (fits - too_long > 1) {
      const size_t middle = too_long + (fits - too_long) / 2;
      const auto begin = static_cast<size_t>(points[middle].data() - text.data());
      NXDKIT_ASSIGN(std::vector<int32_t> ids, with(std::string_view(text).substr(begin)));
      if (Fits(ids)) {
        fits = middle;
        best = std::move(ids);
      } else {
        too_long = middle;
      }
    }
    return best;
  }

  std::string Fingerprint() const {
    Sha256 hash;
    const auto add = [&](auto value) { hash.Update(std::as_bytes(std::span(&value, 1))); };
    add(uint64_t{data_.size()});
    for (size_t row = 0; row < data_.size(); ++row) {
      const std::span<const int32_t> ids = data_.ids(row);
      const std::string_view answer = data_.ground_truth(row);
      add(uint64_t{ids.size()});
      hash.Update(std::as_bytes(ids));
      add(uint64_t{answer.size()});
      hash.Update(std::as_bytes(std::span(answer)));
    }
    return "sha256:" + HexText(hash.Finish());
  }

  const PromptMaker& maker_;
  const DatasetOptions& options_;
  std::optional<RowReading> reading_;  // of the first row, and so of all
  int64_t rows_ = 0;
  Dataset data_;
};

Result<Dataset> Dataset::Load(std::string_view source, const PromptMaker& maker,
                              const DatasetOptions& options) {
  if (options.max_prompt_tokens < 1)
    return BadUsage("max_prompt_tokens is {}, expected 1 or more", options.max_prompt_tokens);
  NXDKIT_ASSIGN(const DataSource parsed, ParseDataSource(source));
  DatasetLoader loader(maker, options);
  const EachRow add = [&](const Json& row, uint64_t) { return loader.AddRow(row); };
  std::vector<std::string> empty;
  NXDKIT_TRY(ReadAll(parsed, options, add, empty));
  NXDKIT_ASSIGN(Dataset data, loader.Finish().in(parsed.path));
  data.empty_files_ = std::move(empty);
  return data;
}

std::span<const int32_t> Dataset::ids(size_t row) const {
  const size_t begin = row == 0 ? 0 : id_ends_[row - 1];
  return std::span(ids_).subspan(begin, id_ends_[row] - begin);
}

std::string_view Dataset::ground_truth(size_t row) const {
  const size_t begin = row == 0 ? 0 : answer_ends_[row - 1];
  return std::string_view(answers_).substr(begin, answer_ends_[row] - begin);
}

}  // namespace nxdkit::trainer
