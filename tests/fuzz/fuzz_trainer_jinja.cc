// Any bytes as a template: refused with line and column, or rendered, or failed with a place too.
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzzing.h"
#include "trainer/template/jinja.h"

namespace {

using namespace nxdkit;
using namespace nxdkit::trainer;

void RequirePlaced(const Error& error) {
  const Errc code = error.code();
  Require(code == Errc::kCorrupt || code == Errc::kUnsupported || code == Errc::kLimit,
          error.ToString());
  Require(
      error.message().find("line ") == 0 || error.message().find("template") != std::string::npos,
      "a place in: " + error.ToString());
}

jinja::Dict Variables() {
  jinja::List messages;
  for (const char* role : {"system", "user", "assistant"})
    messages.push_back(jinja::Dict{{"role", role}, {"content", " a,b\n<think>x</think> "}});
  return {{"messages", messages},
          {"tools", jinja::Value()},
          {"add_generation_prompt", true},
          {"x", int64_t{7}},
          {"d", jinja::Dict{{"k", 2.5}, {"n", jinja::List{true, "\u00e9"}}}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = TextOf(data, size);
  const Result<jinja::Template> parsed = jinja::Template::Parse(text);
  if (!parsed.ok()) {
    RequirePlaced(parsed.error());
    return 0;
  }
  const Result<std::string> first = parsed->Render(Variables(), 0);
  const Result<std::string> second = parsed->Render(Variables(), 0);
  Require(first.ok() == second.ok(), "rendering is repeatable");
  if (first.ok())
    Require(*first == *second, "the same text");
  else
    RequirePlaced(first.error());
  return 0;
}
