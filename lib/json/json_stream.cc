#include "lib/json/json_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr size_t kMaxReasonBytes = 160;
// Replaces bytes that nlohmann's lexer would accept: a NUL (it reads it as the end) and a byte
// order mark. No JSON text may contain it.
constexpr char kNeverValid = '\x01';

using ReadPart = std::function<Status(uint64_t offset, std::span<std::byte> to)>;

// The text, one block at a time. White space before and after the root value is skipped, so that
// padding of any length costs nothing.
class Blocks {
 public:
  Blocks(const ReadPart& read, uint64_t offset, uint64_t bytes, uint64_t run_bytes)
      : read_(read),
        next_(offset),
        end_(offset + bytes),
        run_bytes_(run_bytes),
        last_(offset),
        mark_(offset) {
    block_.resize(std::min<uint64_t>(kBlockBytes, bytes));
    Fill();
    SkipSpace();
    mark_ = unread();
    if (!done() && block_[position_] == '\xef') block_[position_] = kNeverValid;
    outside_ = false;
  }

  // Whether the text has ended; the parser asks only when it wants one more byte.
  bool AtEnd() {
    if (!done()) return false;
    last_ = end_;
    return true;
  }
  char current() const { return block_[position_]; }
  void Advance() {
    last_ = unread();
    ++position_;
    if (outside_) SkipSpace();
    if (position_ == filled_) Fill();
  }

  uint64_t offset() const { return last_; }  // of the byte returned last, or the end
  void Mark() { mark_ = unread(); }          // a string or a number was read
  void Close() {                             // the root value has ended
    outside_ = true;
    SkipSpace();
  }
  std::optional<Error>& error() { return error_; }

 private:
  bool done() const { return position_ == filled_; }
  uint64_t unread() const { return next_ - filled_ + position_; }

  void SkipSpace() {
    while (!done()) {
      const char byte = block_[position_];
      if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return;
      if (++position_ == filled_) Fill();
    }
  }

  void Fill() {
    position_ = filled_ = 0;
    if (error_ || next_ == end_) return;
    if (!outside_ && next_ - mark_ > run_bytes_) {
      error_ = OverLimit("{} bytes of JSON without the end of a string or number, the limit is {}",
                         next_ - mark_, run_bytes_)
                   .at(mark_);
      return;
    }
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(block_.size(), end_ - next_));
    Status read = read_(next_, std::as_writable_bytes(std::span(block_.data(), bytes)));
    if (!read.ok()) {
      error_ = std::move(read).error();
      return;
    }
    std::replace(block_.begin(), block_.begin() + static_cast<ptrdiff_t>(bytes), '\0', kNeverValid);
    next_ += bytes;
    filled_ = bytes;
  }

  const ReadPart& read_;
  uint64_t next_;  // file offset of the byte after the block
  uint64_t end_;
  uint64_t run_bytes_;
  uint64_t last_;
  uint64_t mark_;
  std::vector<char> block_;
  size_t position_ = 0;
  size_t filled_ = 0;
  bool outside_ = true;  // before or after the root value
  std::optional<Error> error_;
};

// The input iterator of nlohmann's parser. All copies share one place in the text.
class BlockIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit BlockIterator(Blocks* blocks) : blocks_(blocks) {}
  char operator*() const { return blocks_->current(); }
  BlockIterator& operator++() {
    blocks_->Advance();
    return *this;
  }
  // The only comparison the parser makes is with the end.
  bool operator==(const BlockIterator&) const { return blocks_->AtEnd(); }

 private:
  Blocks* blocks_;
};

// "parse error at line 1, column 9: syntax error while parsing object key - invalid literal; ..."
// The part with the reason, in printable ASCII and of bounded length.
std::string Reason(std::string_view what) {
  constexpr std::string_view kStart = "syntax error while parsing ";
  const size_t start = what.find(kStart);
  if (start != std::string_view::npos) what.remove_prefix(start + kStart.size());
  std::string reason(what.substr(0, kMaxReasonBytes));
  for (char& c : reason)
    if (c < ' ' || c > '~') c = '?';
  if (what.size() > kMaxReasonBytes) reason += "...";
  return reason;
}

// Translates nlohmann's events. Names and signatures of the lower-case functions are its own.
class Sax {
 public:
  using Json = nlohmann::json;

  Sax(const ReadPart& read, uint64_t end, Blocks& blocks, JsonHandler& handler, int max_depth)
      : read_(read), end_(end), blocks_(blocks), handler_(handler), max_depth_(max_depth) {}

  std::optional<Error>& error() { return error_; }

  bool null() { return Go(handler_.Scalar(JsonKind::kNull)); }
  bool boolean(bool) { return Go(handler_.Scalar(JsonKind::kBoolean)); }
  bool number_integer(Json::number_integer_t) {
    return Token(handler_.Scalar(JsonKind::kNegative));
  }
  bool number_unsigned(Json::number_unsigned_t value) { return Token(handler_.Unsigned(value)); }
  bool number_float(Json::number_float_t, const std::string&) {
    return Token(handler_.Scalar(JsonKind::kFloat));
  }
  bool string(std::string& value) { return Token(handler_.String(value)); }
  bool key(std::string& value) { return Token(handler_.Key(value)); }
  bool start_object(size_t) { return Begin(JsonKind::kObject); }
  bool start_array(size_t) { return Begin(JsonKind::kArray); }
  bool end_object() { return End(JsonKind::kObject); }
  bool end_array() { return End(JsonKind::kArray); }
  bool binary(Json::binary_t&) { return false; }  // never in JSON text

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& exception) {
    error_ = Corrupt("JSON {}: {}", LastByte(), Reason(exception.what())).at(blocks_.offset());
    return false;
  }

 private:
  bool Go(Status status) {
    if (status.ok()) return true;
    error_ = std::move(status).error().at(blocks_.offset());
    return false;
  }

  bool Token(Status status) {
    blocks_.Mark();
    return Go(std::move(status));
  }

  bool Begin(JsonKind kind) {
    if (++depth_ > max_depth_)
      return Go(Corrupt("JSON nested {} deep, the limit is {}", depth_, max_depth_));
    return Go(handler_.Begin(kind, blocks_.offset()));
  }

  bool End(JsonKind kind) {
    if (--depth_ == 0) blocks_.Close();
    return Go(handler_.End(kind));
  }

  // The byte in the file, not the one that Blocks returned.
  std::string LastByte() const {
    if (blocks_.offset() >= end_) return "ends too early";
    std::byte byte{};
    if (!read_(blocks_.offset(), std::span(&byte, 1)).ok()) return "error";
    return fmt::format("error at byte 0x{:02x}", static_cast<unsigned>(byte));
  }

  const ReadPart& read_;
  uint64_t end_;
  Blocks& blocks_;
  JsonHandler& handler_;
  int max_depth_;
  int depth_ = 0;
  std::optional<Error> error_;
};

Status Parse(const ReadPart& read, uint64_t offset, uint64_t bytes, JsonHandler& handler,
             const JsonStreamLimits& limits) {
  Blocks blocks(read, offset, bytes, limits.run_bytes);
  Sax sax(read, offset + bytes, blocks, handler, limits.depth);
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(BlockIterator(&blocks), BlockIterator(&blocks), &sax);
  } catch (const std::exception& exception) {
    return Error(Errc::kInternal, fmt::format("JSON parser: {}", exception.what()))
        .at(blocks.offset());
  }
  if (blocks.error()) return std::move(*blocks.error());
  if (sax.error()) return std::move(*sax.error());
  if (!parsed) return Error(Errc::kInternal, "JSON parser stopped without a reason");
  return OkStatus();
}

}  // namespace

std::string_view JsonKindName(JsonKind kind) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"null", "a boolean", "a negative number", "an integer",
       "a number that is not a 64-bit integer", "a string", "an array", "an object"});
  static_assert(kNames.size() == static_cast<size_t>(JsonKind::kObject) + 1);
  return kNames[static_cast<size_t>(kind)];
}

Status ReadJsonStream(const File& file, uint64_t offset, uint64_t bytes, JsonHandler& handler,
                      const JsonStreamLimits& limits) {
  const ReadPart read = [&](uint64_t at, std::span<std::byte> to) { return file.ReadAt(at, to); };
  return Parse(read, offset, bytes, handler, limits).in(file.path());
}

Status ReadJsonStream(std::string_view text, JsonHandler& handler, const JsonStreamLimits& limits) {
  const ReadPart read = [&](uint64_t at, std::span<std::byte> to) {
    std::memcpy(to.data(), text.substr(at).data(), to.size());
    return OkStatus();
  };
  return Parse(read, 0, text.size(), handler, limits);
}

}  // namespace nxdkit
