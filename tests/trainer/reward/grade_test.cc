// Every verdict in the reference's worked examples, the parts by themselves, and strings made to
// hang a grader.
#include "trainer/reward/grade.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "trainer/reward/latex_text.h"
#include "trainer/reward/mathd.h"
#include "trainer/reward/rules.h"
#include "trainer/reward/symbolic.h"

namespace nxdkit::trainer {
namespace {

struct Pair {
  const char* given;
  const char* truth;
};

TEST(Boxed, WorkedExamples) {
  const Pair cases[] = {
      {"\\boxed{1} b \\boxed{2}", "2"},
      {"\\boxed{ 7 }", "7"},
      {"\\boxed{}", ""},
      {"\\boxed{5", "None"},
      {"\\boxed {5}", "None"},
      {"\\boxed{1} and \\boxed{2", "None"},
      {"\\boxed{\\{1,2\\}}", "\\{1,2\\}"},
      {"no box", "None"},
      {"\\boxed{\\frac{1}{2}} so", "\\frac{1}{2}"},
  };
  for (const Pair& one : cases) EXPECT_EQ(ExtractBoxed(one.given), one.truth) << one.given;
}

TEST(Grade, RightAnswers) {
  const Pair cases[] = {
      {"\\frac{1}{2}", "0.5"},
      {"1/2", "\\frac{1}{2}"},
      {"0.25", "\\frac{1}{4}"},
      {".5", "0.5"},
      {"5", "5.0"},
      {"1,000", "1000"},
      {"10%", "10"},
      {"$10", "10"},
      {"5 cm", "5"},
      {"x=5", "5"},
      {"5", "x=5"},
      {"xy=5", "5"},
      {"(1,2)", "(1, 2)"},
      {"\\{1,2\\}", "1,2"},
      {"2\\sqrt{3}", "\\sqrt{12}"},
      {"x+1", "1+x"},
      {"2(x+1)", "2x+2"},
      {"(x+1)^2", "x^2+2x+1"},
      {"\\frac{x+1}{2}", "x+1/2"},
      {"A", "\\text{(A)}"},
      {"evelyn", "\\text{Evelyn}"},
      {"7 3/4", "31/4"},
      {"1/-2", "-1/2"},
      {"1e3", "1000"},
      {"a+b", "b+a"},
      {"90", "90^\\circ"},
      {"90 degrees", "90"},
      {"\\left(\\frac{1}{2},3\\right)", "(0.5,3)"},
      {"(1/2,3)", "\\left(\\frac{1}{2},3\\right)"},
      {"(2,-1)", "(2,-1.0)"},
      {"15 or 16", "15,16"},
      {"y = 2x+3", "2x+3"},
      {"ab", "ba"},
      {"1/2+1/3", "5/6"},
      {"3/2", "1.5"},
      {"12 hours", "12"},
      {"7 3 / 4", "7 3/4"},
      {"\\frac15", "0.2"},
      {"2\\pi", "\\pi\\cdot 2"},
      {"3\\pi^2", "\\pi^{2}\\cdot3"},
      {"\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}"},
      {"x\\sqrt{2}", "\\sqrt{2}x"},
      {"\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"},
      {"(-\\infty, 2)\\cup(3,\\infty)", "(-\\infty,2) \\cup (3, \\infty)"},
      {"11,\\! 111", "11111"},
      {"\\dfrac{3}{4}", "\\tfrac34"},
      {"5\\text{ cm}", "5"},
      {"\\$3.50", "3.5"},
      {"$.5$", ".5\n"},
      {"x \\ne 2", "(x2)"},  // pylatexenc drops \ne
      {"\u0664", "4"},
      {"\uff15", "5"},
      {"12.", "12"},
      {"x^2.0", "(x^2.)"},
  };
  for (const Pair& one : cases)
    EXPECT_TRUE(GradeAnswer(one.given, one.truth))
        << one.given << " | " << one.truth << " as " << NormalizeAnswer(one.given) << " | "
        << NormalizeAnswer(one.truth);
}

TEST(Grade, WrongAnswers) {
  const Pair cases[] = {
      {"(055)", "055"},
      {"2x", "02x"},
      {"(\u0664)", "\u0664"},
      {"x^2.", "x^2"},
      {"A50\\%.", "A50"},
      {"\\neq 3", "3"},
      {"2/4", "\\frac{1}{2}"},
      {"\\frac{2}{4}", "1/2"},
      {"(1,2)", "[1,2]"},
      {"1,2", "(1,2)"},
      {"2,1", "1,2"},
      {"\\frac{x+1}{2}", "(x+1)/2"},
      {"3.14", "\\pi"},
      {"2+2", "4"},
      {"4", "2+2"},
      {"2^3", "8"},
      {"a+b+c", "c+b+a"},
      {"pi*x", "x*pi"},
      {"x^11+1", "1+x^11"},
      {"x^10", "x^(10)"},
      {"12,34", "1234"},
      {"2 million", "2000000"},
      {"0.3333333333", "1/3"},
      {"0.1+0.2", "0.3"},
      {"0.3333333333333333", "1/3"},
      {"None", "42"},
      {"", "5"},
      {"5", ""},
      {"\\sqrt{19}\\pm1", "1 \\pm \\sqrt{19}"},
      {"5!", "120"},
      {"x)-(0", "y"},
      {"x)-(x", "y"},
      {"1/0", "2/0"},
      {"(1,2,3)", "(1,2)"},
      {"\\sqrt{x^2}", "x"},
      {"x/x^2", "1/x+1"},
  };
  for (const Pair& one : cases)
    EXPECT_FALSE(GradeAnswer(one.given, one.truth))
        << one.given << " | " << one.truth << " as " << NormalizeAnswer(one.given) << " | "
        << NormalizeAnswer(one.truth);
}

TEST(Mathd, Forms) {
  const Pair cases[] = {
      {" \\frac12 ", "\\frac{1}{2}"},
      {"\\frac1{72}", "\\frac{1}{72}"},
      {"\\frac{72}1", "\\frac{72}1"},
      {"\\sqrt3x", "\\sqrt{3}x"},
      {"0.5", "\\frac{1}{2}"},
      {"3/4", "\\frac{3}{4}"},
      {"03/4", "03/4"},
      {"a/b", "a/b"},
      {"k = 5", "5"},
      {"abc=5", "abc=5"},
      {"\\text{a b}", "ab"},
      {"5\\text{ m}\\text{ s}", "5\\text{ m}\\text{ s}"},
      {"\\sqrt", "\\sqrt"},
      {"\\frac", "\\frac"},
      {"\\frac1", "\\frac1"},
      {".5x", "0.5x"},
      {"\\left( 1 \\right)", "(1)"},
      {"50\\%", "50"},
      {"\\tfrac{1}{2}", "\\frac{1}{2}"},
  };
  for (const Pair& one : cases) EXPECT_EQ(NormalizeMathd(one.given), one.truth) << one.given;
}

TEST(Latex, AsText) {
  const Pair cases[] = {
      {"\\frac{x+1}{2}", "x+1/2"},
      {"\\frac12", "1/2"},
      {"\\sqrt[3]{x}", "\u221a(x)"},
      {"\\sqrt2", "\u221a(2)"},
      {"\\cos \\theta", "cos\u03b8"},
      {"x^{2}_{i}", "x^2_i"},
      {"7\\,000", "7 000"},
      {"\\triangle ABC", "ABC"},
      {"\\text{a b}", "a b"},
      {"\\left( 2 \\right)", "( 2 )"},
      {"\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "[ 1   2; 3   4 ]"},
      {"\\binom{5}{2}", "52"},
      {"\\mathbb{R}", "\u211d"},
      {"{a", "a"},
      {"a}b", "ab"},
      {"a--b", "a\u2013b"},
      {"\\frac\\pi2", "\u03c0/2"},
      {"\\hat x", "x\u0302"},
      {"\\", ""},
      {"\\begin{array}{cc}1&2\\end{array}", "[ 1   2 ]"},
  };
  for (const Pair& one : cases) EXPECT_EQ(LatexToText(one.given), one.truth) << one.given;
}

TEST(Symbolic, Identities) {
  const Pair equal[] = {
      {"(x+y)^3", "x^3+3x^2y+3xy^2+y^3"},
      {"1/(x-1)-1/(x+1)", "2/(x^2-1)"},
      {"-x^2", "-(x^2)"},
      {"2^-1", "1/2"},
      {"x**2", "x*x"},
      {"sqrt(4x)", "2sqrt(x)"},
      {"2pi/4", "pi/2"},
      {"ln(4)", "2ln(2)"},
      {"0.5x", "x/2"},
      {"12345678901234567890123x", "x*12345678901234567890123"},
      {"0.1*10", "1.0"},
      {"1/2x", "x/2"},
      {"x^1/2", "x/2"},
      {"2^x*2", "2^(x+1)"},
      {"1e2", "100.0"},
  };
  for (const Pair& one : equal)
    EXPECT_TRUE(AreEqualExpressions(one.given, one.truth)) << one.given << " | " << one.truth;
  const Pair different[] = {
      {"x", "x+1/1000000000000000000000"},
      {"x", "y"},
      {"sqrt(2)", "1.41421356"},
      {"x^2", "x^3"},
      {"2305843009213693951x", "0x"},
      {"1//2", "1/2"},
      {"", ""},
      {"x+", "x"},
      {"(x", "x"},
      {"x)", "x"},
      {"x=1", "1"},
      {"1..2", "1.2"},
      {"1.2.3", "1.23"},
      {"x_1", "x1"},
      {"|x|", "x"},
      {"1/((-2)**127)+0.5", "0.25"},
      {"1/(x-x)", "1/(x-x)"},
      {"sqrt(ab)", "sqrt(a)sqrt(b)"},
      {"0^-1", "0^-1"},
  };
  for (const Pair& one : different)
    EXPECT_FALSE(AreEqualExpressions(one.given, one.truth)) << one.given << " | " << one.truth;
}

std::string Repeat(const std::string& what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += what;
  return out;
}

// Each takes milliseconds; quadratic time would be minutes. The time of this process alone counts.
TEST(Grade, HostileAnswersEndSoon) {
  const std::clock_t begin = std::clock();
  for (const int times : {3000, 9900, 300000})
    for (const char* piece : {"{",
                              "}",
                              "(",
                              "\\frac",
                              "\\frac{",
                              "\\sqrt{",
                              "\\sqrt",
                              "-",
                              "^",
                              "x^",
                              "1,",
                              "1,000,",
                              " ",
                              "1 ",
                              "9",
                              "9^",
                              "\\text{",
                              "\\begin{array}",
                              "\\begin{pmatrix}",
                              "\\end{x}",
                              "\\left(",
                              "=",
                              "/",
                              "a/",
                              "degree ",
                              "^ ",
                              "\xff",
                              "\xc3\xa9",
                              "\n",
                              ".",
                              "1.",
                              "(1)",
                              "\\",
                              "$",
                              "-("}) {
      const std::string text = Repeat(piece, times / static_cast<int>(std::string(piece).size()));
      EXPECT_FALSE(GradeAnswer(text, "17/4")) << piece;
      EXPECT_FALSE(GradeAnswer("17/4", text)) << piece;
      GradeAnswer(text + "1" + text, text + "2");
      ExtractBoxed("\\boxed{" + text);
    }
  EXPECT_LT(std::clock() - begin, 60 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace nxdkit::trainer
