#include "lazy/report/moved_again.h"

#include <array>
#include <mutex>
#include "lazy/memory/torch_buffers.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"
#include "lazy/support/mutex.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {

// What was copied: which piece of which memory, and how often its tensor had been written.
struct Move {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // of a storage that is gone another one may have the address
  const void* data;
  int64_t elements;
  uint32_t version;

  bool is(const at::Tensor& t, uint32_t now) const {
    return data == t.const_data_ptr() && elements == t.numel() && version == now &&
           storage._unsafe_get_target() == t.storage().unsafeGetStorageImpl() && !storage.expired();
  }
};

struct Moves {
  Mutex mutex{Rank::Leaf};
  std::array<std::optional<Move>, 8> last;
  size_t next = 0;
};
Moves& moves() {
  static auto* m = new Moves;  // outlives every thread
  return *m;
}

bool is_again(const at::Tensor& host) {
  const uint32_t version = host.is_inference() ? 0 : static_cast<uint32_t>(host._version());
  std::optional<Move> forgotten;  // after the lock
  Moves& m = moves();
  std::lock_guard lock(m.mutex);
  for (const auto& move : m.last)
    if (move && move->is(host, version)) return true;
  forgotten =
      std::exchange(m.last[m.next], Move{c10::weak_intrusive_ptr<c10::StorageImpl>(host.storage().getWeakStorageImpl()),
                                         host.const_data_ptr(), host.numel(), version});
  m.next = (m.next + 1) % m.last.size();
  return false;
}

}  // namespace

void note_move(const at::Tensor& host) {
  if (!config().source_lines || !host.is_cpu() || !host.has_storage() || host.numel() == 0) return;
  // Memory of somebody else, such as an array of numpy, may change without torch's knowing.
  if (!is_of_torch_on_host(host) || !is_again(host)) return;
  metrics().noticed("moved again", "a CPU tensor that has not changed", line_text(current_line()));
}

}  // namespace lazuli::lazy
