// Memory for the accesses of a loop nest under test. Each buffer ends (or begins) at a page that cannot be touched,
// so that an access outside it ends the test at once.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/interpret/scalar.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::testing {

class GuardedBuffer {
 public:
  GuardedBuffer(size_t bytes, bool guard_after) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (bytes + page - 1) / page * page;
    mapped_ = body + 2 * page;
    map_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_, page, PROT_NONE);
    mprotect(map_ + page + body, page, PROT_NONE);
    data_ = guard_after ? map_ + page + body - bytes : map_ + page;
  }
  ~GuardedBuffer() { munmap(map_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char *map_ = nullptr, *data_ = nullptr;
  size_t bytes_, mapped_ = 0;
};

// Strides and extent of one access, in elements.
struct Placement {
  std::vector<int64_t> strides;
  int64_t index_stride = 0;
  int64_t first = 0;   // element that index 0 of every dimension is
  int64_t extent = 1;  // elements in all
  int64_t in = -1;     // the access whose memory this is too
};

// The arguments of one launch over its own buffers.
class NestMemory {
 public:
  NestMemory(const lowering::LoopNest& nest, std::vector<int64_t> sizes, int64_t block, std::vector<Placement> places,
             std::vector<int64_t> params)
      : nest_(nest), places_(std::move(places)) {
    const lowering::KernelArgsLayout layout(nest);
    args_.resize(layout.total);
    args_[0] = block;
    std::copy(sizes.begin(), sizes.end(), args_.begin() + layout.sizes);
    for (size_t a = 0; a < nest.accesses.size(); ++a) {
      const int64_t item = ir::item_size(nest.accesses[a].dtype);
      buffers_.push_back(places_[a].in >= 0 ? buffers_[places_[a].in]
                                            : std::make_shared<GuardedBuffer>(places_[a].extent * item, a % 2 == 0));
      args_[layout.pointers + a] = reinterpret_cast<int64_t>(buffers_[a]->data() + places_[a].first * item);
      std::copy(places_[a].strides.begin(), places_[a].strides.end(), args_.begin() + layout.strides + a * nest.rank);
      args_[layout.index_strides + a] = places_[a].index_stride;
    }
    std::copy(params.begin(), params.end(), args_.begin() + layout.params);
  }

  const int64_t* args() const { return args_.data(); }
  char* data(size_t access) { return buffers_[access]->data(); }
  int64_t count(size_t access) const { return places_[access].extent; }
  ir::Number get(size_t access, int64_t i) const {
    const ir::DType t = nest_.accesses[access].dtype;
    return ir::load_number(buffers_[access]->data() + i * ir::item_size(t), t);
  }
  void set(size_t access, int64_t i, ir::Number x) {
    const ir::DType t = nest_.accesses[access].dtype;
    ir::store_number(buffers_[access]->data() + i * ir::item_size(t), t, x);
  }
  void copy_from(const NestMemory& other) {
    for (size_t a = 0; a < buffers_.size(); ++a)
      std::memcpy(buffers_[a]->data(), other.buffers_[a]->data(), buffers_[a]->bytes());
  }

  // Empty when both hold the same numbers: NaNs alike, signed zeros apart.
  std::string difference(const NestMemory& other) const {
    for (size_t a = 0; a < buffers_.size(); ++a)
      for (int64_t i = 0; i < count(a); ++i) {
        const ir::Number x = get(a, i), y = other.get(a, i);
        const bool nans = std::isnan(x.f) && std::isnan(y.f);
        if (x.i == y.i && (nans || (x.f == y.f && std::signbit(x.f) == std::signbit(y.f)))) continue;
        return "access " + std::to_string(a) + " element " + std::to_string(i) + ": " +
               (ir::is_floating(nest_.accesses[a].dtype) ? std::to_string(x.f) + " against " + std::to_string(y.f)
                                                         : std::to_string(x.i) + " against " + std::to_string(y.i));
      }
    return "";
  }

 private:
  const lowering::LoopNest& nest_;
  std::vector<Placement> places_;
  std::vector<std::shared_ptr<GuardedBuffer>> buffers_;
  std::vector<int64_t> args_;
};

}  // namespace lazuli::testing
