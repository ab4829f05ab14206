// Prompts as token ids, with the answers used to grade them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/template/chat_template.h"
#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

// The treatment of a prompt with more than max_prompt_tokens ids. None of them cuts the chat
// template's text around the prompt: the model has never seen a prompt without its end.
enum class Overlong {
  kDrop,      // the row is left out (filter_overlong_prompts)
  kError,     // the first one is an error, with its line
  kTruncate,  // the row's last message loses characters at its front until it fits
};

struct DatasetOptions {
  std::string prompt_key = "prompt";
  std::string answer_key = "answer";
  // Rows with content in these columns are refused: only text is supported.
  std::string image_key = "images";
  std::string video_key = "videos";
  int64_t max_prompt_tokens = 512;
  Overlong overlong = Overlong::kDrop;
  ChatOptions chat = {};
};

// The parts that turn text into ids. Nothing is owned.
struct PromptMaker {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;
  const PromptFormat* format = nullptr;  // nullptr: the text is the message
};

// Messages, of which the last is the user's, as the model sees them, ready for a response: the
// format is applied to the last one, the chat template to all.
Result<std::string> PromptText(const PromptMaker& maker, std::vector<ChatMessage> messages,
                               const ChatOptions& chat);
// Their ids.
Result<std::vector<int32_t>> MakePrompt(const PromptMaker& maker, std::vector<ChatMessage> messages,
                                        const ChatOptions& chat);

// Rows in the order of the files. Only ids and answers are kept. Thread-safe once loaded;
// move-only.
class Dataset {
 public:
  // `source` is "PATH", "PATH@SPLIT" or "exec:COMMAND" (source.h). Rows have the columns of the
  // options, or a form of row_form.h. Errors have file and line, or row. kNotFound for missing
  // files; kCorrupt where there are no rows at all, for rows without the prompt or the answer, for
  // NaN, for text or ids that cannot be made, for prompts without tokens; kUnsupported for images;
  // kLimit for overlong prompts as above, and when the chat template alone is too long; kUsage when
  // no rows remain.
  static Result<Dataset> Load(std::string_view source, const PromptMaker& maker,
                              const DatasetOptions& options);

  Dataset(Dataset&&) noexcept = default;
  Dataset& operator=(Dataset&&) noexcept = default;

  size_t size() const { return id_ends_.size(); }
  std::span<const int32_t> ids(size_t row) const;   // not padded
  std::string_view ground_truth(size_t row) const;  // the answer column
  int64_t dropped() const { return dropped_; }      // rows that were too long
  int64_t truncated() const { return truncated_; }  // rows that lost characters
  int64_t longest() const { return longest_; }      // ids of the longest prompt
  // "Alpaca's: instruction, ... as the prompt": the form in which rows were read that lack the
  // columns of the options, or whose other columns contradict them (row_form.h); "" for the others.
  const std::string& read_as() const { return read_as_; }
  // Texts without rows, next to others with rows: the download of one may have been cut short.
  const std::vector<std::string>& empty_files() const { return empty_files_; }
  // "sha256:...", over all ids and answers in order: data sets with the same fingerprint give the
  // same training, whatever their files.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  friend class DatasetLoader;
  Dataset() = default;

  std::vector<int32_t> ids_;
  std::vector<size_t> id_ends_;
  std::string answers_;
  std::vector<size_t> answer_ends_;
  int64_t dropped_ = 0;
  int64_t truncated_ = 0;
  int64_t longest_ = 0;
  std::vector<std::string> empty_files_;
  std::string read_as_;
  std::string fingerprint_;
};

}  // namespace nxdkit::trainer
