// utf8proc has the tables. Its own driver swaps neighbours until marks are in order, which is
// quadratic for a long run of them, so the steps are implemented here.
#include "trainer/text/nfc.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMostPerPoint = 18;  // length of the longest decomposition

struct Range {
  uint32_t first;
  uint32_t last;
};

// The library with which models' tokenizers were made has the tables of Unicode 9 (checked with
// tokenizers 0.23, for all points). Later points that reorder or compose are left alone there, and
// nothing moves across them.
constexpr Range kLate[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
    {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x16ff0, 0x16ff1},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}};

// Points of combining class 0 that compose with the preceding one.
constexpr Range kSecondStarters[] = {
    {0x9be, 0x9be},     {0x9d7, 0x9d7},     {0xb3e, 0xb3e},     {0xb56, 0xb57},
    {0xbbe, 0xbbe},     {0xbd7, 0xbd7},     {0xcc2, 0xcc2},     {0xcd5, 0xcd6},
    {0xd3e, 0xd3e},     {0xd57, 0xd57},     {0xdcf, 0xdcf},     {0xddf, 0xddf},
    {0x102e, 0x102e},   {0x1161, 0x1175},   {0x11a8, 0x11c2},   {0x1b35, 0x1b35},
    {0x11127, 0x11127}, {0x1133e, 0x1133e}, {0x11357, 0x11357}, {0x114b0, 0x114b0},
    {0x114ba, 0x114ba}, {0x114bd, 0x114bd}, {0x115af, 0x115af}, {0x11930, 0x11930}};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], uint32_t point) {
  if (point < ranges[0].first) return false;
  const auto* after = std::ranges::upper_bound(ranges, point, {}, &Range::first);
  return after != ranges && point <= (after - 1)->last;
}

bool IsLate(uint32_t point) { return IsIn(kLate, point); }

bool IsBelowMarks(std::string_view text) {
  // 0xcc begins U+0300 and later points; all code points below are unchanged by NFC.
  return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0xcc; });
}

int CombiningClass(int32_t point) {
  return static_cast<int>(utf8proc_get_property(point)->combining_class);
}

Result<std::vector<int32_t>> Decompose(std::string_view text) {
  std::vector<int32_t> points;
  points.reserve(text.size());
  int32_t parts[kMostPerPoint];
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    if (!point) return Error(Errc::kCorrupt, "bytes are not UTF-8").at(i);
    i += static_cast<size_t>(point->bytes);
    if (point->value < 0xc0) {
      points.push_back(static_cast<int32_t>(point->value));
      continue;
    }
    const auto count =
        utf8proc_decompose_char(static_cast<int32_t>(point->value), parts, kMostPerPoint,
                                static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), nullptr);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(kMostPerPoint))
      return Error(Errc::kInternal, fmt::format("U+{:04X} does not decompose", point->value));
    points.insert(points.end(), parts, parts + count);
  }
  return points;
}

void SortMarks(std::vector<int32_t>* points) {
  const auto is_starter = [](int32_t point) { return CombiningClass(point) == 0; };
  for (auto begin = points->begin(); begin != points->end();) {
    if (is_starter(*begin)) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, points->end(), is_starter);
    if (end - begin > 1)
      std::stable_sort(begin, end,
                       [](int32_t a, int32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

// Appends the normalized text, which has no late points.
Status AppendRun(std::string_view text, std::string* out) {
  if (IsBelowMarks(text)) {
    out->append(text);
    return OkStatus();
  }
  NXDKIT_ASSIGN(std::vector<int32_t> points, Decompose(text));
  SortMarks(&points);
  const auto composed =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (composed < 0)
    return Error(Errc::kInternal, fmt::format("NFC: {}", utf8proc_errmsg(composed)));
  for (utf8proc_ssize_t i = 0; i < composed; ++i)
    AppendUtf8(static_cast<uint32_t>(points[static_cast<size_t>(i)]), out);
  return OkStatus();
}

// Whether NFC leaves the point unchanged after any text, so that a text may be cut there.
bool StandsAlone(uint32_t point) {
  if (point < 0x300) return true;
  if (IsLate(point)) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<int32_t>(point));
  const bool decomposes = property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0;
  return property->combining_class == 0 && !decomposes && !IsIn(kSecondStarters, point);
}

// The end of the sequence of points from `at` on that do not stand alone.
size_t EndOfCluster(std::string_view text, size_t at) {
  while (at < text.size()) {
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    if (!point || StandsAlone(point->value)) break;
    at += static_cast<size_t>(point->bytes);
  }
  return at;
}

// Late points stay where they are, and the text between them is normalized separately.
Status AppendCluster(std::string_view text, std::string* out) {
  size_t run = 0;
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    if (!point) return Error(Errc::kCorrupt, "bytes are not UTF-8").at(i);
    const auto bytes = static_cast<size_t>(point->bytes);
    if (IsLate(point->value)) {
      NXDKIT_TRY(AppendRun(text.substr(run, i - run), out));
      out->append(text.substr(i, bytes));
      run = i + bytes;
    }
    i += bytes;
  }
  return AppendRun(text.substr(run), out);
}

}  // namespace

Result<std::string> ToNfc(std::string_view text) {
  if (IsBelowMarks(text)) return std::string(text);
  std::string result;
  result.reserve(text.size());
  size_t done = 0;
  size_t before = 0;  // the beginning of the previous point
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      before = i++;
      continue;
    }
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    if (!point) return Error(Errc::kCorrupt, "bytes are not UTF-8").at(i);
    if (StandsAlone(point->value)) {
      before = i;
      i += static_cast<size_t>(point->bytes);
      continue;
    }
    result.append(text.substr(done, before - done));
    done = EndOfCluster(text, i);
    NXDKIT_TRY(AppendCluster(text.substr(before, done - before), &result));
    before = i = done;
  }
  result.append(text.substr(done));
  return result;
}

}  // namespace nxdkit::trainer
