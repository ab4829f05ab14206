// The functions of nxdkit.h: each makes C values that the library owns, and no exception escapes.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "tools/cli/report.h"
#include "tools/commands.h"
#include "tools/library/library_host.h"
#include "tools/library/nxdkit.h"
#include "tools/library/request.h"
#include "tools/library/source.h"

namespace nxdkit::tool {
namespace {

constexpr int kBroken = 70;

// nullptr when out of memory.
char* CopyOf(const std::string& text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

int Reply(const Error& error, char** reply) noexcept {
  const int code = error.code() == Errc::kInterrupted ? kStoppedByCaller : ExitCode(error.code());
  try {
    if (reply != nullptr) *reply = CopyOf(JsonDocument("nxdkit", code, &error, {}, Json::object()));
  } catch (...) {
    // There is no memory for the message.
  }
  return code;
}

// The exit code of `work`; an exception is an error like any other.
template <typename Work>
int Guarded(char** reply, const Work& work) noexcept {
  if (reply != nullptr) *reply = nullptr;
  try {
    const Status status = work();
    return status.ok() ? 0 : Reply(status.error(), reply);
  } catch (const std::bad_alloc&) {
    return Reply(OverLimit("the system gave no more memory"), reply);
  } catch (const std::system_error& error) {
    return Reply(OverLimit("the system gave no thread: {}", error.what()), reply);
  } catch (const std::exception& error) {
    return Reply(Error(Errc::kInternal, std::string("internal error: ") + error.what()), reply);
  } catch (...) {
    return kBroken;
  }
}

// Another spelling of the same path: "a/b" and "a/./b".
std::string Respelled(const std::string& path) {
  const size_t last = path.rfind('/') + 1;  // 0 without a slash
  return path.substr(0, last) + "./" + path.substr(last);
}

// Sources by number, as words of a command line that the host resolves. Two sources of one path,
// opened with different options, are two words, and a path that is written out is a third.
class SourceNames {
 public:
  SourceNames(nxdkit_source* const* sources, size_t count, LibraryHost& host)
      : sources_(sources), count_(count), host_(host) {}

  // The texts of a request, which may be paths.
  void KeepClearOf(const Json* texts) {
    if (texts == nullptr) return;
    for (const Json& text : *texts)
      if (text.is_string()) named_.try_emplace(text.get<std::string>(), nullptr);
  }

  Result<std::string> NameOf(const CommandWord& command, const std::string& place, int64_t number) {
    NXDKIT_TRY(CheckPlace(command, place));
    if (sources_ == nullptr || number < 0 || static_cast<uint64_t>(number) >= count_)
      return BadUsage("there is no source {}: {} were given", number, sources_ ? count_ : 0);
    const nxdkit_source* const source = sources_[number];
    if (source == nullptr) return BadUsage("source {} is NULL", number);
    if (!source->held)
      return BadUsage("it is one rank of a layout, not a model that a command reads")
          .in(source->name);
    std::string name = source->name;
    while (named_.try_emplace(name, source).first->second != source) name = Respelled(name);
    if (source->held->hints.memory && command.command == &kCkptPack)
      return BadUsage("memory has no files to pack").in(source->name);
    host_.Hold(name, *source->held);
    return name;
  }

 private:
  // A name in any other place may be written to.
  static Status CheckPlace(const CommandWord& command, const std::string& place) {
    const std::optional<size_t> argument = ParseNumber<size_t>(place);
    if (argument && *argument < command.sources) return OkStatus();
    for (const std::string_view option : command.source_options)
      if (place == option) return OkStatus();
    return BadUsage("a source is given as {}{}, where {} reads no artifact",
                    argument ? "argument " : "--", place, command.word);
  }

  nxdkit_source* const* sources_;
  size_t count_;
  LibraryHost& host_;
  std::map<std::string, const nxdkit_source*> named_;
};

Result<Outcome> RunCommand(const Json& request, SourceNames& names, LibraryHost& host) {
  NXDKIT_ASSIGN(const std::string name, TextIn(request, "command"));
  const CommandWord* const row = FindCommandWord(name);
  if (row == nullptr) return BadUsage("there is no command \"{}\" in the library", name);
  const Command* const command = row->command;
  OptionTable table;
  CommonArgs common;
  const Call call = command->make();
  call.add_options(table);
  AddCommonOptions(table, *command->info, common);
  names.KeepClearOf(JsonFind(request, "arguments"));
  names.KeepClearOf(JsonFind(request, "options"));
  const NameSource name_source = [&](const std::string& place, int64_t number) {
    return names.NameOf(*row, place, number);
  };
  NXDKIT_ASSIGN(std::vector<std::string> words,
                OptionWords(JsonFind(request, "options"), table, name_source));
  NXDKIT_ASSIGN(const std::vector<std::string> arguments,
                ArgumentWords(JsonFind(request, "arguments"), name_source));
  words.insert(words.end(), arguments.begin(), arguments.end());
  return CallTool(words, *command, host);
}

Status Finish(Result<Outcome> outcome, int& code, char** reply) {
  if (!outcome.ok()) return std::move(outcome).error();
  code = outcome->exit_code;
  if (reply == nullptr) return OkStatus();
  *reply = CopyOf(outcome->document);
  return *reply ? OkStatus() : Status(OverLimit("the system gave no more memory"));
}

// Runs `open` while `progress` is called. A source that is opened after the stop is released.
template <typename Open>
Status OpenInto(const Open& open, nxdkit_progress progress, void* context, nxdkit_source** source) {
  if (source == nullptr) return BadUsage("`source` is NULL");
  *source = nullptr;
  Result<SourcePointer> opened = StoppedByCaller();
  LibraryHost host;
  host.Run([&] { opened = open(); }, progress, context);
  NXDKIT_TRY(host.Poll());
  if (!opened.ok()) return std::move(opened).error();
  *source = opened->release();
  return OkStatus();
}

Status CheckTensor(const nxdkit_source* source, uint64_t tensor) {
  if (source == nullptr) return BadUsage("`source` is NULL");
  const size_t count = source->reader.tensors().size();
  if (tensor < count) return OkStatus();
  return BadUsage("there is no tensor {}: the source has {}", tensor, count).in(source->name);
}

Result<ops::Slice> SliceOf(const Shape& shape, const int64_t* begin, const int64_t* end,
                           const int64_t* step) {
  ops::Slice slice = ops::WholeSlice(shape);
  if (begin != nullptr) slice.begin.assign(begin, begin + shape.size());
  if (end != nullptr) slice.end.assign(end, end + shape.size());
  if (step != nullptr) slice.step.assign(step, step + shape.size());
  NXDKIT_TRY(ops::CheckSlice(slice, shape));
  return slice;
}

}  // namespace
}  // namespace nxdkit::tool

using namespace nxdkit;        // NOLINT: this file alone speaks C to the outside
using namespace nxdkit::tool;  // NOLINT

int nxdkit_run(const char* request, nxdkit_source* const* sources, size_t source_count,
               nxdkit_progress progress, void* context, char** reply) {
  int code = 0;
  const int failed = Guarded(reply, [&]() -> Status {
    NXDKIT_ASSIGN(const Json json, ParseRequest(request));
    LibraryHost host;
    SourceNames names(sources, source_count, host);
    Result<Outcome> outcome = StoppedByCaller();
    host.Run([&] { outcome = RunCommand(json, names, host); }, progress, context);
    return Finish(std::move(outcome), code, reply);
  });
  return failed != 0 ? failed : code;
}

int nxdkit_open(const char* request, nxdkit_progress progress, void* context,
                nxdkit_source** source, char** reply) {
  return Guarded(reply, [&]() -> Status {
    NXDKIT_ASSIGN(const Json json, ParseRequest(request));
    return OpenInto([&] { return OpenPath(json); }, progress, context, source);
  });
}

int nxdkit_open_memory(const char* request, const void* const* data, nxdkit_source** source,
                       char** reply) {
  return Guarded(reply, [&]() -> Status {
    NXDKIT_ASSIGN(const Json json, ParseRequest(request));
    return OpenInto([&] { return OpenMemorySource(json, data); }, nullptr, nullptr, source);
  });
}

int nxdkit_open_rank(nxdkit_source* of, const char* request, nxdkit_source** source, char** reply) {
  return Guarded(reply, [&]() -> Status {
    if (of == nullptr) return BadUsage("`of` is NULL");
    NXDKIT_ASSIGN(const Json json, ParseRequest(request));
    return OpenInto([&] { return OpenRankSource(*of, json); }, nullptr, nullptr, source);
  });
}

const char* nxdkit_index(const nxdkit_source* source) {
  return source == nullptr ? "{}" : source->index.c_str();
}

int nxdkit_read(const nxdkit_source* source, uint64_t tensor, const int64_t* begin,
                const int64_t* end, const int64_t* step, void* to, uint64_t bytes, char** reply) {
  return Guarded(reply, [&]() -> Status {
    NXDKIT_TRY(CheckTensor(source, tensor));
    if (to == nullptr && bytes > 0) return BadUsage("`to` is NULL");
    const Shape& shape = source->reader.tensors()[tensor].shape;
    NXDKIT_ASSIGN(const ops::Slice slice, SliceOf(shape, begin, end, step));
    return source->reader.Read(tensor, slice, {static_cast<std::byte*>(to), bytes});
  });
}

int nxdkit_explain(const nxdkit_source* source, uint64_t tensor, char** text, char** reply) {
  return Guarded(reply, [&]() -> Status {
    if (text == nullptr) return BadUsage("`text` is NULL");
    *text = nullptr;
    NXDKIT_TRY(CheckTensor(source, tensor));
    *text = CopyOf(source->reader.Explain(tensor));
    return *text ? OkStatus() : Status(OverLimit("the system gave no more memory"));
  });
}

void nxdkit_close(nxdkit_source* source) { delete source; }

void nxdkit_free(void* text) { std::free(text); }
