// The Python line that is executing, for messages and explain(). Found through Python's C API in the running process,
// so that the plugin needs no particular Python; in a process without Python every line is unknown.
#pragma once
#include <cstdint>
#include <string>

namespace lazuli::lazy {

// Interned number of the innermost user line (frames inside torch are skipped) of this thread; 0 = unknown. Takes the
// interpreter lock: call with no lock of ours held but the recorder's (mutex.h).
uint32_t current_line();
// Until it is called with an empty text, current_line() of this thread is this line.
void set_line(const std::string& line);
// The name of the innermost Python function of this thread, of torch or not; empty if unknown. As current_line().
std::string current_function();
// While it lives, this thread does not hold the interpreter lock, if it held it before.
class WithoutPython {
 public:
  WithoutPython();
  ~WithoutPython();
  WithoutPython(const WithoutPython&) = delete;

 private:
  void* state_ = nullptr;
};

// "script.py:12"; empty for 0.
std::string line_text(uint32_t line);

}  // namespace lazuli::lazy
