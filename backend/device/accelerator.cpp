// Torch knows one accelerator in a process, and takes a registered PrivateUse1 device for it, whatever else is there.
// Its autograd engine then finds no stream for a node on a CUDA device and stops ("opt_ready_stream &&
// opt_parent_stream", pytorch/pytorch#161129): to install a device would break every backward on CUDA tensors, whether
// it is used or not.
//
// Lazuli needs no streams of the engine's, since recording has an order of its own. So where torch has a GPU, the
// engine is told what is true: that GPU is the accelerator, and lazuli is none. The two questions that it asks are
// calls between shared libraries, and their entries in libtorch_cpu's table of imported functions are pointed here.
// Where the table does not look as expected (another torch, another linker) all stays as torch made it.
#include <cstring>
#include <string_view>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceType.h>
#include <elf.h>
#include <link.h>

namespace lazuli::backend {
namespace {

bool torch_has_gpu() {
  static const bool has = at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
  return has;
}

bool is_privateuse1_backend_registered() { return !torch_has_gpu() && c10::is_privateuse1_backend_registered(); }
bool is_accelerator(c10::DeviceType type) {
  return !(type == c10::kPrivateUse1 && torch_has_gpu()) && at::accelerator::isAccelerator(type);
}

struct Replacement {
  std::string_view symbol;
  void* function;
};
const Replacement kReplacements[] = {
    {"_ZN3c1033is_privateuse1_backend_registeredEv", reinterpret_cast<void*>(&is_privateuse1_backend_registered)},
    {"_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE", reinterpret_cast<void*>(&is_accelerator)},
};

// The parts of a loaded library's dynamic section that name its imported functions.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * slots = nullptr;
  size_t bytes = 0;

  explicit Imports(const dl_phdr_info& library) {
    for (int i = 0; i < library.dlpi_phnum; ++i) {
      if (library.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      auto* d = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
      for (; d->d_tag != DT_NULL; ++d) {
        if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
        if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(d->d_un.d_ptr);
        if (d->d_tag == DT_JMPREL) slots = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
        if (d->d_tag == DT_PLTRELSZ) bytes = d->d_un.d_val;
      }
    }
  }
};

int replace_in(dl_phdr_info* library, size_t, void*) {
  if (!std::string_view(library->dlpi_name).ends_with("/libtorch_cpu.so")) return 0;
  const Imports imports(*library);
  if (!imports.symbols || !imports.names || !imports.slots) return 1;
  for (size_t i = 0; i < imports.bytes / sizeof(ElfW(Rela)); ++i) {
    const ElfW(Rela)& slot = imports.slots[i];
    const std::string_view name = imports.names + imports.symbols[ELF64_R_SYM(slot.r_info)].st_name;
    for (const Replacement& r : kReplacements)
      if (name == r.symbol) *reinterpret_cast<void**>(library->dlpi_addr + slot.r_offset) = r.function;
  }
  return 1;
}

const bool replaced = [] {
  dl_iterate_phdr(&replace_in, nullptr);
  return true;
}();

}  // namespace
}  // namespace lazuli::backend
