#include "jit/devices/cuda/ptx_compiler.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <map>
#include <mutex>

#include "ir/error.h"
#include "jit/kernels/compiler_options.h"
#include "lowering/nest/codegen.h"

namespace lazuli::jit::cuda {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";
constexpr const char* kPtx = "+ptx85";  // the newest that this LLVM writes

const llvm::Target* nvptx() {
  static const llvm::Target* target = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    leave_out_slow_passes();
    std::string problem;
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(kTriple, problem);
    LAZULI_CHECK(t, problem);
    return t;
  }();
  return target;
}

// A TargetMachine serves one thread at a time, and making one takes as long as compiling a small kernel.
class Machines {
 public:
  using Machine = std::unique_ptr<llvm::TargetMachine>;

  Machine take(int capability) {
    {
      std::lock_guard lock(mutex_);
      auto& idle = idle_[capability];
      if (!idle.empty()) {
        Machine m = std::move(idle.back());
        idle.pop_back();
        return m;
      }
    }
    return Machine(nvptx()->createTargetMachine(kTriple, "sm_" + std::to_string(capability), kPtx, {}, std::nullopt,
                                                std::nullopt, llvm::CodeGenOptLevel::Default, true));
  }
  void give_back(int capability, Machine m) {
    std::lock_guard lock(mutex_);
    idle_[capability].push_back(std::move(m));
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Machine>> idle_;
};

Machines& machines() {
  static Machines* m = new Machines;  // outlives every thread
  return *m;
}

// The next kernel may start as soon as every block of this one has started and what was before is done. (Were it let in
// before that, a third kernel's blocks would wait beside the first's, on whose multiprocessors they are missed.) A nest
// that accumulates has all its blocks on the machine for as long as it runs: there is no early start to be had, only
// room to be taken.
void overlap(llvm::Function& kernel, const lowering::LoopNest& nest) {
  llvm::IRBuilder<> b(&*kernel.getEntryBlock().begin());
  auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
  auto emit = [&](const char* instruction) {
    b.CreateCall(type, llvm::InlineAsm::get(type, instruction, "~{memory}", /*hasSideEffects=*/true));
  };
  emit("griddepcontrol.wait;");
  if (!nest.accumulates()) emit("griddepcontrol.launch_dependents;");
}

std::unique_ptr<llvm::Module> make_module(llvm::LLVMContext& context, const llvm::TargetMachine& m, int capability,
                                          const lowering::LoopNest& nest, const lowering::GpuVariant& variant,
                                          const std::string& symbol) {
  auto module = std::make_unique<llvm::Module>(symbol, context);
  module->setTargetTriple(kTriple);
  module->setDataLayout(m.createDataLayout());
  lowering::emit_gpu_kernel(*module, nest, symbol, variant);
  if (capability >= kOverlapping) overlap(*module->getFunction(symbol), nest);
#ifndef NDEBUG
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(*module, &out))
    throw InternalError("invalid GPU code for a kernel: " + problem + "\n" + nest.print());
#endif
  return module;
}

}  // namespace

std::string compile_ptx(const lowering::LoopNest& nest, const lowering::GpuVariant& variant, const std::string& symbol,
                        int capability) {
  llvm::LLVMContext context;
  Machines::Machine m = machines().take(capability);
  auto module = make_module(context, *m, capability, nest, variant, symbol);
  llvm::SmallString<0> out;
  {
    llvm::raw_svector_ostream stream(out);
    llvm::legacy::PassManager passes;
    if (m->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile, /*DisableVerify=*/true))
      throw InternalError("LLVM cannot emit PTX");
    passes.run(*module);
  }
  machines().give_back(capability, std::move(m));
  return out.str().str();
}

std::string gpu_ir_text(const lowering::LoopNest& nest, const lowering::GpuVariant& variant,
                        const std::string& symbol) {
  constexpr int kAny = 80;
  llvm::LLVMContext context;
  Machines::Machine m = machines().take(kAny);
  std::string out;
  llvm::raw_string_ostream stream(out);
  make_module(context, *m, kAny, nest, variant, symbol)->print(stream, nullptr);
  machines().give_back(kAny, std::move(m));
  return out;
}

}  // namespace lazuli::jit::cuda
