#include "backend/record/positions.h"

#include <bit>
#include <cstring>
#include <ATen/ops/nonzero.h>
#include "backend/record/dispatch.h"
#include "lazy/external/external.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/record/recording.h"
#include "lazy/record/tape.h"
#include "lazy/run/reads.h"
#include "lazy/run/sync.h"
#include "lazy/support/plain_dispatch.h"
#include "lowering/threads/crew.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using lazy::CellRef;

// Of eight bytes, the highest bit of each that is not zero.
uint64_t marks(const uint8_t* bytes) {
  constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7F;
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return (((word & kLow) + kLow) | word) & ~kLow;
}

int64_t count_marked(const uint8_t* bytes, int64_t begin, int64_t end) {
  int64_t count = 0, i = begin;
  for (; i + 8 <= end; i += 8) count += std::popcount(marks(bytes + i));
  for (; i < end; ++i) count += bytes[i] != 0;
  return count;
}

void list_marked(const uint8_t* bytes, int64_t begin, int64_t end, int64_t* out) {
  int64_t i = begin;
  for (; i + 8 <= end; i += 8)
    for (uint64_t m = marks(bytes + i); m; m &= m - 1) *out++ = i + std::countr_zero(m) / 8;
  for (; i < end; ++i)
    if (bytes[i]) *out++ = i;
}

// Threads count in pieces first, so that each knows where its own begin.
CellRef find_marked(const uint8_t* bytes, int64_t n) {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::vector<int64_t> first(static_cast<size_t>(pieces) + 1, 0);
  const auto each_piece = [&](auto&& f) {
    lowering::share_out(pieces, pieces > 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) f(p, p * kPiece, std::min(n, (p + 1) * kPiece));
    });
  };
  each_piece([&](int64_t p, int64_t begin, int64_t end) { first[p + 1] = count_marked(bytes, begin, end); });
  for (int64_t p = 0; p < pieces; ++p) first[p + 1] += first[p];
  jit::Buffer found = lazy::allocate_buffer(static_cast<size_t>(first.back()) * sizeof(int64_t));
  auto* out = static_cast<int64_t*>(found.data);
  each_piece([&](int64_t p, int64_t begin, int64_t end) { list_marked(bytes, begin, end, out + first[p]); });
  return lazy::make_ready(std::move(found), {ir::DType::I64, {first.back()}});
}

// By torch's kernel: on a GPU, or of numbers.
CellRef find_by_torch(const Tensor& flat) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::nonzero", "");
  lazy::announce(op, "runs as an external call");
  const lazy::ExternalTimer timer("aten::nonzero");
  const Tensor found = at::nonzero(flat).reshape({-1}).contiguous();
  return lazy::make_ready(lazy::buffer_of(found), {ir::DType::I64, {found.numel()}});
}

CellRef find(const Tensor& host) {
  const lazy::PlainDispatch guard;
  if (!lazy::backing().has_host_kernels || host.itemsize() != 1) return find_by_torch(host.reshape({-1}));
  const Tensor dense = host.contiguous();
  return find_marked(static_cast<const uint8_t*>(dense.const_data_ptr()), dense.numel());
}

}  // namespace

Tensor positions_of(const Tensor& mask) {
  lazy::LazyStorage& storage = lazy::storage_of(mask);
  CellRef value;  // nobody writes where it lies while we hold it
  Tensor host;
  {
    std::lock_guard lock(lazy::recorder().mutex);
    if (CellRef known = storage.notes().positions.find(mask)) {
      ++lazy::reads;  // the program goes on as the mask's numbers say, as if it had read them now
      return lazy::make_tensor(std::move(known), at::kLong);
    }
    if (lazy::Tape::current()) throw NotTaped{};
    host = lazy::host_view(mask, lazy::SyncReason::DataDependent);
    value = storage.cell_ref();
  }
  CellRef found = find(host);
  std::lock_guard lock(lazy::recorder().mutex);
  if (storage.cell() == value.get()) storage.notes().positions.add(mask, found);
  return lazy::make_tensor(std::move(found), at::kLong);
}

}  // namespace lazuli::backend
