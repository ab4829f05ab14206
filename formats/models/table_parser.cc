#include "formats/models/family.h"

#include <algorithm>
#include <optional>
#include <span>

#include "formats/models/built_in.h"
#include "formats/models/table.h"
#include "formats/models/table_reader.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/hash/digest.h"

namespace nxdkit::models {
namespace {

constexpr size_t kMaxLoops = 4;     // nested
constexpr size_t kMaxNames = 1000;  // lets, counters and keys; each word is looked up in all
constexpr size_t kMaxRows = 10'000;
constexpr size_t kMaxDims = 8;
constexpr size_t kMaxJoined = 64;     // in a line of a view
constexpr size_t kMaxIgnored = 1000;  // each tensor that is not a parameter is compared with all
constexpr size_t kMaxAliases = 64;
constexpr size_t kMaxSegments = 64;
constexpr size_t kMaxBraces = 16;  // in a name
constexpr size_t kMaxExpressionBytes = 8 * kMaxNameBytes;
constexpr std::string_view kSpellings[] = {"memory", "hub", "v4", "memory_v4", "bare"};  // --style

struct FactRow {
  std::string_view name;
  Expected expected;
};
constexpr Expected Integer(int64_t most, int64_t least = 1) {
  return {Expected::Type::kInteger, least, most};
}
constexpr std::array<FactRow, kFacts> kFactRows = {{
    {"H", Integer(kMaxExtent)},
    {"I", Integer(kMaxExtent)},
    {"L", Integer(10'000)},
    {"V", Integer(kMaxExtent)},
    {"nh", Integer(1 << 16)},
    {"nkv", Integer(1 << 16)},
    {"D", Integer(kMaxExtent)},
    {"E", Integer(4096, 0)},
    {"J", Integer(kMaxExtent)},
    {"tied", {}},
    {"labels", Integer(kMaxExtent)},
}};

constexpr std::pair<std::string_view, Role> kRoleNames[] = {
    {"embedding", Role::kEmbedding},
    {"lm_head", Role::kLmHead},
    {"score", Role::kScore},
    {"final_norm", Role::kFinalNorm},
    {"query", Role::kQuery},
    {"key", Role::kKey},
    {"value", Role::kValue},
    {"output", Role::kOutput},
    {"query_norm", Role::kQueryNorm},
    {"key_norm", Role::kKeyNorm},
    {"gate", Role::kGate},
    {"up", Role::kUp},
    {"down", Role::kDown},
    {"router", Role::kRouter},
    {"expert_gate", Role::kExpertGate},
    {"expert_up", Role::kExpertUp},
    {"expert_down", Role::kExpertDown},
    {"norm", Role::kReplicated},
};

constexpr std::string_view kOps[] = {"same", "swap", "rank0", "negexp", "evenodd", "plus1"};

bool IsWordChar(char c) { return c == '_' || IsAlnum(c); }
bool IsWord(std::string_view text) {
  return !text.empty() && !IsDigit(text[0]) && std::ranges::all_of(text, IsWordChar);
}

class TableParser {
 public:
  explicit TableParser(const std::string& origin) {
    family_.origin = table_.origin = origin;
    table_.facts.fill(-1);
    table_.cuts = {{"all", kWhole, false, false, {}},
                   {"vocab", 0, true, false, {}},
                   {"c", 0, false, false, {}},
                   {"r", 1, false, false, {}}};
  }

  Result<Family> Parse(std::string_view text) {
    NXDKIT_ASSIGN(const std::vector<Statement> statements, ReadStatements(text));
    for (const Statement& statement : statements) {
      line_ = statement.line;
      NXDKIT_TRY(Take(statement));
      NXDKIT_TRY(CheckBounds(statement));
    }
    if (!blocks_.empty()) return Corrupt("the loop of line {} has no end", blocks_.back().line);
    if (family_.model_type.empty()) return Corrupt("no line says \"family NAME\"");
    if (table_.rows.empty()) return Corrupt("the family has no parameters");
    if (!family_.architectures.empty()) family_.architecture = family_.architectures.front();
    if (family_.types.empty() && family_.architectures.empty())
      return Corrupt("no line \"match ARCHITECTURE\" says which models are of the family");
    family_.splits_qkv =
        std::ranges::any_of(table_.rows, [](const Row& row) { return row.role == Role::kQuery; });
    table_.symbols = scope_.symbols();
    table_.sample_symbols = sample_scope_.symbols();
    family_.table = std::make_shared<Table>(std::move(table_));
    return std::move(family_);
  }

 private:
  using Handler = Status (TableParser::*)(const Statement&);
  struct Directive {
    std::string_view word;
    Handler handler;
    size_t least;  // number of words
    std::string_view form;
  };
  static std::span<const Directive> Directives();

  struct Block {
    size_t step;
    std::string prefix;
    int64_t when;
    uint32_t line;
  };

  Status Take(const Statement& statement) {
    const std::string_view word = statement.words[0].text;
    for (const Directive& row : Directives()) {
      if (row.word != word) continue;
      if (statement.words.size() < row.least)
        return WrongAt(statement, statement.words[0].column,
                       fmt::format("\"{}\" is expected", row.form));
      if (const std::string_view sign = SignOf(row.form);
          !sign.empty() && statement.words[2].text != sign)
        return Wrong(statement, 2, fmt::format("\"{}\" is expected here", sign));
      return (this->*row.handler)(statement);
    }
    return TakeRow(statement);
  }

  // The sign required as the third word of a directive; "" if there is none.
  static std::string_view SignOf(std::string_view form) {
    const std::vector<std::string_view> words = Split(form, ' ');
    const bool sign = words.size() > 2 && (words[2] == "=" || words[2] == "<");
    return sign ? words[2] : "";
  }

  Status CheckBounds(const Statement& statement) const {
    for (const auto& [count, most, what] :
         {std::tuple{scope_.symbols().size() + sample_scope_.symbols().size(), kMaxNames, "names"},
          {table_.rows.size(), kMaxRows, "rows"},
          {table_.aliases.size(), kMaxAliases, "aliases"},
          {table_.ignored.size(), kMaxIgnored, "names that are ignored"}})
      if (count > most)
        return WrongAt(statement, statement.words[0].column,
                       fmt::format("the text has over {} {}", most, what));
    return OkStatus();
  }

  Error Wrong(const Statement& statement, size_t word, std::string_view what) const {
    return WrongAt(statement, statement.words[std::min(word, statement.words.size() - 1)].column,
                   what);
  }

  Result<uint32_t> AddExpression(const Statement& statement, std::string_view text,
                                 const Expected& expected = {}) {
    if (text.empty())
      return Wrong(statement, statement.words.size(), "an expression is missing after this");
    if (text.size() > kMaxExpressionBytes)
      return WrongAt(statement, statement.ColumnOf(text), "the expression is too long");
    Result<Expression> parsed = ParseExpression(text, scope_, expected);
    if (!parsed.ok())
      return WrongAt(statement,
                     statement.ColumnOf(text) + static_cast<uint32_t>(*parsed.error().offset()),
                     parsed.error().message());
    table_.expressions.push_back(*std::move(parsed));
    return static_cast<uint32_t>(table_.expressions.size()) - 1;
  }

  Status TakeFamily(const Statement& statement) {
    if (!family_.model_type.empty()) return Wrong(statement, 0, "the family has a name already");
    if (!IsWord(statement.words[1].text)) return Wrong(statement, 1, "this is not a word");
    family_.model_type = statement.words[1].text;
    return OkStatus();
  }
  static void Append(const Statement& statement, std::vector<std::string>& to) {
    for (const Word& word : std::span(statement.words).subspan(1)) to.emplace_back(word.text);
  }
  Status TakeType(const Statement& statement) {
    Append(statement, family_.types);
    return OkStatus();
  }
  Status TakeMatch(const Statement& statement) {
    Append(statement, family_.architectures);
    return OkStatus();
  }

  // Only lists of the known families use it.
  Status TakeExample(const Statement&) { return OkStatus(); }

  Status TakeLet(const Statement& statement) { return AddLet(statement, false); }
  Status TakeFlag(const Statement& statement) { return AddLet(statement, true); }
  Status AddLet(const Statement& statement, bool flag) {
    const std::string_view name = statement.words[1].text;
    if (!IsWord(name)) return Wrong(statement, 1, "this is not a word");
    if (!blocks_.empty())
      return Wrong(statement, 0, "a let must be outside loops, whose counters have no value in it");
    const auto fact = std::ranges::find(kFactRows, name, &FactRow::name);
    Expected expected;
    if (fact != kFactRows.end()) expected = fact->expected;
    if (flag) expected.type = Expected::Type::kFlag;
    NXDKIT_ASSIGN(const uint32_t expression, AddExpression(statement, statement.From(3), expected));
    const uint32_t symbol = scope_.Add(Symbol::Kind::kLet, std::string(name));
    scope_.ComesFrom(symbol, table_.expressions[expression]);
    table_.lets.push_back({symbol, expression, flag});
    if (fact != kFactRows.end())
      table_.facts[static_cast<size_t>(fact - kFactRows.begin())] = symbol;
    return OkStatus();
  }

  Status TakeCut(const Statement& statement) {
    Cut cut;
    cut.name = statement.words[1].text;
    if (!IsWord(cut.name)) return Wrong(statement, 1, "this is not a word");
    if (std::ranges::count(table_.cuts, cut.name, &Cut::name) > 0)
      return Wrong(statement, 1, "there is such a cut already");
    const std::optional<int> axis = ParseNumber<int>(statement.words[2].text);
    if (!axis || *axis < 0 || *axis > 3) return Wrong(statement, 2, "the axis is from 0 to 3");
    cut.axis = *axis;
    const std::vector<std::string_view> parts = Split(statement.words[3].text, ',');
    if (parts.size() > kMaxSegments) return Wrong(statement, 3, "too many segments");
    for (const std::string_view part : parts) {
      const size_t colon = part.find(':');
      if (colon == std::string_view::npos) return Wrong(statement, 3, "COUNT:UNIT is expected");
      Cut::Segment segment;
      NXDKIT_ASSIGN(segment.count, AddExpression(statement, part.substr(0, colon)));
      NXDKIT_ASSIGN(segment.unit, AddExpression(statement, part.substr(colon + 1)));
      segment.of = UnitOf(segment);
      cut.segments.push_back(segment);
    }
    if (statement.words.size() > 4) {
      if (statement.words[4].text != "share" || statement.words.size() > 5)
        return Wrong(statement, 4, "only \"share\" can follow here");
      cut.share = true;
    }
    table_.cuts.push_back(std::move(cut));
    return OkStatus();
  }

  // nh and nkv units are heads, of D rows or of another number, which formats place; other units
  // stay in their order.
  Unit UnitOf(const Cut::Segment& segment) const {
    const auto is = [&](uint32_t expression, Fact fact) {
      const int64_t symbol = table_.expressions[expression].OnlySymbol();
      return symbol >= 0 && symbol == table_.facts[static_cast<size_t>(fact)];
    };
    if (is(segment.count, Fact::kHeads)) return Unit::kQueryHead;
    return is(segment.count, Fact::kKeyHeads) ? Unit::kKeyHead : Unit::kElement;
  }

  Status TakeEach(const Statement& statement) {
    if (blocks_.size() == kMaxLoops) return Wrong(statement, 0, "too many nested loops");
    const std::string_view name = statement.words[1].text;
    if (!IsWord(name)) return Wrong(statement, 1, "this is not a word");
    NXDKIT_ASSIGN(const uint32_t count, AddExpression(statement, statement.From(3)));
    Step step{Step::Kind::kEach, 0, 0, count, 0, {}};
    if (when_ >= 0) step.conditions.push_back(static_cast<uint32_t>(when_));
    step.counter = scope_.Add(Symbol::Kind::kCounter, std::string(name));
    blocks_.push_back({table_.steps.size(), prefix_, when_, statement.line});
    table_.steps.push_back(std::move(step));
    return OkStatus();
  }

  Status TakeEnd(const Statement& statement) {
    if (blocks_.empty()) return Wrong(statement, 0, "no loop is open here");
    const Block block = std::move(blocks_.back());
    blocks_.pop_back();
    prefix_ = block.prefix;
    when_ = block.when;
    Step& each = table_.steps[block.step];
    each.other = table_.steps.size();
    scope_.Close(each.counter);
    table_.steps.push_back({Step::Kind::kEnd, 0, 0, 0, block.step, {}});
    return OkStatus();
  }

  Status TakeAt(const Statement& statement) {
    prefix_ = statement.words[1].text;
    return OkStatus();
  }

  Status TakeWhen(const Statement& statement) {
    NXDKIT_ASSIGN(const uint32_t condition, AddExpression(statement, statement.From(1)));
    when_ = AlwaysHolds(condition) ? -1 : int64_t{condition};
    return OkStatus();
  }

  // Whether the condition is a number other than 0; others depend on the config.
  bool AlwaysHolds(uint32_t condition) const {
    const std::vector<Operation>& steps = table_.expressions[condition].operations;
    return steps.size() == 1 && steps[0].code == Code::kNumber && steps[0].number != 0;
  }

  Status TakeIgnore(const Statement& statement) {
    Append(statement, table_.ignored);
    return OkStatus();
  }

  Status TakeCarry(const Statement& statement) {
    for (size_t i = 1; i < statement.words.size(); ++i) {
      Row row;
      row.carried = true;
      if (when_ >= 0) row.conditions.push_back(static_cast<uint32_t>(when_));
      NXDKIT_ASSIGN(row.name,
                    Pattern(statement, i, prefix_ + std::string(statement.words[i].text)));
      AddRow(std::move(row));
    }
    return OkStatus();
  }

  Status TakeAlias(const Statement& statement) {
    AliasLine alias{std::string(statement.words[1].text), std::string(statement.words[3].text), -1};
    if (statement.words.size() > 4) {
      if (statement.words[4].text != "if") return Wrong(statement, 4, "\"if\" is expected here");
      NXDKIT_ASSIGN(alias.condition, AddExpression(statement, statement.From(5)));
    }
    table_.aliases.push_back(std::move(alias));
    return OkStatus();
  }

  Status TakeSample(const Statement& statement) {
    SampleLine line{std::string(statement.words[1].text), "", {}};
    const std::string_view value = statement.From(3);
    if (value == "base") {
      line.json = value;
    } else if (value == "true" || value == "false" || value == "null" ||
               std::string_view("[{\"").find(value.front()) != std::string_view::npos) {
      if (const auto json = ParseJson(value); !json.ok())
        return Wrong(statement, 3, json.error().message());
      line.json = value;
    } else {
      Result<Expression> parsed = ParseExpression(value, sample_scope_, {});
      if (!parsed.ok()) return Wrong(statement, 3, parsed.error().message());
      line.expression = *std::move(parsed);
    }
    table_.samples.push_back(std::move(line));
    return OkStatus();
  }

  // Words in a line that switch something on.
  struct Switch {
    std::string_view word;
    bool* on;
  };
  Status TakeSwitches(const Statement& statement, size_t first, std::span<const Switch> switches) {
    for (size_t i = first; i < statement.words.size(); ++i) {
      const auto it = std::ranges::find(switches, statement.words[i].text, &Switch::word);
      if (it == switches.end()) {
        std::string words;
        for (const Switch& row : switches) words += " " + std::string(row.word);
        return Wrong(statement, i, "the words that can stand here are:" + words);
      }
      *it->on = true;
    }
    return OkStatus();
  }

  Status TakeTraining(const Statement& statement) {
    TrainingTraits& training = family_.training;
    const Switch switches[] = {{"pipelines", &training.pipelines},
                               {"optimizer", &training.optimizer},
                               {"optimum", &training.optimum},
                               {"fuses_qkv", &training.fuses_qkv},
                               {"stores_aliases", &training.stores_aliases},
                               {"tp_rows", &training.tp_rows}};
    return TakeSwitches(statement, 1, switches);
  }

  Status TakeBundle(const Statement& statement) {
    const bool optimum = statement.words[1].text == "optimum";
    if (!optimum && statement.words[1].text != "nxdi")
      return Wrong(statement, 1, "bundles are made by optimum and nxdi");
    RolloutTraits& traits = optimum ? family_.optimum : family_.nxdi;
    traits.known = true;
    bool model = false, attention = false, expert = false, untied = false, sparse = false;
    bool at_two = false, on_host = false;
    const Switch switches[] = {
        {"model_rank", &model},        {"attention_ranks", &attention},
        {"expert_ranks", &expert},     {"untied", &untied},
        {"all_sparse", &sparse},       {"fuses_qkv", &family_.optimum_fuses_qkv},
        {"samples_on_host", &on_host}, {"samples_on_host_at_2", &at_two}};
    NXDKIT_TRY(TakeSwitches(statement, 2, switches));
    traits.ranks = static_cast<uint8_t>(
        (model ? kModelRank : 0) | (attention ? kAttentionRank : 0) | (expert ? kExpertRank : 0));
    traits.ties = !untied;
    traits.dense_layers = !sparse;
    if (on_host) family_.optimum_sampling = OptimumSampling::kOnHost;
    if (at_two) family_.optimum_sampling = OptimumSampling::kNotAtTwoRanks;
    return OkStatus();
  }

  Status TakeTitan(const Statement& statement) {
    bool halves = false, pairs = false;
    const Switch switches[] = {{"halves", &halves}, {"pairs", &pairs}};
    NXDKIT_TRY(TakeSwitches(statement, 1, switches));
    family_.titan = pairs ? TitanRope::kPairs : TitanRope::kHalves;
    return OkStatus();
  }

  Status TakeView(const Statement& statement) { return AddView(statement, false); }
  Status TakeSpelling(const Statement& statement) { return AddView(statement, true); }
  Status AddView(const Statement& statement, bool spelling) {
    const std::string_view name = statement.words[1].text;
    if (!IsWord(name)) return Wrong(statement, 1, "this is not a word");
    if (std::ranges::count(table_.views, name, &View::name) > 0)
      return Wrong(statement, 1, "there is such a view already");
    if (spelling && std::ranges::count(kSpellings, name) == 0)
      return Wrong(statement, 1, "spellings are called memory, hub, v4, memory_v4 or bare");
    const bool strict = statement.words.size() > 2 && statement.words[2].text == "strict";
    if (statement.words.size() > (strict ? 3u : 2u))
      return Wrong(statement, 2, "only \"strict\" can follow here");
    table_.views.push_back({std::string(name), spelling, strict, {}});
    return OkStatus();
  }

  Status AddViewLine(const Statement& statement, ViewLine line) {
    for (const Word& word : statement.words)
      if (word.text.size() > kMaxNameBytes)
        return WrongAt(statement, word.column, "this is too long");
    if (table_.views.empty())
      return Wrong(statement, 0, "this line belongs to a view: \"view NAME\"");
    table_.views.back().lines.push_back(std::move(line));
    return OkStatus();
  }
  Status TakeJoined(const Statement& statement, ViewLine::Kind kind) {
    ViewLine line{kind, std::string(statement.words[1].text), {}, "", 0};
    if (statement.words.size() > kMaxJoined + 3) return Wrong(statement, 3, "too many are joined");
    for (const Word& word : std::span(statement.words).subspan(3)) {
      line.of.emplace_back(word.text);
      if (kind == ViewLine::Kind::kExperts && word.text.find("{e}") == std::string_view::npos)
        return WrongAt(statement, word.column, "{e} is missing in it");
    }
    return AddViewLine(statement, std::move(line));
  }
  Status TakeStack(const Statement& statement) {
    return TakeJoined(statement, ViewLine::Kind::kStack);
  }
  Status TakeExperts(const Statement& statement) {
    return TakeJoined(statement, ViewLine::Kind::kExperts);
  }
  Status TakePut(const Statement& statement) {
    if (std::ranges::count(kOps, statement.words[3].text) == 0)
      return Wrong(statement, 3, "no such operation: same swap rank0 negexp evenodd plus1");
    return AddViewLine(statement, {ViewLine::Kind::kPut,
                                   std::string(statement.words[1].text),
                                   {std::string(statement.words[4].text)},
                                   std::string(statement.words[3].text),
                                   0});
  }
  Status TakeRope(const Statement& statement) {
    ViewLine line{ViewLine::Kind::kRope, std::string(statement.words[1].text), {}, "", 0};
    NXDKIT_ASSIGN(line.count, AddExpression(statement, statement.From(2)));
    return AddViewLine(statement, std::move(line));
  }
  // Parses "groups NEW = COUNT OLD..".
  Status TakeGroups(const Statement& statement) {
    NXDKIT_TRY(TakeJoined(statement, ViewLine::Kind::kGroups));
    ViewLine& line = table_.views.back().lines.back();
    NXDKIT_ASSIGN(line.count, AddExpression(statement, statement.words[3].text));
    line.of.erase(line.of.begin());
    return OkStatus();
  }
  // Parses "split NEW.. = OLD".
  Status TakeSplit(const Statement& statement) {
    if (table_.views.empty() || table_.views.back().name != "bundle")
      return Wrong(statement, 0, "this line belongs to \"view bundle\" only");
    const size_t sign = Position(statement, "=");
    if (sign + 2 != statement.words.size() || sign < 3 || sign > kMaxJoined)
      return Wrong(statement, 1, "two names or more, \"=\" and one name are expected");
    ViewLine line{ViewLine::Kind::kSplit, std::string(statement.words[sign + 1].text), {}, "", 0};
    for (const Word& word : std::span(statement.words).subspan(1, sign - 1))
      line.of.emplace_back(word.text);
    return AddViewLine(statement, std::move(line));
  }
  Status TakeRename(const Statement& statement) {
    const std::string to(statement.words.size() > 2 ? statement.words[2].text : "");
    return AddViewLine(
        statement, {ViewLine::Kind::kRename, std::string(statement.words[1].text), {to}, "", 0});
  }

  // The name with the expressions in its braces.
  Result<NamePattern> Pattern(const Statement& statement, size_t word, const std::string& text) {
    NamePattern pattern;
    if (text.size() > kMaxNameBytes) return Wrong(statement, word, "the name is too long");
    for (size_t at = 0;;) {
      if (pattern.parts.size() > kMaxBraces) return Wrong(statement, word, "too many braces");
      const size_t open = text.find('{', at);
      pattern.parts.push_back({text.substr(at, open - at), -1});
      if (open == std::string::npos) return pattern;
      const size_t close = text.find('}', open);
      if (close == std::string::npos) return Wrong(statement, word, "a brace is not closed");
      Result<Expression> inside =
          ParseExpression(std::string_view(text).substr(open + 1, close - open - 1), scope_, {});
      if (!inside.ok()) return Wrong(statement, word, "in the braces: " + inside.error().message());
      pattern.parts.back().then = static_cast<int64_t>(table_.expressions.size());
      table_.expressions.push_back(*std::move(inside));
      at = close + 1;
    }
  }

  void AddRow(Row row) {
    row.line = line_;
    table_.steps.push_back(
        {Step::Kind::kRow, static_cast<uint32_t>(table_.rows.size()), 0, 0, 0, {}});
    table_.rows.push_back(std::move(row));
  }

  static size_t Position(const Statement& statement, std::string_view word) {
    return static_cast<size_t>(std::ranges::find(statement.words, word, &Word::text) -
                               statement.words.begin());
  }

  static Role RoleFor(const Cut& cut) {
    if (cut.axis == kWhole) return Role::kReplicated;
    return cut.axis == 0 ? Role::kColumn : Role::kRow;
  }

  Result<std::vector<Role>> Roles(const Statement& statement, size_t word, size_t names,
                                  const Cut& cut) {
    if (word >= statement.words.size()) return std::vector<Role>(names, RoleFor(cut));
    if (word + 1 >= statement.words.size()) return Wrong(statement, word, "a role is missing");
    std::vector<Role> roles;
    for (const std::string_view name : Split(statement.words[word + 1].text, ',')) {
      const auto it =
          std::ranges::find(kRoleNames, name, &std::pair<std::string_view, Role>::first);
      if (it == std::end(kRoleNames)) {
        std::string known;
        for (const auto& row : kRoleNames) known += " " + std::string(row.first);
        return Wrong(statement, word + 1, "no such role; there are" + known);
      }
      roles.push_back(it->second);
    }
    if (roles.size() == 1) roles.resize(names, roles.front());
    if (roles.size() != names)
      return Wrong(statement, word + 1, "expected as many roles as names, or one");
    return roles;
  }

  // Parses "CUT NAME[,NAME..] DIM.. [as ROLE[,ROLE..]] [bias COND] [if COND]".
  Status TakeRow(const Statement& statement) {
    const std::string_view cut_name = statement.words[0].text;
    const auto cut = std::ranges::find(table_.cuts, cut_name, &Cut::name);
    if (cut == table_.cuts.end())
      return Wrong(statement, 0, fmt::format("\"{}\" is neither a directive nor a cut", cut_name));
    const size_t as = Position(statement, "as");
    const size_t bias = Position(statement, "bias");
    const size_t condition = Position(statement, "if");
    const size_t end = std::min({as, bias, condition});
    if (end > kMaxDims + 2) return Wrong(statement, 2, "the shape has too many extents");
    if (end < 3) return Wrong(statement, 1, "NAME and its shape are expected after the cut");
    if ((bias > condition && bias < statement.words.size()) ||
        (as > std::min(bias, condition) && as < statement.words.size()))
      return Wrong(statement, 0, "\"as\" is before \"bias\", and that before \"if\"");
    Row row;
    row.cut = static_cast<uint32_t>(cut - table_.cuts.begin());
    for (size_t i = 2; i < end; ++i) {
      NXDKIT_ASSIGN(const uint32_t dim, AddExpression(statement, statement.words[i].text));
      row.dims.push_back(dim);
    }
    if (cut->axis >= static_cast<int>(row.dims.size()))
      return Wrong(statement, 0, "the cut's axis is not in the shape");
    if (when_ >= 0) row.conditions.push_back(static_cast<uint32_t>(when_));
    if (condition < statement.words.size()) {
      NXDKIT_ASSIGN(const uint32_t holds, AddExpression(statement, statement.From(condition + 1)));
      row.conditions.push_back(holds);
    }
    std::optional<uint32_t> has_bias;
    if (bias < statement.words.size())
      NXDKIT_TRY(AddExpression(statement, statement.Between(bias + 1, condition)).To(has_bias));
    const std::vector<std::string_view> names = Split(statement.words[1].text, ',');
    if (names.size() > kMaxRows) return Wrong(statement, 1, "too many names");
    NXDKIT_ASSIGN(const std::vector<Role> roles, Roles(statement, as, names.size(), *cut));
    for (size_t i = 0; i < names.size(); ++i)
      NXDKIT_TRY(AddNamed(statement, names[i], roles[i], row, has_bias));
    return OkStatus();
  }

  Status AddNamed(const Statement& statement, std::string_view name, Role role, Row row,
                  const std::optional<uint32_t>& has_bias) {
    const bool literal = name.ends_with('!');
    if (literal) name.remove_suffix(1);
    if (literal && has_bias) return Wrong(statement, 1, "a name with \"!\" has no bias");
    row.role = role;
    const std::string full = prefix_ + std::string(name);
    NXDKIT_ASSIGN(row.name, Pattern(statement, 1, literal ? full : full + ".weight"));
    AddRow(row);
    if (!has_bias) return OkStatus();
    // A bias is cut like the rows of its weight, and is whole with columns.
    const Cut& cut = table_.cuts[row.cut];
    if (cut.axis != 0 || cut.vocab) row.cut = 0;
    row.dims.resize(1);
    if (!AlwaysHolds(*has_bias)) row.conditions.push_back(*has_bias);
    NXDKIT_ASSIGN(row.name, Pattern(statement, 1, full + ".bias"));
    AddRow(std::move(row));
    return OkStatus();
  }

  Family family_;
  Table table_;
  Scope scope_;
  Scope sample_scope_;
  std::vector<Block> blocks_;
  std::string prefix_;
  int64_t when_ = -1;
  uint32_t line_ = 0;
};

std::span<const TableParser::Directive> TableParser::Directives() {
  static constexpr Directive kDirectives[] = {
      {"family", &TableParser::TakeFamily, 2, "family NAME"},
      {"type", &TableParser::TakeType, 2, "type MODEL_TYPE.."},
      {"match", &TableParser::TakeMatch, 2, "match ARCHITECTURE.."},
      {"example", &TableParser::TakeExample, 2, "example MODEL.."},
      {"let", &TableParser::TakeLet, 4, "let NAME = EXPRESSION"},
      {"flag", &TableParser::TakeFlag, 4, "flag NAME = EXPRESSION"},
      {"cut", &TableParser::TakeCut, 4, "cut NAME AXIS COUNT:UNIT[,..] [share]"},
      {"each", &TableParser::TakeEach, 4, "each NAME < EXPRESSION"},
      {"end", &TableParser::TakeEnd, 1, "end"},
      {"at", &TableParser::TakeAt, 2, "at PREFIX"},
      {"when", &TableParser::TakeWhen, 2, "when CONDITION"},
      {"ignore", &TableParser::TakeIgnore, 2, "ignore NAME.."},
      {"carry", &TableParser::TakeCarry, 2, "carry NAME.."},
      {"alias", &TableParser::TakeAlias, 4, "alias NAME = NAME [if CONDITION]"},
      {"training", &TableParser::TakeTraining, 2, "training WORD.."},
      {"bundle", &TableParser::TakeBundle, 2, "bundle optimum|nxdi [WORD..]"},
      {"sample", &TableParser::TakeSample, 4, "sample KEY = VALUE"},
      {"titan", &TableParser::TakeTitan, 2, "titan halves|pairs"},
      {"view", &TableParser::TakeView, 2, "view NAME [strict]"},
      {"spelling", &TableParser::TakeSpelling, 2, "spelling NAME"},
      {"stack", &TableParser::TakeStack, 4, "stack NEW = OLD.."},
      {"groups", &TableParser::TakeGroups, 5, "groups NEW = COUNT OLD.."},
      {"experts", &TableParser::TakeExperts, 4, "experts NEW = OLD.."},
      {"put", &TableParser::TakePut, 5, "put NEW = OPERATION OLD"},
      {"split", &TableParser::TakeSplit, 5, "split NEW NEW.. = OLD"},
      {"rope", &TableParser::TakeRope, 3, "rope NAME HEADS"},
      {"rename", &TableParser::TakeRename, 2, "rename OLD [NEW]"},
  };
  return kDirectives;
}

std::string DigestOf(std::string_view text) {
  for (const BuiltInFamily& family : kBuiltInFamilies)
    if (family.text.data() == text.data() && family.text.size() == text.size())
      return std::string(family.sha256);
  return Sha256Hex(std::as_bytes(std::span(text)));
}

}  // namespace

Result<Family> ParseFamily(std::string_view text, const std::string& origin) {
  if (text.size() > kMaxFamilyBytes)
    return Corrupt("{} bytes are over the limit of {}", text.size(), kMaxFamilyBytes).in(origin);
  Result<Family> family = TableParser(origin).Parse(text);
  if (!family.ok()) return std::move(family).error().in(origin);
  family->digest = DigestOf(text);
  return family;
}

const Expected& BoundsOf(Fact fact) { return kFactRows[static_cast<size_t>(fact)].expected; }

const View* Table::FindView(std::string_view name) const {
  const auto it = std::ranges::find(views, name, &View::name);
  return it == views.end() ? nullptr : &*it;
}

}  // namespace nxdkit::models
