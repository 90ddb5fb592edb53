#include "lazy/support/source.h"

#include <string_view>
#include <unordered_map>
#include <vector>
#include "lazy/support/mutex.h"
#include "lazy/support/python.h"

namespace lazuli::lazy {
namespace {

bool is_library(std::string_view file) {
  return file.find("/torch/") != file.npos || file.find("/torch_lazuli/") != file.npos || file.starts_with("<frozen");
}

struct Lines {
  Mutex mutex{Rank::Leaf};
  std::unordered_map<std::string, uint32_t> numbers;
  std::vector<std::string> texts{""};
};
Lines& lines() {
  static auto* l = new Lines;
  return *l;
}

uint32_t intern(std::string text) {
  Lines& l = lines();
  std::lock_guard lock(l.mutex);
  auto [it, fresh] = l.numbers.try_emplace(std::move(text), static_cast<uint32_t>(l.texts.size()));
  if (fresh) l.texts.push_back(it->first);
  return it->second;
}

// What is known of a code object; under the interpreter's lock. The map keeps them alive, so that an address means one.
struct Code {
  bool library = false;
  std::string file;
  std::unordered_map<int, uint32_t> lines;  // interned, by line number
  std::unordered_map<int, uint32_t> at;     // likewise by instruction: Python decodes a table to find a line
  uint32_t line_of(const Python& p, void* frame);
};
uint32_t Code::line_of(const Python& p, void* frame) {
  const auto find = [&] {
    const int number = p.line(frame);
    auto [it, fresh] = lines.try_emplace(number, 0);
    if (fresh) it->second = intern(file + ":" + std::to_string(number));
    return it->second;
  };
  const int instruction = p.instruction ? p.instruction(frame) : -1;
  if (instruction < 0) return find();
  auto [it, fresh] = at.try_emplace(instruction, 0);
  if (fresh) it->second = find();
  return it->second;
}
Code* known_code(void* object) {
  constexpr size_t kMost = 20'000;  // code made at run time without end is not remembered without end
  static auto* codes = new std::unordered_map<void*, Code>;
  const Python& p = python();
  auto it = codes->find(object);
  if (it != codes->end()) return &it->second;
  if (codes->size() >= kMost) {
    for (auto& [known, code] : *codes) p.decref(known);
    codes->clear();
  }
  Code code;
  if (void* name = p.attribute(object, "co_filename")) {
    if (const char* s = p.utf8(name)) code.file = s;
    p.decref(name);
  }
  code.library = is_library(code.file);
  p.incref(object);
  return &codes->emplace(object, std::move(code)).first->second;
}

// 0 for a frame of a library.
uint32_t line_of(void* frame) {
  const Python& p = python();
  void* object = p.code(frame);
  if (!object) return 0;
  Code* code = known_code(object);
  uint32_t result = 0;
  if (!code->library) result = code->line_of(p, frame);
  p.decref(object);
  return result;
}

// What set_line() says; 0: nothing.
thread_local uint32_t given_line = 0;

}  // namespace

void set_line(const std::string& line) { given_line = line.empty() ? 0 : intern(line); }

uint32_t current_line() {
  if (given_line) return given_line;
  const Python& p = python();
  if (!p.usable()) return 0;
  int state = p.ensure();
  uint32_t result = 0;
  void* frame = p.frame();
  if (frame) p.incref(frame);
  while (frame) {
    result = line_of(frame);
    void* outer = result ? nullptr : p.back(frame);
    p.decref(frame);
    frame = outer;
  }
  p.release(state);
  return result;
}

std::string current_function() {
  const Python& p = python();
  if (!p.usable()) return "";
  const int state = p.ensure();
  std::string name;
  if (void* frame = p.frame()) {
    void* code = p.code(frame);
    if (void* text = p.attribute(code, "co_name")) {
      if (const char* s = p.utf8(text)) name = s;
      p.decref(text);
    }
    p.decref(code);
  }
  p.release(state);
  return name;
}

WithoutPython::WithoutPython() {
  const Python& p = python();
  if (p.usable() && p.holds_lock && p.save && p.restore && p.holds_lock()) state_ = p.save();
}
WithoutPython::~WithoutPython() {
  if (state_) python().restore(state_);
}

std::string line_text(uint32_t line) {
  Lines& l = lines();
  std::lock_guard lock(l.mutex);
  return line < l.texts.size() ? l.texts[line] : "";
}

}  // namespace lazuli::lazy
