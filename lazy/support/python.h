// The few entry points of Python's stable C API that we need, found in the process: nothing is linked, and there may be
// no Python.
#pragma once
#include <dlfcn.h>

namespace lazuli::lazy {

struct Python {
  int (*is_initialized)() = find<int (*)()>("Py_IsInitialized");
  int (*is_finalizing)() = find<int (*)()>("Py_IsFinalizing");  // from 3.13 on
  int (*is_finalizing_old)() = find<int (*)()>("_Py_IsFinalizing");
  int (*ensure)() = find<int (*)()>("PyGILState_Ensure");
  void (*release)(int) = find<void (*)(int)>("PyGILState_Release");
  void* (*frame)() = find<void* (*)()>("PyEval_GetFrame");           // borrowed
  void* (*back)(void*) = find<void* (*)(void*)>("PyFrame_GetBack");  // new reference
  void* (*code)(void*) = find<void* (*)(void*)>("PyFrame_GetCode");  // new reference
  int (*line)(void*) = find<int (*)(void*)>("PyFrame_GetLineNumber");
  int (*instruction)(void*) = find<int (*)(void*)>("PyFrame_GetLasti");                  // from 3.11 on
  void* (*import)(const char*) = find<void* (*)(const char*)>("PyImport_ImportModule");  // new
  void* (*attribute)(void*, const char*) = find<void* (*)(void*, const char*)>("PyObject_GetAttrString");      // new
  void* (*call)(void*, const char*, ...) = find<void* (*)(void*, const char*, ...)>("PyObject_CallFunction");  // new
  void* (*text)(void*) = find<void* (*)(void*)>("PyObject_Str");                                               // new
  const char* (*utf8)(void*) = find<const char* (*)(void*)>("PyUnicode_AsUTF8");
  void (*fetch_error)(void**, void**, void**) = find<void (*)(void**, void**, void**)>("PyErr_Fetch");  // new
  void (*clear_error)() = find<void (*)()>("PyErr_Clear");
  int (*holds_lock)() = find<int (*)()>("PyGILState_Check");
  void* (*save)() = find<void* (*)()>("PyEval_SaveThread");
  void (*restore)(void*) = find<void (*)(void*)>("PyEval_RestoreThread");
  void (*incref)(void*) = find<void (*)(void*)>("Py_IncRef");
  void (*decref)(void*) = find<void (*)(void*)>("Py_DecRef");  // null is nothing

  // Whether an interpreter runs, and does not end.
  bool usable() const {
    if (!is_initialized || !ensure || !release || !frame || !back || !code || !line || !attribute || !utf8)
      return false;
    auto* finalizing = is_finalizing ? is_finalizing : is_finalizing_old;
    return is_initialized() && !(finalizing && finalizing());
  }

 private:
  template <class F>
  static F find(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  }
};

inline const Python& python() {
  static const Python p;
  return p;
}

}  // namespace lazuli::lazy
