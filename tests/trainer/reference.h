// PRIVATE to tests. The kernels' results, computed in f64 with Eigen: shares no code with them.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer::reference {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

// [rows, columns] of `values` from element `at` on, rows `stride` elements apart.
template <typename T>
Matrix Take(const std::vector<T>& values, int64_t at, int64_t rows, int64_t columns,
            int64_t stride) {
  NXDKIT_CHECK(rows == 0 || at + (rows - 1) * stride + columns <= std::ssize(values));
  using Plain = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using View = Eigen::Map<const Plain, 0, Eigen::OuterStride<>>;
  return View(values.data() + at, rows, columns, Eigen::OuterStride<>(stride))
      .template cast<double>();
}

// Each row: x / sqrt(mean(x^2) + eps) * weight.
inline Matrix RmsNorm(const Matrix& x, const Vector& weight, double eps) {
  const Vector scale = (x.rowwise().squaredNorm().array() / double(x.cols()) + eps).rsqrt();
  return scale.asDiagonal() * x * weight.asDiagonal();
}

// Normalises each row to numbers that add up to 1.
inline Matrix Softmax(const Matrix& x) {
  Matrix out = (x.colwise() - x.rowwise().maxCoeff()).array().exp();
  out.array().colwise() /= out.array().rowwise().sum().eval();
  return out;
}

// One head of causal attention: q [T, D], k and v [S, D]; the last query sees all keys, the one
// before it all but one, and so on.
// `window`: how many keys a row sees, including its own; 0: all.
inline Matrix Attention(const Matrix& q, const Matrix& k, const Matrix& v, int64_t window = 0) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  Matrix scores = q * k.transpose() / std::sqrt(double(q.cols()));
  for (int64_t t = 0; t < scores.rows(); ++t)
    scores.row(t).tail(scores.rows() - 1 - t).setConstant(kHidden);
  for (int64_t t = 0; window > 0 && t < scores.rows(); ++t)
    scores.row(t)
        .head(std::max<int64_t>(0, scores.cols() - scores.rows() + t + 1 - window))
        .setConstant(kHidden);
  return Softmax(scores) * v;
}

}  // namespace nxdkit::trainer::reference
