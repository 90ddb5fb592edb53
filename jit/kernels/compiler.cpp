#include "jit/kernels/compiler.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "ir/error.h"
#include "jit/kernels/compiler_bytecode.h"
#include "jit/kernels/compiler_options.h"
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/nest/codegen.h"

namespace lazuli::jit {
namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    leave_out_slow_passes();
  });
}

std::string text(llvm::Error error) { return llvm::toString(std::move(error)); }

// The processor that code is generated for.
struct Cpu {
  std::string name, features;
  lowering::CpuTarget target;
};

Cpu describe_cpu(const std::string& wanted) {
  using lowering::InstructionSet;
  if (!wanted.empty() && wanted != "avx2" && wanted != "native")
    throw InternalError("unknown processor '" + wanted + "' (native or avx2)");
  const InstructionSet has = lowering::host_instruction_set();
  if (!*lowering::generated_code(has).llvm_cpu) throw InternalError("this processor lacks AVX2, FMA or F16C");
  const auto code = lowering::generated_code(wanted == "avx2" ? InstructionSet::Avx2 : has);
  Cpu cpu;
  cpu.target = {code.vector_bits, code.masks};
  if (wanted == "avx2") {
    cpu.name = code.llvm_cpu;
    return cpu;
  }
  cpu.name = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  for (const auto& f : llvm::sys::getHostCPUFeatures()) features.AddFeature(f.first(), f.second);
  cpu.features = features.getString();
  return cpu;
}

// What makes object code, one module after the other. To set up its passes takes as long as a small kernel does.
struct Generator {
  std::unique_ptr<llvm::TargetMachine> machine;
  llvm::SmallVector<char, 0> out;
  llvm::raw_svector_ostream stream{out};
  llvm::legacy::PassManager passes;

  Generator(std::unique_ptr<llvm::TargetMachine> m, llvm::CodeGenFileType type) : machine(std::move(m)) {
    if (machine->addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
      throw InternalError("LLVM cannot emit code for " + machine->getTargetTriple().str());
  }
  std::vector<char> run(llvm::Module& module) {
    passes.run(module);
    const std::vector<char> bytes(out.begin(), out.end());
    out.clear();
    return bytes;
  }
};

}  // namespace

struct [[gnu::visibility("hidden")]] Compiler::State {
  Cpu cpu;
  std::string triple, fingerprint;
  const llvm::Target* target = nullptr;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  // One serves one thread at a time. By kind of code, those that serve none.
  mutable std::mutex mutex;
  mutable std::array<std::vector<std::unique_ptr<Generator>>, 2> idle;

  std::unique_ptr<llvm::TargetMachine> machine(CodeKind kind) const {
    const auto level = kind == CodeKind::Fast ? llvm::CodeGenOptLevel::Less : llvm::CodeGenOptLevel::None;
    std::unique_ptr<llvm::TargetMachine> m(target->createTargetMachine(
        triple, cpu.name, cpu.features, llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, level, true));
    // It selects few vector instructions, and leaves the others to the other selector, at more cost.
    m->setO0WantsFastISel(false);
    return m;
  }
  std::unique_ptr<Generator> generator(CodeKind kind) const {
    {
      std::lock_guard lock(mutex);
      if (auto& there = idle[static_cast<size_t>(kind)]; !there.empty()) {
        auto g = std::move(there.back());
        there.pop_back();
        return g;
      }
    }
    return std::make_unique<Generator>(machine(kind), llvm::CodeGenFileType::ObjectFile);
  }
  void give_back(std::unique_ptr<Generator> g, CodeKind kind) const {
    std::lock_guard lock(mutex);
    idle[static_cast<size_t>(kind)].push_back(std::move(g));
  }

  std::unique_ptr<llvm::Module> module(llvm::LLVMContext& context, const lowering::LoopNest& nest,
                                       const std::string& symbol, CodeKind kind) const;
};

std::unique_ptr<llvm::Module> Compiler::State::module(llvm::LLVMContext& context, const lowering::LoopNest& nest,
                                                      const std::string& symbol, CodeKind kind) const {
  auto module = std::make_unique<llvm::Module>(symbol, context);
  module->setTargetTriple(triple);
  module->setDataLayout(jit->getDataLayout());
  lowering::CpuTarget target_cpu = cpu.target;
  target_cpu.compact = kind == CodeKind::SoonMade;
  lowering::emit_cpu_kernel(*module, nest, symbol, target_cpu);
#ifndef NDEBUG
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(*module, &out))
    throw InternalError("invalid code for a kernel: " + problem + "\n" + nest.print());
#endif
  return module;
}

Compiler::Compiler(const std::string& cpu) : state_(std::make_unique<State>()) {
  initialize_llvm();
  State& s = *state_;
  s.cpu = describe_cpu(cpu);
  s.triple = llvm::sys::getProcessTriple();
  s.fingerprint = "llvm-" LLVM_VERSION_STRING ";" + s.triple + ";" + s.cpu.name + ";" + s.cpu.features;
  std::string problem;
  s.target = llvm::TargetRegistry::lookupTarget(s.triple, problem);
  if (!s.target) throw InternalError(problem);
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(s.triple)};
  builder.setCPU(s.cpu.name);
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(builder)).create();
  if (!jit) throw InternalError("no just-in-time linker: " + text(jit.takeError()));
  s.jit = std::move(*jit);
  // What LLVM makes calls of by itself, such as memset.
  auto process =
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(s.jit->getDataLayout().getGlobalPrefix());
  if (!process) throw InternalError(text(process.takeError()));
  s.jit->getMainJITDylib().addGenerator(std::move(*process));
}

Compiler::~Compiler() = default;

Compiler& Compiler::host() {
  // Never destroyed: kernels live for the whole process, and other threads may still run them at exit.
  static Compiler* compiler = [] {
    const char* cpu = std::getenv("LAZULI_CPU");
    return new Compiler(cpu ? cpu : "");
  }();
  return *compiler;
}

ObjectCode Compiler::compile(const lowering::LoopNest& nest, const std::string& symbol, CodeKind kind) const {
  llvm::LLVMContext context;
  std::unique_ptr<Generator> generator = state_->generator(kind);
  ObjectCode code{symbol, generator->run(*state_->module(context, nest, symbol, kind))};
  state_->give_back(std::move(generator), kind);
  return code;
}

std::unique_ptr<const bytecode::Program> Compiler::bytecode(const lowering::LoopNest& nest) const {
  llvm::LLVMContext context;
  const std::string symbol = "bytecode";
  return bytecode_of(*state_->module(context, nest, symbol, CodeKind::SoonMade)->getFunction(symbol));
}

LoadedKernel Compiler::load(const ObjectCode& code) {
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy({code.bytes.data(), code.bytes.size()}, code.symbol);
  // In a place of its own, where its symbol may be called as others are elsewhere, and which goes with it.
  static std::atomic<uint64_t> places = 0;
  llvm::orc::ExecutionSession& session = state_->jit->getExecutionSession();
  llvm::orc::JITDylib& place = session.createBareJITDylib(std::to_string(places++));
  const std::shared_ptr<const void> owner(&place, [&session](const void* p) {
    llvm::consumeError(session.removeJITDylib(*static_cast<llvm::orc::JITDylib*>(const_cast<void*>(p))));
  });
  place.addToLinkOrder(state_->jit->getMainJITDylib());
  if (auto error = state_->jit->addObjectFile(place, std::move(buffer)))
    throw InternalError("a kernel's object code is refused: " + text(std::move(error)));
  auto address = state_->jit->lookup(place, code.symbol);
  if (!address) throw InternalError("a kernel does not link: " + text(address.takeError()));
  return {address->toPtr<lowering::KernelFn>(), owner};
}

std::string Compiler::ir_text(const lowering::LoopNest& nest, const std::string& symbol) const {
  llvm::LLVMContext context;
  std::string out;
  llvm::raw_string_ostream stream(out);
  state_->module(context, nest, symbol, CodeKind::Fast)->print(stream, nullptr);
  return out;
}

std::string Compiler::assembly_text(const lowering::LoopNest& nest, const std::string& symbol) const {
  llvm::LLVMContext context;
  Generator generator(state_->machine(CodeKind::Fast), llvm::CodeGenFileType::AssemblyFile);
  const auto out = generator.run(*state_->module(context, nest, symbol, CodeKind::Fast));
  return {out.begin(), out.end()};
}

const std::string& Compiler::fingerprint() const { return state_->fingerprint; }
bool Compiler::has_avx512() const { return state_->cpu.target.masks; }

}  // namespace lazuli::jit
