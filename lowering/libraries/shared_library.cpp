#include "lowering/libraries/shared_library.h"
#include <cstdlib>
#include <stdexcept>
#include <dlfcn.h>

namespace lazuli::lowering {
namespace {

std::string last_error() {
  const char* error = dlerror();
  return error ? error : "unknown error";
}

}  // namespace

SharedLibrary::SharedLibrary(const char* soname) : soname_(soname) {
  handle_ = dlopen(soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (!handle_) handle_ = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
  if (handle_) return;
  std::string tried = last_error();
  if (const char* folder = std::getenv("LAZULI_CUDA_LIBRARIES")) {
    handle_ = dlopen((std::string(folder) + "/" + soname).c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle_) return;
    tried += "; " + last_error();
  } else {
    tried += "; LAZULI_CUDA_LIBRARIES, a folder to look in, is not set";
  }
  throw std::runtime_error("Lazuli needs " + soname_ + ", which was not found: " + tried);
}

void* SharedLibrary::symbol(const char* name) const {
  if (void* found = dlsym(handle_, name)) return found;
  throw std::runtime_error(soname_ + " has no " + name + ": it is another version than Lazuli was built for");
}

}  // namespace lazuli::lowering
