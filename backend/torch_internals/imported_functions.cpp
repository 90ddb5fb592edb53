#include "backend/torch_internals/imported_functions.h"

#include <cstddef>
#include <string>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

namespace lazuli::backend {
namespace {

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

// Whether the loader has made that part of the library read-only, as it does for one that is linked with `-z now`.
bool is_read_only(const dl_phdr_info& library, size_t offset) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library.dlpi_phdr[i];
    if (part.p_type == PT_GNU_RELRO && offset >= part.p_vaddr && offset < part.p_vaddr + part.p_memsz) return true;
  }
  return false;
}

struct Search {
  std::string_view symbol;
  const void* address;  // of the function
  void** entry = nullptr;

  // Most functions in the table are the library's own. Those are known by their addresses: to read all names takes
  // milliseconds of a process's start.
  bool is(const ElfW(Sym) & function, const dl_phdr_info& library, const Imports& imports) const {
    if (function.st_shndx == SHN_UNDEF) return symbol == imports.names + function.st_name;
    return reinterpret_cast<const void*>(library.dlpi_addr + function.st_value) == address;
  }
};

int search_in(dl_phdr_info* library, size_t, void* data) {
  if (!std::string_view(library->dlpi_name).ends_with("/libtorch_cpu.so")) return 0;
  auto& search = *static_cast<Search*>(data);
  const Imports imports(*library);
  if (!imports.symbols || !imports.names || !imports.slots) return 1;
  for (size_t i = 0; i < imports.bytes / sizeof(ElfW(Rela)); ++i) {
    const ElfW(Rela)& slot = imports.slots[i];
    const ElfW(Sym)& function = imports.symbols[ELF64_R_SYM(slot.r_info)];
    if (!search.is(function, *library, imports)) continue;
    if (!is_read_only(*library, slot.r_offset))
      search.entry = reinterpret_cast<void**>(library->dlpi_addr + slot.r_offset);
    break;
  }
  return 1;
}

}  // namespace

void** find_import(std::string_view symbol) {
  Search search{symbol, dlsym(RTLD_DEFAULT, std::string(symbol).c_str())};
  dl_iterate_phdr(&search_in, &search);
  return search.entry;
}

}  // namespace lazuli::backend
