// A vendor's shared library that is found when it is first needed, so that nothing of it is linked: the same binary
// runs on machines without it.
#pragma once
#include <string>

namespace lazuli::lowering {

class SharedLibrary {
 public:
  // Takes the copy that the process has loaded already (torch brings its own), or else what the loader finds by
  // `soname`, or the file of that name in the folder LAZULI_CUDA_LIBRARIES. Throws std::runtime_error saying what was
  // tried. Never unloaded: the vendors' libraries keep threads and exit handlers.
  explicit SharedLibrary(const char* soname);

  // Throws std::runtime_error where the library has no such symbol.
  void* symbol(const char* name) const;
  template <class F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(symbol(name));
  }

 private:
  std::string soname_;
  void* handle_ = nullptr;
};

}  // namespace lazuli::lowering
