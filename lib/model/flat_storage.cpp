#include "model/flat_storage.hpp"

#include <utility>

namespace ppctl {

// The storage keeps its nominal size: making a view checks that, not whether there is memory.

bool has_storage(const at::Tensor& flat) { return flat.numel() == 0 || flat.storage().data() != nullptr; }

void release_storage(const at::Tensor& flat) {
  flat.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, flat.device()));
}

void restore_storage(const at::Tensor& flat) {
  if (has_storage(flat)) return;
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::GetAllocator(flat.device().type())->allocate(storage->nbytes()));
}

}  // namespace ppctl
