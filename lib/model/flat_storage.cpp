#include "model/flat_storage.hpp"

#include <utility>

namespace ppctl {

bool has_storage(const at::Tensor& flat) { return flat.numel() == 0 || flat.storage().nbytes() != 0; }

void release_storage(const at::Tensor& flat) { flat.storage().unsafeGetStorageImpl()->reset(); }

void restore_storage(const at::Tensor& flat) {
  if (has_storage(flat)) return;
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  const std::size_t bytes = static_cast<std::size_t>(flat.numel()) * flat.element_size();
  storage->set_data_ptr_noswap(c10::GetAllocator(flat.device().type())->allocate(bytes));
  storage->set_nbytes(bytes);
}

}  // namespace ppctl
