#include "lazy/support/python_call.h"

#include <stdexcept>
#include <string>
#include "lazy/support/python.h"

namespace lazuli::lazy {
namespace {

class Interpreter {
 public:
  Interpreter() : state_(python().ensure()) {}
  ~Interpreter() { python().release(state_); }
  Interpreter(const Interpreter&) = delete;

 private:
  int state_;
};

// The pending error's, which is taken away.
std::string error_text() {
  void *type = nullptr, *value = nullptr, *traceback = nullptr;
  python().fetch_error(&type, &value, &traceback);
  void* const text = value ? python().text(value) : nullptr;
  const char* const letters = text ? python().utf8(text) : nullptr;
  std::string said = letters ? letters : "an error without a text";
  python().clear_error();
  for (void* object : {text, type, value, traceback}) python().decref(object);
  return said;
}

}  // namespace

void call_python(const char* module, const char* function, long argument) {
  if (!python().usable()) throw std::runtime_error("no Python interpreter runs here");
  const Interpreter held;
  void* const found = python().import(module);
  void* const callee = found ? python().attribute(found, function) : nullptr;
  void* const result = callee ? python().call(callee, "l", argument) : nullptr;
  const std::string error = result ? "" : error_text();
  for (void* object : {found, callee, result}) python().decref(object);
  if (!result) throw std::runtime_error(std::string(module) + "." + function + ": " + error);
}

}  // namespace lazuli::lazy
