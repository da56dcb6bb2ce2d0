// SPDX-License-Identifier: Apache-2.0
#include "ops/product_rate.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/formatted.h"
#include "hydramix/error.h"
#include "hydramix/torch_compat.h"
#include "kernels/cpu/fma.h"
#include "kernels/cpu/isa.h"
#include "ops/parallel.h"
#include "ops/product.h"

namespace hydramix {
namespace {

template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double fma_gflops() {
  constexpr int64_t kRounds = 50'000;  // a quarter of a millisecond
  const int64_t threads = torch::get_num_threads();
  std::atomic<double> operations = 0;
  const double time = seconds([&] {
    parallel(threads, [&](int64_t) { operations = kernels::fused_multiply_adds(kRounds); });
  });
  return 1e-9 * operations * static_cast<double>(threads) / time;
}

template <class Answer>
Answer openblas(const char* name) {
  auto* function = reinterpret_cast<Answer (*)()>(dlsym(RTLD_DEFAULT, name));
  return function == nullptr ? Answer{} : function();
}

}  // namespace

ProductRates measure_product_rates() {
  const torch::NoGradGuard no_grad;
  constexpr int64_t m = 512, k = 768, n = 1536;
  const double flops = 2e-9 * m * n * k;
  const auto a = torch::ones({m, k}), b = torch::ones({k, n});
  auto c = torch::empty({m, n});
  kernels::use_instruction_set_of_environment();
  const std::string chosen = kernels::instruction_set();
  ProductRates rates;
  double spent = 0;
  // An idle core takes a while to reach its full clock.
  for (int round = 0; round < 4 || (spent < 0.1 && round < 20); ++round) {
    kernels::use_instruction_set("");  // the peak is that of the machine
    for (int i = 0; i < 8; ++i) rates.fma_peak = std::max(rates.fma_peak, fma_gflops());
    kernels::use_instruction_set(chosen);
    const double ours = seconds([&] { matrix_product_into(c, a, b); });
    const double libtorch = seconds([&] { torch::mm_out(c, a, b); });
    rates.ours = std::max(rates.ours, flops / ours);
    rates.libtorch = std::max(rates.libtorch, flops / libtorch);
    spent += ours + libtorch;
  }
  return rates;
}

std::string libtorch_blas() {
  Dl_info info{};
  void* gemm = dlsym(RTLD_DEFAULT, "sgemm_");
  if (gemm == nullptr || dladdr(gemm, &info) == 0 || info.dli_fname == nullptr)
    return "inside LibTorch";
  std::error_code unknown;
  const auto file = std::filesystem::canonical(info.dli_fname, unknown);
  std::string text = unknown ? info.dli_fname : file.string();
  if (const auto* config = openblas<const char*>("openblas_get_config"))
    text += concat(" (", config, ")");
  return text;
}

std::vector<std::string> product_warnings(const ProductRates& rates) {
  std::vector<std::string> warnings;
  const auto per_cent = [&](double rate) {
    return formatted("%.0f %%", 100 * rate / rates.fma_peak);
  };
  if (rates.ours < rates.fma_peak / 2) {
    const char* forced = std::getenv("HYDRAMIX_ISA");
    const std::string remedy =
        forced != nullptr && *forced != '\0'
            ? concat("HYDRAMIX_ISA=", forced, " holds the kernels back: unset it.")
            : std::string("Something else is using the cores, or their clock is held down.");
    warnings.push_back(concat("matrix products reach ", per_cent(rates.ours),
                              " of what this CPU could do. ", remedy));
  }
  if (rates.libtorch < rates.fma_peak / 2) {
    const char* core = openblas<const char*>("openblas_get_corename");
    const auto sets = kernels::instruction_sets();
    const bool wide = std::any_of(sets.begin(), sets.end(),
                                  [](const std::string& set) { return set.starts_with("AVX3"); });
    const std::string remedy =
        core == nullptr
            ? std::string("Nothing of ours uses them.")
            : concat(
                  "OpenBLAS took its kernels for ", core,
                  ". Nothing of ours uses them; a program that does should set OPENBLAS_CORETYPE=",
                  wide ? "SKYLAKEX" : "HASWELL", " before it starts.");
    warnings.push_back(concat("LibTorch's own products reach ", per_cent(rates.libtorch),
                              " of what this CPU could do. ", remedy));
  }
  return warnings;
}

}  // namespace hydramix
