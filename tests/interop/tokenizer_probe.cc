// The program that tokenizer_interop.py runs; the work is read from a JSON file, the answer is
// JSON:
//   encode TOKENIZER FILE   {"special": bool, "texts": [...]} -> [[ids]...]
//   decode TOKENIZER FILE   {"skip": bool, "ids": [[...]...]} -> [texts]
//   time TOKENIZER FILE     as encode -> {"seconds", "bytes", "ids"}, the second time over
//   prompts FOLDER ROWS     a model's folder and a data file -> {"rows": [[ids]...], "special"}
//   render - FILE           [{"template", "variables", "now"}] -> [{"text"} or {"error"}]
#include <chrono>
#include <cstdio>
#include <string>

#include "lib/json/json.h"
#include "trainer/data/dataset.h"
#include "trainer/template/jinja.h"
#include "trainer/text/open_tokenizer.h"
#include "trainer/text/special_tokens.h"
#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {
namespace {

Status Print(const Json& json) {
  std::puts(json.dump(-1, ' ', true).c_str());
  return OkStatus();
}

Result<Json> Encode(const Tokenizer& tokenizer, const Json& work) {
  Json all = Json::array();
  for (const Json& text : work["texts"]) {
    NXDKIT_ASSIGN(const std::vector<int32_t> ids,
                  tokenizer.Encode(text.get<std::string>(), work["special"].get<bool>()));
    all.push_back(ids);
  }
  return all;
}

Json Decode(const Tokenizer& tokenizer, const Json& work) {
  Json all = Json::array();
  for (const Json& ids : work["ids"])
    all.push_back(tokenizer.Decode(ids.get<std::vector<int32_t>>(), work["skip"].get<bool>()));
  return all;
}

Result<Json> Time(const Tokenizer& tokenizer, const Json& work) {
  NXDKIT_ASSIGN(const Json warm, Encode(tokenizer, work));
  size_t bytes = 0, ids = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0, rounds = work.value("rounds", size_t{1}); i < rounds * work["texts"].size();
       ++i) {
    const Json& text = work["texts"][i / rounds];
    const std::string& bytes_of = text.get_ref<const std::string&>();
    NXDKIT_ASSIGN(const std::vector<int32_t> encoded, tokenizer.Encode(bytes_of, false));
    bytes += bytes_of.size();
    ids += encoded.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return Json{{"seconds", seconds.count()}, {"bytes", bytes}, {"ids", ids}};
}

jinja::Value ToValue(const Json& json) {
  switch (json.type()) {
    case Json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, item] : json.items()) dict.emplace_back(key, ToValue(item));
      return dict;
    }
    case Json::value_t::array: {
      jinja::List list;
      for (const Json& item : json) list.push_back(ToValue(item));
      return list;
    }
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    default:
      return {};
  }
}

Result<std::string> RenderOne(const Json& work) {
  NXDKIT_ASSIGN(const jinja::Template parsed,
                jinja::Template::Parse(work["template"].get_ref<const std::string&>()));
  const jinja::Value variables = ToValue(work["variables"]);
  const Json* now = JsonFind(work, "now");
  return parsed.Render(*variables.dict(),
                       now == nullptr ? std::nullopt : std::optional(now->get<int64_t>()));
}

Json Render(const Json& all) {
  Json answers = Json::array();
  for (const Json& work : all) {
    const Result<std::string> text = RenderOne(work);
    answers.push_back(text.ok() ? Json{{"text", *text}} : Json{{"error", text.error().ToString()}});
  }
  return answers;
}

Result<Json> Prompts(const std::string& folder, const std::string& rows) {
  NXDKIT_ASSIGN(const Tokenizer tokenizer, OpenTokenizer(folder));
  NXDKIT_ASSIGN(const ChatTemplate chat, ChatTemplate::Load(folder));
  NXDKIT_ASSIGN(const SpecialTokens special, LoadSpecialTokens(folder, folder, tokenizer));
  DatasetOptions options;
  options.max_prompt_tokens = 1 << 20;
  options.chat.bos_token = special.bos_token;
  options.chat.eos_token = special.eos_token;
  NXDKIT_ASSIGN(const Dataset data, Dataset::Load(rows, {&tokenizer, &chat, nullptr}, options));
  Json all = Json::array();
  for (size_t row = 0; row < data.size(); ++row)
    all.push_back(std::vector<int32_t>(data.ids(row).begin(), data.ids(row).end()));
  return Json{{"rows", all}, {"special", {{"eos_ids", special.eos_ids}, {"pad", special.pad}}}};
}

// A folder with all that its files contain about tokens.
Result<Json> Settings(const std::string& folder, const Json& work) {
  NXDKIT_ASSIGN(const Tokenizer tokenizer, OpenTokenizer(folder));
  NXDKIT_ASSIGN(const SpecialTokens special, LoadSpecialTokens(folder, folder, tokenizer));
  Json encoded = Json::array(), decoded = Json::array();
  for (const Json& text : work["texts"]) {
    NXDKIT_ASSIGN(const std::vector<int32_t> ids,
                  tokenizer.Encode(text.get_ref<const std::string&>(), false));
    encoded.push_back(ids);
  }
  for (const Json& ids : work["ids"])
    decoded.push_back(tokenizer.Decode(ids.get<std::vector<int32_t>>(), true));
  return Json{{"encoded", encoded},
              {"decoded", decoded},
              {"bos", special.bos_token},
              {"eos", special.eos_token},
              {"pad", special.pad}};
}

Status Run(const std::string& command, const std::string& path, const std::string& file) {
  if (command == "prompts") {
    NXDKIT_ASSIGN(const Json answer, Prompts(path, file));
    return Print(answer);
  }
  NXDKIT_ASSIGN(const Json work, ReadJsonFile(file, uint64_t{1} << 30));
  if (command == "encode-folder") {
    NXDKIT_ASSIGN(const Tokenizer of_folder, OpenTokenizer(path));
    NXDKIT_ASSIGN(const Json answer, Encode(of_folder, work));
    return Print(answer);
  }
  if (command == "settings") {
    NXDKIT_ASSIGN(const Json answer, Settings(path, work));
    return Print(answer);
  }
  if (command == "render") return Print(Render(work));
  NXDKIT_ASSIGN(const Tokenizer tokenizer, Tokenizer::Open(path));
  if (command == "decode") return Print(Decode(tokenizer, work));
  if (command != "encode" && command != "time")
    return Error(Errc::kUsage, "no such command").member(command);
  NXDKIT_ASSIGN(const Json answer,
                command == "time" ? Time(tokenizer, work) : Encode(tokenizer, work));
  return Print(answer);
}

}  // namespace
}  // namespace nxdkit::trainer

int main(int argc, char** argv) {
  const auto argument = [&](int i) { return std::string(argc > i ? argv[i] : ""); };
  const nxdkit::Status status = nxdkit::trainer::Run(argument(1), argument(2), argument(3));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return nxdkit::ExitCode(status.error().code());
}
