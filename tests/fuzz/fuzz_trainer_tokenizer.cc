// Any bytes as tokenizer.json: refused with a reason, or text is encoded, and its ids decode to
// text.
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzzing.h"
#include "trainer/text/tokenizer.h"

namespace {

using namespace nxdkit;
using namespace nxdkit::trainer;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = TextOf(data, size);
  const Result<Tokenizer> read = Tokenizer::Parse(text);
  if (!read.ok()) {
    const Errc code = read.error().code();
    Require(code == Errc::kCorrupt || code == Errc::kUnsupported, read.error().ToString());
    Require(!read.error().message().empty(), "a message");
    return 0;
  }
  constexpr std::string_view kText = "It's 12 e\u0301\u4e2d\U0001f44d <|end|>  \r\n\thello<t> x";
  for (const bool special : {false, true}) {
    const Result<std::vector<int32_t>> ids = read->Encode(kText, special);
    if (!ids.ok()) {
      const Errc code = ids.error().code();
      Require(code == Errc::kLimit || code == Errc::kUnsupported, ids.error().ToString());
      continue;
    }
    for (const int32_t id : *ids) Require(id >= 0 && id < (1 << 24), "an id in range");
    static_cast<void>(read->Decode(*ids, special));
  }
  return 0;
}
