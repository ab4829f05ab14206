// Grades the answer to a math problem in three stages, each more tolerant than the one before, with
// the verdicts of the reference (MathRuler, whose grader is that of PRM800K).
#pragma once

#include <string>
#include <string_view>

namespace nxdkit::trainer {

// `given` by the model, `truth` from the data. The stages: equal in the form of the MATH data set;
// equal in a second form (units, thousands commas, LaTeX as text, lower case); element by element
// of a tuple or interval: equal fractions as text, no expression for an integer, else equal as
// expressions (trainer/reward/symbolic.h). For an answer over 10 000 bytes only the first stage is
// tried. Linear in the length of both.
bool GradeAnswer(std::string_view given, std::string_view truth);

// The second form, for the tests.
std::string NormalizeAnswer(std::string_view answer);

}  // namespace nxdkit::trainer
