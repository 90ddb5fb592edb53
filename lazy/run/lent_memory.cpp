#include "lazy/run/lent_memory.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/record/recording.h"
#include "lazy/run/sync.h"
#include "lazy/support/mutex.h"
#include "lazy/trace/storage.h"

namespace lazuli::lazy {
namespace {

// What is lent now, by its first address.
struct Register {
  Mutex mutex{Rank::Leaf};
  std::map<uintptr_t, LentMemory*> by_address;

  static Register& get() {
    static auto* r = new Register;  // outlives every thread
    return *r;
  }
  LentMemory* find(const void* address) {
    std::lock_guard lock(mutex);
    const auto a = reinterpret_cast<uintptr_t>(address);
    auto after = by_address.upper_bound(a);
    if (after == by_address.begin()) return nullptr;
    const auto& [first, memory] = *std::prev(after);
    return a - first < memory->bytes() ? memory : nullptr;
  }
};

struct sigaction others;  // who handled faults before

// Whoever it is, such as Python's faulthandler, may have kept us as the one before him, and give the fault back.
void hand_on(int signal, siginfo_t* info, void* context) {
  static std::atomic<const void*> given = nullptr;
  if (given.exchange(info->si_addr) == info->si_addr) others = {};  // the default action: the process ends
  if (others.sa_flags & SA_SIGINFO) return others.sa_sigaction(signal, info, context);
  if (others.sa_handler != SIG_DFL && others.sa_handler != SIG_IGN) return others.sa_handler(signal);
  sigaction(signal, &others, nullptr);  // the instruction faults again
}

bool is_write([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // of a page fault's error code
  return static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite;
#else
  return true;
#endif
}

void tell(const char* why) {
  std::fprintf(stderr, "lazuli: what is read at the address of a tensor could not be computed: %s\n", why);
}

// The fault is a call, as it were, from an instruction that touches memory of nobody else: no lock of ours or of the
// allocator's is held half way.
void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  LentMemory* memory = Register::get().find(info->si_addr);
  if (!memory) return hand_on(signal, info, context);
  try {
    memory->open(is_write(context));
    errno = error;
    return;
  } catch (const c10::Error& e) {
    tell(e.what_without_backtrace());
  } catch (const std::exception& e) {
    tell(e.what());
  }
  hand_on(signal, info, context);
}

// Asked for at each lending: somebody may have taken faults over since the last one.
void handle_faults() {
  struct sigaction now{};
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == &on_fault) return;
  struct sigaction ours{};
  ours.sa_sigaction = &on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER;  // computing may fault on other lent memory
  sigemptyset(&ours.sa_mask);
  others = now;
  sigaction(SIGSEGV, &ours, nullptr);
}

void* reserve(void* at, size_t size, int protection) {
  void* data = mmap(at, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
  TORCH_CHECK(data != MAP_FAILED, "lazuli: no addresses for a tensor's memory of ", size,
              " bytes: ", std::strerror(errno));
  return data;
}

// Between a buffer and memory of the host; done when it returns.
void copy(void* to, void* from, size_t bytes, bool to_host) {
  if (backing().shares_host_memory) {
    std::memcpy(to, from, bytes);
    return;
  }
  c10::impl::ExcludeDispatchKeyGuard no_modes(c10::python_ks);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto size = static_cast<int64_t>(bytes);
  const at::Tensor host = at::from_blob(to_host ? to : from, {size}, at::kByte);
  const at::Tensor buffer = tensor_over(to_host ? from : to, {size}, {1}, at::kByte, nullptr);
  (to_host ? host : buffer).copy_(to_host ? buffer : host);
  backing().wait();
}

}  // namespace

LentMemory::LentMemory(LazyStorage& owner, size_t bytes) : owner_(owner), bytes_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_ = (bytes + page - 1) / page * page;
  data_ = reserve(nullptr, size_, PROT_NONE);
  std::lock_guard lock(Register::get().mutex);
  handle_faults();
  Register::get().by_address.emplace(reinterpret_cast<uintptr_t>(data_), this);
}

LentMemory::~LentMemory() {
  {
    std::lock_guard lock(Register::get().mutex);
    Register::get().by_address.erase(reinterpret_cast<uintptr_t>(data_));
  }
  munmap(data_, size_);
}

void LentMemory::open(bool to_write) {
  std::lock_guard lock(recorder().mutex);
  if (state_ == State::Closed) {
    const jit::Buffer now = materialize_alone(owner_);
    void* filled = reserve(nullptr, size_, PROT_READ | PROT_WRITE);  // beside: no other thread may see half of it
    copy(filled, now.data, bytes_, /*to_host=*/true);
    mprotect(filled, size_, PROT_READ);
    mremap(filled, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, data_);
    state_ = State::Readable;
  }
  if (to_write && state_ == State::Readable) {
    mprotect(data_, size_, PROT_READ | PROT_WRITE);
    state_ = State::Written;
  }
}

CellRef LentMemory::take(const ir::Type& type) {
  mprotect(data_, size_, PROT_READ);  // before it is copied: who writes meanwhile faults
  state_ = State::Readable;
  jit::Buffer taken = allocate_buffer(bytes_);
  copy(taken.data, data_, bytes_, /*to_host=*/false);
  return make_ready(std::move(taken), type);
}

void LentMemory::close() {
  if (state_ == State::Closed) return;
  reserve(data_, size_, PROT_NONE);
  state_ = State::Closed;
}

int64_t lend_address(const at::Tensor& t) {
  if (t.numel() == 0) return 0;
  std::lock_guard lock(recorder().mutex);
  return reinterpret_cast<int64_t>(storage_of(t).lend()) + t.storage_offset() * static_cast<int64_t>(t.itemsize());
}

}  // namespace lazuli::lazy
