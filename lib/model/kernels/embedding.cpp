#include "model/kernels/embedding.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

template <class T>
PPCTL_VECTORISED void add_row(Accumulator<T>* sum, const T* row, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] += static_cast<Accumulator<T>>(row[i]);
}

template <class A>
void add_sum(A* out, const std::vector<A>& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) out[i] += sum[i];
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& table, const at::Tensor& ids) {
  std::vector<std::int64_t> sizes = ids.sizes().vec();
  sizes.push_back(table.size(1));
  at::Tensor out = at::empty(sizes, table.options());
  const auto* id = elements<std::int64_t>(ids);
  const std::size_t row_bytes = table.size(1) * table.element_size();
  const auto* from = static_cast<const std::byte*>(table.data_ptr());
  auto* to = static_cast<std::byte*>(out.data_ptr());
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    if (id[i] < 0 || id[i] >= table.size(0)) {
      throw_error("id {} of token {} of a microbatch is outside of the table of {} rows", id[i], i, table.size(0));
    }
    std::memcpy(to + i * row_bytes, from + id[i] * row_bytes, row_bytes);
  }
  return out;
}

void scatter_add_rows(const at::Tensor& table_grad, const at::Tensor& ids, const at::Tensor& dy) {
  const auto* id = elements<std::int64_t>(ids);
  const std::int64_t dim = table_grad.size(1);
  std::vector<std::int64_t> order(ids.numel());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [id](std::int64_t a, std::int64_t b) { return id[a] < id[b]; });
  for_dtype(dy.scalar_type(), [&]<class T>() {
    std::vector<Accumulator<T>> sum(dim);
    for (std::size_t first = 0; first < order.size();) {
      std::fill(sum.begin(), sum.end(), Accumulator<T>(0));
      const std::int64_t row = id[order[first]];
      for (; first < order.size() && id[order[first]] == row; ++first) {
        add_row<T>(sum.data(), elements<T>(dy) + order[first] * dim, dim);
      }
      add_sum(elements<Accumulator<T>>(table_grad) + row * dim, sum);
    }
  });
}

void add_row_sum(const at::Tensor& bias_grad, const at::Tensor& dy) {
  const std::int64_t n = bias_grad.numel();
  for_dtype(dy.scalar_type(), [&]<class T>() {
    std::vector<Accumulator<T>> sum(n);
    for (std::int64_t row = 0; row < dy.numel() / n; ++row) add_row<T>(sum.data(), elements<T>(dy) + row * n, n);
    add_sum(elements<Accumulator<T>>(bias_grad), sum);
  });
}

}  // namespace ppctl::kernels
