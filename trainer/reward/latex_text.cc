#include "trainer/reward/latex_text.h"

#include <algorithm>
#include <iterator>

#include "trainer/reward/text.h"

namespace nxdkit::trainer {
namespace {

constexpr int kMaxNesting = 40;

struct Symbol {
  std::string_view name, text;
};
// Macros without arguments, each with its text. Macros that are neither here nor in the tables
// below are dropped; so is \ne, which pylatexenc does not know (it knows \neq).
constexpr std::string_view kSymbols =
    "#=# $=$ %=% &=& -=\u00ad Delta=\u0394 Gamma=\u0393 Lambda=\u039b Leftarrow=\u21d0 "
    "Omega=\u03a9 Phi=\u03a6 Pi=\u03a0 Psi=\u03a8 Rightarrow=\u21d2 Sigma=\u03a3 Theta=\u0398 "
    "Upsilon=\u03a5 Vert=\u2016 Xi=\u039e _=_ aleph=\u2135 alpha=\u03b1 angle=\u2220 "
    "approx=\u2248 arccos=arccos arcsin=arcsin arctan=arctan ast=\u2217 backslash=\\ "
    "because=\u2235 beta=\u03b2 bullet=\u2219 cap=\u2229 cdot=\u00b7 cdots=\u22ef chi=\u03c7 "
    "circ=\u2218 complement=\u2201 cong=\u2245 cos=cos cosh=cosh cup=\u222a ddots=\u22f1 "
    "delta=\u03b4 div=\u00f7 dots=\u2026 downarrow=\u2193 ell=\u2113 emptyset=\u2205 "
    "epsilon=\u03f5 equiv=\u2261 eta=\u03b7 exists=\u2203 exp=exp forall=\u2200 gamma=\u03b3 "
    "ge=\u2265 geq=\u2265 geqq=\u2267 geqslant=\u2a7e gg=\u226b hbar=\u0127 i=\u0131 iff=\u27fa "
    "implies=\u27f9 in=\u2208 inf=inf infty=\u221e int=\u222b iota=\u03b9 j=\u0237 kappa=\u03ba "
    "lVert=\u2016 lambda=\u03bb land=\u2227 langle=\u27e8 lceil=\u2308 ldots=\u2026 le=\u2264 "
    "leftarrow=\u2190 leq=\u2264 leqq=\u2266 leqslant=\u2a7d lfloor=\u230a lim=lim ll=\u226a "
    "ln=ln log=log lor=\u2228 lvert=| max=max mid=| min=min mp=\u2213 mu=\u03bc nabla=\u2207 "
    "neg=\u00ac neq=\u2260 notin=\u2209 nu=\u03bd omega=\u03c9 oplus=\u2295 otimes=\u2297 "
    "parallel=\u2225 partial=\u2202 perp=\u27c2 phi=\u03d5 pi=\u03c0 pm=\u00b1 prime=' "
    "prod=\u220f propto=\u221d psi=\u03c8 rVert=\u2016 rangle=\u27e9 rceil=\u2309 rfloor=\u230b "
    "rho=\u03c1 rightarrow=\u2192 rvert=| setminus=\u2216 sigma=\u03c3 sim=\u223c simeq=\u2243 "
    "sin=sin sinh=sinh star=\u22c6 subset=\u2282 subseteq=\u2286 sum=\u2211 sup=sup "
    "supset=\u2283 supseteq=\u2287 tan=tan tanh=tanh tau=\u03c4 textdegree=\u00b0 "
    "therefore=\u2234 theta=\u03b8 times=\u00d7 to=\u2192 uparrow=\u2191 upsilon=\u03c5 "
    "varepsilon=\u03b5 varnothing=\u2205 varphi=\u03c6 vdots=\u22ee vee=\u2228 vert=| "
    "wedge=\u2227 xi=\u03be zeta=\u03b6 {={ }=}";
constexpr Symbol kSpaces[] = {
    {" ", " "}, {",", " "}, {":", " "}, {";", " "}, {"\\", "\n"}, {"qquad", "    "}, {"quad", "  "},
};

// Macros with arguments, one letter each: o [optional], a {argument}. In the text %1 and %2 stand
// for the arguments (not the optional ones); `first_letter` is where the letters of a mathematical
// font begin in Unicode.
struct Macro {
  std::string_view name, arguments, text;
  uint32_t first_letter = 0;
};
constexpr Macro kMacros[] = {
    {"\"", "a", "%1\u0308"},
    {"'", "a", "%1\u0301"},
    {".", "a", "%1\u0307"},
    {"=", "a", "%1\u0304"},
    {"^", "a", "%1\u0302"},
    {"`", "a", "%1\u0300"},
    {"~", "a", "%1\u0303"},
    {"acute", "a", "%1\u0301"},
    {"bar", "a", "%1\u0305"},
    {"color", "oa", ""},
    {"colorbox", "oaa", "%2"},
    {"ddot", "a", "%1\u0308"},
    {"dfrac", "aa", "%1/%2"},
    {"dot", "a", "%1\u0307"},
    {"frac", "aa", "%1/%2"},
    {"hat", "a", "%1\u0302"},
    {"hphantom", "oa", ""},
    {"hspace", "a", ""},
    {"label", "a", ""},
    {"mathbb", "a", "%1", 0x1d538},
    {"mathbf", "a", "%1", 0x1d400},
    {"mathcal", "a", "%1", 0x1d49c},
    {"mathfrak", "a", "%1", 0x1d504},
    {"mathit", "a", "%1", 0x1d434},
    {"mathscr", "a", "%1", 0x1d49c},
    {"mathsf", "a", "%1", 0x1d5a0},
    {"mathtt", "a", "%1", 0x1d670},
    {"nicefrac", "aa", "%1/%2"},
    {"not", "a", "%1\u0338"},
    {"sqrt", "oa", "\u221a(%1)"},
    {"textcolor", "oaa", "%2"},
    {"textmd", "a", ""},
    {"textsf", "a", ""},
    {"texttt", "a", ""},
    {"textup", "a", ""},
    {"tfrac", "aa", "%1/%2"},
    {"tilde", "a", "%1\u0303"},
    {"vec", "a", "%1\u20d7"},
    {"vphantom", "oa", ""},
    {"vspace", "a", "\n"},
    {"xleftarrow", "oa", ""},
    {"xrightarrow", "oa", ""},
};

// Runs of characters that stand for one; longest first.
constexpr Symbol kLigatures[] = {
    {"---", "\u2014"}, {"--", "\u2013"}, {"``", "\u201c"}, {"''", "\u201d"},
    {"!`", "\u00a1"},  {"?`", "\u00bf"}, {"~", "\u00a0"},  {"&", "   "},
};

constexpr std::string_view kMatrices[] = {"array",       "pmatrix",      "bmatrix",
                                          "smallmatrix", "psmallmatrix", "bsmallmatrix"};

bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters that Unicode had before the rest of their font.
uint32_t FontLetter(uint32_t first, char letter) {
  struct Early {
    char letter;
    uint32_t code;
  };
  constexpr Early kDoubleStruck[] = {{'C', 0x2102}, {'H', 0x210d}, {'N', 0x2115}, {'P', 0x2119},
                                     {'Q', 0x211a}, {'R', 0x211d}, {'Z', 0x2124}};
  if (first == 0x1d538)
    for (const Early& one : kDoubleStruck)
      if (one.letter == letter) return one.code;
  const bool small = letter >= 'a';
  return first + static_cast<uint32_t>(letter - (small ? 'a' - 26 : 'A'));
}

std::string InFont(uint32_t first, std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (IsAsciiLetter(c))
      AppendUtf8(FontLetter(first, c), &out);
    else
      out += c;
  }
  return out;
}

std::string Fill(const Macro& macro, const std::string (&arguments)[2]) {
  std::string out;
  for (size_t i = 0; i < macro.text.size(); ++i) {
    if (macro.text[i] != '%') {
      out += macro.text[i];
      continue;
    }
    ++i;
    out += arguments[macro.text[i] - '1'];
  }
  return macro.first_letter == 0 ? out : InFont(macro.first_letter, out);
}

struct Converter {
  std::string_view text;
  size_t at = 0;
  int depth = 0;
  bool too_deep = false;

  std::optional<std::string> Convert() {
    std::string out;
    while (at < text.size()) {
      out += Run("");
      if (at < text.size()) ++at;  // a brace that closes nothing
    }
    if (too_deep) return std::nullopt;
    return out;
  }

  // Reads up to an unmatched '}' (not taken), or \end{environment} (taken).
  std::string Run(std::string_view environment) {
    std::string out;
    if (++depth > kMaxNesting) {
      too_deep = true;
      at = text.size();
    }
    while (at < text.size() && text[at] != '}') {
      if (text[at] == '\\') {
        const std::string_view name = TakeName();
        if (name == "end") {
          const std::string_view which = TakeEnvironment();
          if (!environment.empty() || which.empty()) break;
          continue;
        }
        out += name == "begin" ? Environment() : MacroText(name);
      } else {
        out += Plain();
      }
    }
    --depth;
    return out;
  }

  // After a backslash: letters, and the space after them; or any one character.
  std::string_view TakeName() {
    const size_t begin = ++at;
    while (at < text.size() && IsAsciiLetter(text[at])) ++at;
    if (at == begin) {
      if (at < text.size()) at += CharBytes(text, at);
      return text.substr(begin, at - begin);
    }
    const std::string_view name = text.substr(begin, at - begin);
    SkipSpace();
    return name;
  }

  void SkipSpace() {
    while (at < text.size() && (text[at] == ' ' || (text[at] >= 9 && text[at] <= 13))) ++at;
  }

  std::string_view TakeEnvironment() {
    SkipSpace();
    if (at >= text.size() || text[at] != '{') return "";
    const size_t end = text.find('}', at);
    const size_t begin = at + 1;
    at = end == std::string_view::npos ? text.size() : end + 1;
    return text.substr(begin, std::min(end, text.size()) - begin);
  }

  std::string Environment() {
    const std::string_view name = TakeEnvironment();
    if (name == "array") {
      SkipOptional();
      Argument();
    }
    std::string body = Run(name.empty() ? "?" : name);
    if (std::ranges::find(kMatrices, name) == std::end(kMatrices)) return body;
    // Columns are already separated by spaces, rows by line feeds.
    return "[ " + std::string(Strip(ReplaceAll(body, "\n", "; "))) + " ]";
  }

  std::string Group() {
    ++at;  // '{'
    std::string out = Run("");
    if (at < text.size()) ++at;  // '}'
    return out;
  }

  std::string Plain() {
    if (text[at] == '{') return Group();
    const std::string_view rest = text.substr(at);
    for (const Symbol& ligature : kLigatures)
      if (rest.starts_with(ligature.name)) {
        at += ligature.name.size();
        return std::string(ligature.text);
      }
    const size_t bytes = CharBytes(text, at);
    at += bytes;
    return std::string(rest.substr(0, bytes));
  }

  void SkipOptional() {
    SkipSpace();
    if (at >= text.size() || text[at] != '[') return;
    const size_t end = text.find(']', at);
    if (end != std::string_view::npos) at = end + 1;
  }

  // A group, one macro without arguments of its own, or one character.
  std::string Argument() {
    SkipSpace();
    if (at >= text.size() || text[at] == '}') return "";
    if (text[at] == '{') return Group();
    if (text[at] == '\\') return SymbolText(TakeName());
    const size_t bytes = CharBytes(text, at);
    at += bytes;
    return std::string(text.substr(at - bytes, bytes));
  }

  static std::string SymbolText(std::string_view name) {
    static const std::vector<std::string_view> kRows = Split(kSymbols, ' ');
    const auto* space = std::ranges::find(kSpaces, name, &Symbol::name);
    if (space != std::end(kSpaces)) return std::string(space->text);
    for (const std::string_view row : kRows)
      if (row.starts_with(name) && row.substr(name.size()).starts_with('='))
        return std::string(row.substr(name.size() + 1));
    return "";
  }

  std::string MacroText(std::string_view name) {
    const auto* macro = std::ranges::find(kMacros, name, &Macro::name);
    if (macro == std::end(kMacros)) return SymbolText(name);
    std::string arguments[2];
    size_t count = 0;
    for (const char kind : macro->arguments) {
      if (kind == 'o')
        SkipOptional();
      else
        arguments[count++] = Argument();
    }
    return Fill(*macro, arguments);
  }
};

}  // namespace

std::optional<std::string> LatexToText(std::string_view latex) {
  return Converter{latex}.Convert();
}

}  // namespace nxdkit::trainer
