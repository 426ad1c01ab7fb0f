#pragma once

#include "model/aten.hpp"

namespace ppctl {

/// Memory of a flat buffer that comes and goes below its views: they keep their address in the storage, so that layers
/// bind to them once. A tensor without storage must not be read or written.

/// Frees the memory of a flat buffer. Nothing where it has none.
void release_storage(const at::Tensor& flat);
/// Gives a flat buffer memory again, not initialised; the old address is not kept. Nothing where it has some.
void restore_storage(const at::Tensor& flat);
bool has_storage(const at::Tensor& flat);

}  // namespace ppctl
