/*
 * Modules, and how their kernels run: block by block, each item of a block on a stack of its own, in a random order that
 * changes at every barrier. A barrier that not all items of a block reach is a broken rule.
 */
#include "double.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "image.h"

namespace fake {

constexpr size_t STACK_LEN = 256 << 10;
constexpr size_t GUARD_LEN = 4096;
constexpr unsigned ITEMS_MAX = 1024;
constexpr uint8_t RUBBISH = 0x5a;

/* What every compiled program has (see the words put around it in nvrtc.cpp). */
struct Program {
    const Kernel *kernels;
    Grid *item, *block, *block_len, *grid_len;
    void (**barrier)(int line);
    uint8_t *shared, *shared_end;
};

struct Item {
    ucontext_t context;
    uint8_t *stack = nullptr;
    int barrier; /* the line where it waits; zero when it has ended */
};

static std::vector<Item> items;
static ucontext_t scheduler;
static Item *running;
static const Kernel *kernel_now;
static void *const *arguments_now;

const char *running_kernel()
{
    return kernel_now == nullptr ? nullptr : kernel_now->name;
}

static void reach_barrier(int line)
{
    running->barrier = line;
    swapcontext(&running->context, &scheduler);
}

static void run_item()
{
    kernel_now->call(arguments_now);
    running->barrier = 0;
    /* Back to the scheduler, by uc_link. */
}

static void begin_item(Item &item)
{
    if (item.stack == nullptr) {
        void *stack = mmap(nullptr, GUARD_LEN + STACK_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(stack, GUARD_LEN, PROT_NONE);
        item.stack = static_cast<uint8_t *>(stack) + GUARD_LEN;
    }
    getcontext(&item.context);
    item.context.uc_stack.ss_sp = item.stack;
    item.context.uc_stack.ss_size = STACK_LEN;
    item.context.uc_link = &scheduler;
    makecontext(&item.context, run_item, 0);
}

static void shuffle(std::vector<unsigned> &order)
{
    for (size_t i = order.size(); i > 1; i--) {
        std::swap(order[i - 1], order[chance(i)]);
    }
}

static void run_block(const Program &program, const Work &work)
{
    unsigned count = work.block.x * work.block.y * work.block.z;
    if (items.size() < count) {
        items.resize(count);
    }
    memset(program.shared, RUBBISH, static_cast<size_t>(program.shared_end - program.shared));
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0u);
    for (unsigned number : order) {
        begin_item(items[number]);
    }
    while (!order.empty()) {
        shuffle(order);
        std::vector<unsigned> waiting;
        for (unsigned number : order) {
            running = &items[number];
            *program.item = {number % work.block.x, number / work.block.x % work.block.y,
                             number / work.block.x / work.block.y};
            swapcontext(&scheduler, &running->context);
            if (running->barrier != 0) {
                waiting.push_back(number);
            }
        }
        bool apart = !waiting.empty() && waiting.size() < order.size();
        for (unsigned number : waiting) {
            apart = apart || items[number].barrier != items[waiting[0]].barrier;
        }
        if (apart) {
            violation("%s: not all items of a block come to the same barrier", kernel_now->name);
        }
        order.swap(waiting);
    }
}

template <class T> static T *symbol(const Module *module, const char *name)
{
    return reinterpret_cast<T *>(dlsym(module->library, name));
}

static Program program_of(const Module *module)
{
    Program program{};
    program.kernels = symbol<const Kernel>(module, "fake_kernels");
    program.item = symbol<Grid>(module, "threadIdx");
    program.block = symbol<Grid>(module, "blockIdx");
    program.block_len = symbol<Grid>(module, "blockDim");
    program.grid_len = symbol<Grid>(module, "gridDim");
    program.barrier = symbol<void (*)(int)>(module, "fake_barrier");
    program.shared = *symbol<uint8_t *>(module, "fake_shared");
    program.shared_end = *symbol<uint8_t *>(module, "fake_shared_end");
    return program;
}

void run_kernel(const Work &work)
{
    const Program program = program_of(work.function->module);
    *program.barrier = reach_barrier;
    *program.block_len = work.block;
    *program.grid_len = work.grid;
    std::vector<void *> arguments;
    for (const auto &argument : work.arguments) {
        arguments.push_back(const_cast<uint8_t *>(argument.data()));
    }
    kernel_now = work.function->kernel;
    arguments_now = arguments.data();
    uint64_t blocks = uint64_t(work.grid.x) * work.grid.y * work.grid.z;
    /* Blocks come in no order that a kernel may rely on. */
    uint64_t first = chance(blocks);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t number = (first + i) % blocks;
        *program.block = {unsigned(number % work.grid.x), unsigned(number / work.grid.x % work.grid.y),
                          unsigned(number / work.grid.x / work.grid.y)};
        run_block(program, work);
    }
    kernel_now = nullptr;
}

void end_module(Module *module)
{
    dlclose(module->library);
    close(module->file);
    module->alive = false;
}

static Module *module_of(void *handle, const Call &call)
{
    auto module = static_cast<Module *>(handle);
    if (state.modules.count(module) == 0 || !module->alive) {
        violation("%s: this is no module, or it was unloaded", call.function);
    } else if (module->context != call.context) {
        violation("%s: the module is another context's", call.function);
    } else {
        return module;
    }
    return nullptr;
}

/* A kernel's argument, with device pointers turned into addresses of this process. */
static bool take_argument(Work &work, const Kernel *kernel, unsigned number, const void *value, const Call &call)
{
    auto bytes = static_cast<const uint8_t *>(value);
    std::vector<uint8_t> argument(bytes, bytes + kernel->sizes[number]);
    if (kernel->pointers[number]) {
        Pointer at;
        memcpy(&at, bytes, sizeof at);
        Memory *memory = memory_at(at, 1, call, "argument");
        if (memory == nullptr) {
            return false;
        }
        work.used.push_back(memory);
        uint8_t *address = bytes_at(memory, at);
        memcpy(argument.data(), &address, sizeof address);
    }
    work.arguments.push_back(std::move(argument));
    return true;
}

} /* namespace fake */

using namespace fake;

EXPORT int cuModuleLoadData(Module **out, const void *image)
{
    Call call("cuModuleLoadData");
    if (call.code != SUCCESS) {
        return call.code;
    }
    ImageHead head;
    memcpy(&head, image, sizeof head);
    if (memcmp(head.magic, IMAGE_MAGIC, sizeof head.magic) != 0) {
        return INVALID_IMAGE;
    }
    auto *module = new Module{};
    module->context = call.context;
    module->file = memfd_create("module", MFD_CLOEXEC);
    auto code = static_cast<const uint8_t *>(image) + sizeof head;
    if (write(module->file, code, head.len) != static_cast<ssize_t>(head.len)) {
        return OUT_OF_MEMORY;
    }
    /* The file stays open with the module: the loader knows libraries by their names. */
    std::string path = "/proc/self/fd/" + std::to_string(module->file);
    module->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module->library == nullptr) {
        violation("cuModuleLoadData: %s", dlerror());
        return INVALID_IMAGE;
    }
    state.modules.insert(module);
    *out = module;
    return SUCCESS;
}

EXPORT int cuModuleUnload(void *handle)
{
    Call call("cuModuleUnload");
    if (call.code != SUCCESS) {
        if (call.told && state.modules.count(static_cast<Module *>(handle)) != 0) {
            static_cast<Module *>(handle)->unload_failed = true;
        }
        return call.code;
    }
    Module *module = module_of(handle, call);
    if (module == nullptr) {
        return INVALID_HANDLE;
    }
    if (uses(call.context, module)) {
        violation("cuModuleUnload: a launch is pending");
        run_all(call.context);
    }
    end_module(module);
    return call.end();
}

EXPORT int cuModuleGetFunction(Function **out, void *handle, const char *name)
{
    Call call("cuModuleGetFunction");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Module *module = module_of(handle, call);
    if (module == nullptr) {
        return INVALID_HANDLE;
    }
    for (const Kernel *kernel = program_of(module).kernels; kernel->name != nullptr; kernel++) {
        if (strcmp(kernel->name, name) == 0) {
            *out = new Function{module, kernel};
            state.functions.insert(*out);
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

EXPORT int cuFuncSetAttribute(Function *, int, int)
{
    Call call("cuFuncSetAttribute");
    return call.code;
}

EXPORT int cuLaunchKernel(Function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_len, void *handle, void **arguments,
                          void **extra)
{
    Call call("cuLaunchKernel");
    if (call.code != SUCCESS) {
        return call.code;
    }
    if (state.functions.count(function) == 0 || module_of(function->module, call) == nullptr) {
        violation("cuLaunchKernel: this is no function, or its module is gone");
        return INVALID_HANDLE;
    }
    Stream *stream = stream_of(handle, call);
    uint64_t items_len = uint64_t(block_x) * block_y * block_z;
    bool sane = uint64_t(grid_x) * grid_y * grid_z > 0 && items_len > 0 && items_len <= ITEMS_MAX && grid_y <= 65535 &&
                grid_z <= 65535;
    if (stream == nullptr || !sane || shared_len != 0 || extra != nullptr) {
        violation("cuLaunchKernel: a grid of %u blocks with %u items", grid_x, block_x);
        return INVALID_VALUE;
    }
    Work work{};
    work.kind = Kind::LAUNCH;
    work.function = function;
    work.grid = {grid_x, grid_y, grid_z};
    work.block = {block_x, block_y, block_z};
    for (unsigned i = 0; i < function->kernel->count; i++) {
        if (!take_argument(work, function->kernel, i, arguments[i], call)) {
            return INVALID_VALUE;
        }
    }
    enqueue(stream, std::move(work));
    return call.end();
}
