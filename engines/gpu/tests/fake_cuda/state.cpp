/*
 * What the double remembers, how calls begin and fail, and what the test asks of it.
 */
#include "double.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace fake {

State state;
thread_local Context *current = nullptr;

void violation(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (state.violations.size() < 100) {
        state.violations.emplace_back(line);
    }
}

/* splitmix64 */
uint64_t chance(uint64_t below)
{
    uint64_t x = state.random += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (x ^ (x >> 31)) % below;
}

void lose(Context *context, int code)
{
    context->lost = code;
    drop_work(context);
}

static void lose_device(int code)
{
    state.device_lost = true;
    state.lost_code = code;
    for (Context *context : state.contexts) {
        if (context->alive && context->lost == SUCCESS) {
            lose(context, code);
        }
    }
}

Call::Call(const char *function, bool wants_context) : function(function), lock_(state.mutex)
{
    bool nvrtc = strncmp(function, "nvrtc", 5) == 0;
    bool matches = state.fails_name.empty() || state.fails_name == function;
    if (state.fails_in > 0 && matches && --state.fails_in == 0) {
        code = state.fails_code;
        told = true;
        state.failed = function;
        if (state.fails_for_good && !nvrtc) {
            lose_device(code);
        }
    }
    if (state.device_lost && !nvrtc) {
        code = state.lost_code;
    }
    if (!nvrtc && !state.initialised && strcmp(function, "cuInit") != 0) {
        violation("%s: before cuInit", function);
        code = NOT_INITIALIZED;
    }
    if (!wants_context) {
        return;
    }
    context = current;
    if (context == nullptr || !context->alive) {
        if (!state.device_lost) {
            violation("%s: %s", function, context == nullptr ? "no context is current" : "the context is gone");
        }
        code = code == SUCCESS ? INVALID_CONTEXT : code;
        return;
    }
    if (code == SUCCESS && state.pace != Pace::LATE) {
        run_some(context);
    }
    if (code == SUCCESS) {
        code = context->lost;
    }
}

int Call::end(int result) const
{
    return context != nullptr && context->lost != SUCCESS ? context->lost : result;
}

/* Says what was touched before the process ends by it. */
static void fault(int signal, siginfo_t *info, void *)
{
    char line[256];
    const char *what = "an address that is nobody's: beyond a buffer, or device memory";
    auto address = static_cast<const uint8_t *>(info->si_addr);
    for (auto &[start, memory] : state.by_bytes) {
        if (address >= memory->bytes && address < memory->bytes + memory->len) {
            what = !memory->alive ? "memory that was freed"
                                  : "pinned memory that the device has not finished with";
        }
    }
    int len = snprintf(line, sizeof line, "fake cuda: %s touched %s (%p)\n",
                       running_kernel() != nullptr ? running_kernel() : "the host", what, info->si_addr);
    (void)!write(2, line, static_cast<size_t>(len));
    std::signal(signal, SIG_DFL);
    raise(signal);
}

static void catch_faults()
{
    struct sigaction action = {};
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

static void report_leftovers()
{
    for (Context *context : state.contexts) {
        if (context->alive && !context->destroy_failed) {
            violation("a context%s was never destroyed", context->lost != SUCCESS ? " that was lost" : "");
        }
    }
    if (state.programs != 0) {
        violation("%d programs of NVRTC were never destroyed", state.programs);
    }
}

} /* namespace fake */

using namespace fake;

/* Begins a test: forgets violations and faults, and sets the seed and the pace (0 late, 1 random, 2 early). */
EXPORT void fake_cuda_reset(uint64_t seed, int pace)
{
    std::lock_guard<std::recursive_mutex> lock(state.mutex);
    for (Context *context : state.contexts) {
        context->alive = false;
        drop_work(context);
    }
    state.violations.clear();
    state.random = seed * 0x2545f4914f6cdd1dull + 1;
    state.pace = static_cast<Pace>(pace);
    state.fails_in = state.work_fails_in = 0;
    state.device_lost = false;
    state.launches = 0;
    state.programs = 0;
    state.failed.clear();
}

/* Makes the nth call from now on fail, of the function of this name or of any; with `for_good`, all behind it as well. */
EXPORT void fake_cuda_fail(const char *name, uint64_t nth, int code, int for_good)
{
    std::lock_guard<std::recursive_mutex> lock(state.mutex);
    state.fails_name = name == nullptr ? "" : name;
    state.fails_in = nth;
    state.fails_code = code;
    state.fails_for_good = for_good != 0;
}

/* Makes the nth copy, setting or launch from now on fail while it is done: its context is lost. */
EXPORT void fake_cuda_fail_work(uint64_t nth, int code)
{
    std::lock_guard<std::recursive_mutex> lock(state.mutex);
    state.work_fails_in = nth;
    state.work_fails_code = code;
}

/* Launches that were done since the reset. */
EXPORT uint64_t fake_cuda_launches()
{
    std::lock_guard<std::recursive_mutex> lock(state.mutex);
    return state.launches;
}

/* The function or work that was made to fail; empty as long as none was. */
EXPORT const char *fake_cuda_failed()
{
    return state.failed.c_str();
}

/* The rules that were broken since the reset, a line each; what is left over now counts as well. */
EXPORT const char *fake_cuda_report()
{
    static std::string report;
    std::lock_guard<std::recursive_mutex> lock(state.mutex);
    report_leftovers();
    report.clear();
    for (const std::string &line : state.violations) {
        report += line + "\n";
    }
    return report.c_str();
}

EXPORT int cuInit(unsigned)
{
    Call call("cuInit", false);
    if (call.code != SUCCESS) {
        return call.code;
    }
    if (!state.initialised) {
        catch_faults();
    }
    state.initialised = true;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 12090;
    return SUCCESS;
}

EXPORT int cuGetErrorName(int, const char **name)
{
    *name = "an error of the double";
    return SUCCESS;
}

EXPORT int cuGetErrorString(int, const char **text)
{
    *text = "an error of the double";
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
    Call call("cuDeviceGetCount", false);
    *count = call.code == SUCCESS ? 1 : 0;
    return call.code;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    Call call("cuDeviceGet", false);
    *device = 0;
    return call.code != SUCCESS ? call.code : ordinal == 0 ? SUCCESS : INVALID_DEVICE;
}

EXPORT int cuDeviceGetName(char *name, int len, int)
{
    Call call("cuDeviceGetName", false);
    if (call.code == SUCCESS) {
        snprintf(name, static_cast<size_t>(len), "double of a GPU");
    }
    return call.code;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int)
{
    Call call("cuDeviceTotalMem_v2", false);
    *bytes = size_t(8) << 30;
    return call.code;
}

EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    Call call("cuMemGetInfo_v2");
    *free = *total = size_t(8) << 30;
    return call.code;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int)
{
    Call call("cuDeviceGetAttribute", false);
    static const std::map<int, int> values = {
        {1, 1024},   /* threads of a block */
        {8, 49152},  /* bytes of shared memory of a block */
        {10, 32},    /* threads of a warp */
        {16, 4},     /* multiprocessors */
        {18, 0},     /* integrated with the host's memory */
        {19, 1},     /* can map the host's memory */
        {31, 1},     /* runs kernels side by side */
        {40, 2},     /* copy engines */
        {41, 1},     /* unified addresses */
        {75, 9},     /* compute capability */
        {76, 0},
    };
    if (call.code != SUCCESS) {
        return call.code;
    }
    auto found = values.find(attribute);
    if (found == values.end()) {
        violation("cuDeviceGetAttribute: the double knows no attribute %d", attribute);
        return INVALID_VALUE;
    }
    *value = found->second;
    return SUCCESS;
}
