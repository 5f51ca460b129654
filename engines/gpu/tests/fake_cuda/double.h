/*
 * A driver and a compiler in the place of CUDA's, for tests of the CUDA runtime on machines without a GPU: what stands
 * under the names libcuda.so and libnvrtc.so while they run.
 *
 * It runs the same kernels, compiled for the processor, and is as unkind as the rules allow: work waits until somebody
 * has to have it, streams overtake each other wherever no event forbids it, memory comes full of rubbish, and calls
 * fail when they are told to. Whatever breaks the rules is written down (`violation`) and read by the test.
 *
 * The rules are those of the CUDA driver API's reference manual, "Memory Management", "Stream Management", "Event
 * Management" and "API synchronization behavior"; where a driver would put up with something, this one does not.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {

/* A number that stands for device memory; no address of this process. */
using Pointer = unsigned long long;

/* The results that are given, as cuda.h numbers them. */
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
};

struct Context;

enum class Where { DEVICE, HOST };

/* What the device has still to do with a part of pinned memory. */
struct Busy {
    uint64_t work;
    size_t from, to;
    bool written;
};

/* Device memory, or pinned memory of the host. */
struct Memory {
    Where where;
    Context *context;
    Pointer at;     /* what the device calls it */
    uint8_t *bytes; /* where it lies here */
    size_t len;
    uint8_t *map = nullptr; /* the pages around it; null for memory that was only registered */
    size_t map_len = 0;
    bool alive = true;
    bool free_failed = false; /* a call that was to free it was made to fail */
    bool wipe_failed = false; /* the same of one that set it to zero, and nobody waited for anything since */
    std::vector<Busy> busy;
};

/* One recording of an event: later recordings do not change who waits for this one. */
struct Record {
    bool done = false;
};

struct Event {
    Context *context;
    bool alive = true;
    bool destroy_failed = false;
    std::shared_ptr<Record> last;
};

/* As the code that is put behind every program lays it out. */
struct Kernel {
    const char *name;
    unsigned count;
    const unsigned *sizes;
    const bool *pointers;
    void (*call)(void *const *arguments);
};

struct Module {
    Context *context;
    void *library;
    int file;
    bool alive = true;
    bool unload_failed = false;
};

struct Function {
    Module *module;
    const Kernel *kernel;
};

struct Grid {
    unsigned x, y, z;
};

enum class Kind { TO_DEVICE, TO_HOST, ON_DEVICE, SET, LAUNCH, RECORD, WAIT };

/* A piece of work in a stream. */
struct Work {
    uint64_t number = 0;
    Kind kind;
    Memory *to = nullptr, *from = nullptr;
    uint8_t *to_bytes = nullptr;
    const uint8_t *from_bytes = nullptr;
    std::vector<uint8_t> kept; /* the source of a copy from memory that is not pinned */
    size_t len = 0;
    uint8_t value = 0;
    Function *function = nullptr;
    Grid grid{}, block{};
    std::vector<std::vector<uint8_t>> arguments;
    std::vector<Memory *> used; /* what the arguments point to */
    std::shared_ptr<Record> record;
};

struct Stream {
    Context *context;
    bool waits_for_null; /* not CU_STREAM_NON_BLOCKING */
    bool alive = true;
    bool destroy_failed = false;
    std::deque<Work> work;
};

struct Context {
    bool alive = true;
    bool destroy_failed = false;
    int lost = SUCCESS; /* the error that every call gives from now on */
    Stream *null_stream;
    std::vector<Stream *> streams;
};

/* How eagerly work is done that nobody waits for. */
enum class Pace { LATE, RANDOM, EARLY };

struct State {
    std::recursive_mutex mutex;
    bool initialised = false;
    bool device_lost = false;
    int lost_code = SUCCESS;
    Pace pace = Pace::RANDOM;
    uint64_t random = 1;
    uint64_t works = 0;
    std::vector<std::string> violations;
    /* Faults to come. */
    std::string fails_name;
    uint64_t fails_in = 0;
    int fails_code = 0;
    bool fails_for_good = false;
    uint64_t work_fails_in = 0;
    int work_fails_code = 0;
    std::string failed;
    uint64_t launches = 0;
    /* Everything there ever was: handles stay known when what they stand for is gone. */
    std::set<Context *> contexts;
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::set<Module *> modules;
    std::set<Function *> functions;
    std::map<Pointer, Memory *> by_pointer;
    std::map<const uint8_t *, Memory *> by_bytes;
    Pointer next_pointer = 0x00d0000000000000ull;
    int programs = 0;
};

extern State state;

/* Writes down that a rule was broken. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A number below `below`, from the seed. */
uint64_t chance(uint64_t below);

/* Marks a context as lost: its work is dropped, and its calls fail from now on. */
void lose(Context *context, int code);

/*
 * What every call begins with: it is counted, it may have been told to fail, and it needs a context that is current and
 * not lost. `code` is what the call returns at once, if it is not SUCCESS; `told` says that it was told to.
 */
class Call {
  public:
    explicit Call(const char *function, bool wants_context = true);
    /* The call's result when work was done in it: the loss of the context comes before anything else. */
    int end(int result = SUCCESS) const;

    int code = SUCCESS;
    bool told = false;
    Context *context = nullptr;
    const char *function;

  private:
    std::unique_lock<std::recursive_mutex> lock_;
};

extern thread_local Context *current;

/* Memory. */
Memory *memory_at(Pointer at, size_t len, const Call &call, const char *what);
Memory *pinned_at(const void *bytes, size_t len, const Call &call, const char *what);
uint8_t *bytes_at(const Memory *memory, Pointer at);
void protect(Memory *memory);
void open_up(Memory *memory);
void set(const Memory *memory, uint8_t *to, uint8_t value, size_t len);
void end_memory(Memory *memory, const char *function, bool may_be_full);

/* Work. */
void enqueue(Stream *stream, Work work);
bool step(Context *context);
void run_all(Context *context);
void run_some(Context *context);
bool is_pending(const Context *context);
void drop_work(Context *context);
bool uses(const Context *context, const Memory *memory);
bool uses(const Context *context, const Module *module);
Stream *stream_of(void *handle, const Call &call);

/* Kernels. */
void run_kernel(const Work &work);
const char *running_kernel();
void end_module(Module *module);

} /* namespace fake */

#define EXPORT extern "C" __attribute__((visibility("default")))
