// Says once, on stderr, that a compilation takes long and of what it is: else the first step of a large model looks as
// if the process hung. LAZULI_PROGRESS=0 keeps it quiet.
#pragma once
#include <condition_variable>
#include <memory>
#include <string>
#include <thread>

namespace lazuli::lazy {

// Around a compilation; what it is of, in words. Once the process has said so it does nothing.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;

 private:
  struct Watch;
  std::unique_ptr<Watch> watch_;  // null: nobody waits
};

}  // namespace lazuli::lazy
