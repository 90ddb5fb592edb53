// Resizing storages, for resize_ and torch's UntypedStorage.resize_.
#pragma once
#include <c10/core/StorageImpl.h>

namespace lazuli::backend {
void resize_storage_bytes(c10::StorageImpl* storage, size_t bytes);
}
