// SPDX-License-Identifier: Apache-2.0
#include "models/matrix_picture.h"

namespace hydramix {
namespace {

double usual_magnitude(const torch::Tensor& M) {
  if (M.size(0) == 1) return M.abs().max().item<double>();
  const auto off = M.abs().masked_select(~torch::eye(M.size(0), torch::kBool));
  return std::get<0>(off.kthvalue(1 + (off.numel() - 1) * 99 / 100)).item<double>();
}

}  // namespace

MatrixPicture matrix_picture(const std::string& title, const torch::Tensor& M, double scale) {
  const auto values = M.contiguous();
  MatrixPicture picture;
  picture.title = title;
  picture.rows = values.size(0);
  picture.cols = values.size(1);
  picture.values.assign(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
  picture.scale = scale > 0 ? scale : usual_magnitude(values);
  return picture;
}

double share_of_others(const torch::Tensor& M) {
  const double all = M.abs().sum().item<double>();
  return all > 0 ? 1 - M.diagonal().abs().sum().item<double>() / all : 0;
}

}  // namespace hydramix
