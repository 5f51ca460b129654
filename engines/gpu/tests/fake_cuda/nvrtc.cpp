/*
 * The compiler: the system's C++ compiler, after what stands in for the words of CUDA's language.
 */
#include "double.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image.h"

extern char **environ;

namespace fake {

enum NvrtcResult : int {
    NVRTC_INVALID_INPUT = 3,
    NVRTC_INVALID_PROGRAM = 4,
    NVRTC_INVALID_OPTION = 5,
    NVRTC_COMPILATION = 6,
};

/* Before a program, while it is preprocessed; `__global__` stays, to find the kernels by. */
static const char *const WORDS = R"(
#define __CUDACC__ 1
#define DIALECT_ON_HOST 1
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __constant__
#define __shared__ static __attribute__((section("fake_shared_memory")))
#define __syncthreads() fake_barrier(__LINE__)
#define __launch_bounds__(...)
)";

/* Before the preprocessed program. */
static const char *const HEAD = R"(
#include <utility>
#define __global__
struct fake_dim { unsigned x, y, z; };
#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))
#pragma GCC visibility push(default)
extern "C" { fake_dim threadIdx, blockIdx, blockDim, gridDim; void (*fake_barrier)(int); }
#pragma GCC visibility pop
static __attribute__((section("fake_shared_memory"), used)) unsigned char fake_no_shared_memory[64];
extern "C" unsigned char __start_fake_shared_memory[], __stop_fake_shared_memory[];
FAKE_EXPORT unsigned char *fake_shared = __start_fake_shared_memory;
FAKE_EXPORT unsigned char *fake_shared_end = __stop_fake_shared_memory;
template <class T> static inline unsigned __funnelshift_l(unsigned low, unsigned high, T by)
{
    return by & 31 ? (high << (by & 31)) | (low >> (32 - (by & 31))) : high;
}
template <class T> static inline unsigned __funnelshift_r(unsigned low, unsigned high, T by)
{
    return by & 31 ? (low >> (by & 31)) | (high << (32 - (by & 31))) : low;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline int __clz(int word) { return word == 0 ? 32 : __builtin_clz((unsigned)word); }
static inline int __popc(unsigned word) { return __builtin_popcount(word); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned picks)
{
    unsigned long long both = ((unsigned long long)b << 32) | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        out |= (unsigned)((both >> (8 * ((picks >> (4 * i)) & 7))) & 0xff) << (8 * i);
    }
    return out;
}
)";

/* Behind it: what a kernel takes, and how it is called with an array of pointers to its arguments. */
static const char *const TAIL = R"(
template <class T> struct fake_is_pointer { static constexpr bool value = false; };
template <class T> struct fake_is_pointer<T *> { static constexpr bool value = true; };
struct fake_kernel
{
    const char *name;
    unsigned count;
    const unsigned *sizes;
    const bool *pointers;
    void (*call)(void *const *);
};
template <auto F> struct fake_call;
template <class... A, void (*F)(A...)> struct fake_call<F> {
    static constexpr unsigned sizes[] = {sizeof(A)...};
    static constexpr bool pointers[] = {fake_is_pointer<A>::value...};
    template <std::size_t... I> static void with(void *const *arguments, std::index_sequence<I...>)
    {
        F(*static_cast<A *>(arguments[I])...);
    }
    static void call(void *const *arguments) { with(arguments, std::index_sequence_for<A...>()); }
    static constexpr fake_kernel named(const char *name) { return {name, sizeof...(A), sizes, pointers, call}; }
};
FAKE_EXPORT const fake_kernel fake_kernels[] = {
)";

struct NvrtcProgram {
    std::string source, name, log, image;
};

static std::set<NvrtcProgram *> programs;

static std::string read_all(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

static void write_all(const std::string &path, const std::string &text)
{
    std::ofstream(path, std::ios::binary) << text;
}

/* Runs the compiler; what it says goes to a file. */
static bool compile(std::vector<std::string> arguments, const std::string &log)
{
    const char *compiler = getenv("CXX");
    arguments.insert(arguments.begin(), compiler != nullptr && *compiler != 0 ? compiler : "c++");
    std::vector<char *> pointers;
    for (std::string &argument : arguments) {
        pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    int failed = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = 1;
    return failed == 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The names of the kernels in a preprocessed program. */
static std::vector<std::string> kernels_in(const std::string &text)
{
    const std::string before = "__global__ void ";
    std::vector<std::string> names;
    for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
        at += before.size();
        names.push_back(text.substr(at, text.find_first_of(" (", at) - at));
    }
    return names;
}

/* Makes a shared object of a program; the log says why not. */
static bool build(NvrtcProgram &program, const std::string &folder)
{
    std::string source = folder + "/source.cpp", plain = folder + "/plain.cpp", object = folder + "/object.so",
                log = folder + "/log";
    write_all(source, WORDS + program.source);
    if (!compile({"-E", "-P", "-w", "-x", "c++", source, "-o", plain}, log)) {
        program.log = read_all(log);
        return false;
    }
    std::string text = read_all(plain), table;
    for (const std::string &name : kernels_in(text)) {
        table += "    fake_call<&" + name + ">::named(\"" + name + "\"),\n";
    }
    write_all(source, HEAD + text + TAIL + table + "    {nullptr, 0, nullptr, nullptr, nullptr}};\n");
    bool built = compile({"-std=c++17", "-O2", "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing",
                          source, "-o", object},
                         log);
    program.log = read_all(log);
    if (!built) {
        return false;
    }
    std::string code = read_all(object);
    ImageHead head{};
    memcpy(head.magic, IMAGE_MAGIC, sizeof head.magic);
    head.len = code.size();
    program.image = std::string(reinterpret_cast<const char *>(&head), sizeof head) + code;
    return true;
}

static bool option_is_known(const std::string &option)
{
    for (const char *known : {"--gpu-architecture=sm_90", "--std=c++17", "--ptxas-options=-v"}) {
        if (option == known) {
            return true;
        }
    }
    return option.rfind("--diag-suppress=", 0) == 0 || option.rfind("--maxrregcount=", 0) == 0;
}

static NvrtcProgram *program_of(void *handle, const Call &call)
{
    auto program = static_cast<NvrtcProgram *>(handle);
    if (programs.count(program) == 0) {
        violation("%s: this is no program, or it was destroyed", call.function);
        return nullptr;
    }
    return program;
}

} /* namespace fake */

using namespace fake;

EXPORT int nvrtcVersion(int *major, int *minor)
{
    Call call("nvrtcVersion", false);
    *major = 12;
    *minor = 9;
    return call.code;
}

EXPORT const char *nvrtcGetErrorString(int)
{
    return "an error of the double";
}

EXPORT int nvrtcCreateProgram(NvrtcProgram **out, const char *source, const char *name, int, const char *const *,
                              const char *const *)
{
    Call call("nvrtcCreateProgram", false);
    if (call.code != SUCCESS) {
        return call.code;
    }
    *out = new NvrtcProgram{source, name == nullptr ? "" : name, "", ""};
    programs.insert(*out);
    state.programs++;
    return SUCCESS;
}

EXPORT int nvrtcDestroyProgram(NvrtcProgram **program)
{
    Call call("nvrtcDestroyProgram", false);
    if (call.code != SUCCESS) {
        state.programs -= call.told ? 1 : 0;
        return call.code;
    }
    if (program_of(*program, call) == nullptr) {
        return NVRTC_INVALID_PROGRAM;
    }
    programs.erase(*program);
    delete *program;
    *program = nullptr;
    state.programs--;
    return SUCCESS;
}

EXPORT int nvrtcCompileProgram(void *handle, int count, const char *const *options)
{
    NvrtcProgram *program;
    {
        Call call("nvrtcCompileProgram", false);
        if (call.code != SUCCESS) {
            return call.code;
        }
        program = program_of(handle, call);
        for (int i = 0; i < count; i++) {
            if (!option_is_known(options[i])) {
                violation("nvrtcCompileProgram: the double does not know %s", options[i]);
                return NVRTC_INVALID_OPTION;
            }
        }
        if (program == nullptr) {
            return NVRTC_INVALID_PROGRAM;
        }
    }
    /* Programs are compiled side by side. */
    const char *temporary = getenv("TMPDIR");
    std::string folder = std::string(temporary != nullptr ? temporary : "/tmp") + "/fake-cuda-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) {
        return NVRTC_INVALID_INPUT;
    }
    bool built = build(*program, folder);
    for (const char *name : {"source.cpp", "plain.cpp", "object.so", "log"}) {
        unlink((folder + "/" + name).c_str());
    }
    rmdir(folder.c_str());
    return built ? int(SUCCESS) : int(NVRTC_COMPILATION);
}

EXPORT int nvrtcGetProgramLogSize(void *handle, size_t *len)
{
    Call call("nvrtcGetProgramLogSize", false);
    NvrtcProgram *program = call.code == SUCCESS ? program_of(handle, call) : nullptr;
    *len = program == nullptr ? 0 : program->log.size() + 1;
    return call.code;
}

EXPORT int nvrtcGetProgramLog(void *handle, char *log)
{
    Call call("nvrtcGetProgramLog", false);
    NvrtcProgram *program = call.code == SUCCESS ? program_of(handle, call) : nullptr;
    if (program != nullptr) {
        memcpy(log, program->log.c_str(), program->log.size() + 1);
    }
    return call.code;
}

EXPORT int nvrtcGetCUBINSize(void *handle, size_t *len)
{
    Call call("nvrtcGetCUBINSize", false);
    NvrtcProgram *program = call.code == SUCCESS ? program_of(handle, call) : nullptr;
    *len = program == nullptr ? 0 : program->image.size();
    return call.code;
}

EXPORT int nvrtcGetCUBIN(void *handle, char *code)
{
    Call call("nvrtcGetCUBIN", false);
    NvrtcProgram *program = call.code == SUCCESS ? program_of(handle, call) : nullptr;
    if (program != nullptr) {
        memcpy(code, program->image.data(), program->image.size());
    }
    return call.code;
}
