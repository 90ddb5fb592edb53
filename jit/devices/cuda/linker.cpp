#include "jit/devices/cuda/linker.h"
#include <cstdint>
#include <stdexcept>
#include "lowering/libraries/shared_library.h"

namespace lazuli::jit::cuda {
namespace {

// nvJitLink's C interface (nvJitLink.h, CUDA 12 and 13).
using Handle = void*;
using Result = int;
constexpr int kPtx = 2;  // NVJITLINK_INPUT_PTX
struct Library {
  Result (*create)(Handle*, uint32_t, const char**);
  Result (*destroy)(Handle*);
  Result (*add_data)(Handle, int, const void*, size_t, const char*);
  Result (*complete)(Handle);
  Result (*cubin_size)(Handle, size_t*);
  Result (*cubin)(Handle, void*);
  Result (*error_size)(Handle, size_t*);
  Result (*error)(Handle, char*);
  Result (*info_size)(Handle, size_t*);
  Result (*info)(Handle, char*);
  Result (*version)(unsigned*, unsigned*);
};

lowering::SharedLibrary open() {
  try {
    return lowering::SharedLibrary("libnvJitLink.so.13");  // torch's CUDA packages bring it
  } catch (const std::runtime_error& missing) {
    try {
      return lowering::SharedLibrary("libnvJitLink.so.12");
    } catch (const std::runtime_error&) {
      throw missing;
    }
  }
}

const Library& library() {
  static const Library loaded = [] {
    const lowering::SharedLibrary l = open();
    Library f{};
    l.find(f.create, "nvJitLinkCreate");
    l.find(f.destroy, "nvJitLinkDestroy");
    l.find(f.add_data, "nvJitLinkAddData");
    l.find(f.complete, "nvJitLinkComplete");
    l.find(f.cubin_size, "nvJitLinkGetLinkedCubinSize");
    l.find(f.cubin, "nvJitLinkGetLinkedCubin");
    l.find(f.error_size, "nvJitLinkGetErrorLogSize");
    l.find(f.error, "nvJitLinkGetErrorLog");
    l.find(f.info_size, "nvJitLinkGetInfoLogSize");
    l.find(f.info, "nvJitLinkGetInfoLog");
    l.find(f.version, "nvJitLinkVersion");
    return f;
  }();
  return loaded;
}

std::string text(Handle h, Result (*size_of)(Handle, size_t*), Result (*get)(Handle, char*)) {
  size_t size = 0;
  if (size_of(h, &size) != 0 || size <= 1) return {};
  std::string s(size, '\0');
  if (get(h, s.data()) != 0) return {};
  s.resize(size - 1);
  return s;
}

struct Session {
  Handle handle = nullptr;
  ~Session() {
    if (handle) library().destroy(&handle);
  }
};

}  // namespace

Linked link(const std::string& ptx, int capability) {
  const Library& l = library();
  const std::string arch = "-arch=sm_" + std::to_string(capability);
  const char* options[] = {arch.c_str(), "-verbose"};
  Session session;
  if (l.create(&session.handle, 2, options) != 0) throw std::runtime_error("nvJitLink does not know " + arch);
  Result r = l.add_data(session.handle, kPtx, ptx.c_str(), ptx.size() + 1, "kernel");
  if (r == 0) r = l.complete(session.handle);
  if (r != 0) throw std::runtime_error("nvJitLink refused a kernel: " + text(session.handle, l.error_size, l.error));
  Linked out;
  size_t size = 0;
  l.cubin_size(session.handle, &size);
  out.cubin.resize(size);
  l.cubin(session.handle, out.cubin.data());
  out.log = text(session.handle, l.info_size, l.info);
  return out;
}

std::string linker_version() {
  unsigned major = 0, minor = 0;
  library().version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace lazuli::jit::cuda
