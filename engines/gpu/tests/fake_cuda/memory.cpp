/*
 * Device memory and pinned memory. Both begin full of rubbish, lie between pages that nobody may touch, and are looked
 * through when they go: what was written must have been set to zero.
 */
#include "double.h"

#include <cstring>
#include <sys/mman.h>

namespace fake {

constexpr size_t PAGE = 4096;
constexpr size_t ALIGNMENT = 256;
constexpr uint8_t RUBBISH = 0xa5; /* in memory that nobody has written */
constexpr uint8_t SLACK = 0xc7;   /* between a buffer and the page behind it */
/* Rubbish costs time: so much of a buffer begins with it, the rest as zeros that take no room. */
constexpr size_t RUBBISH_LEN_MAX = size_t(4) << 20;
constexpr size_t DEVICE_LEN_MAX = size_t(4) << 30;

static size_t round_up(size_t len, size_t to)
{
    return (len + to - 1) / to * to;
}

static Pointer new_pointer(size_t len)
{
    Pointer at = state.next_pointer;
    /* Buffers lie far apart: an offset that is too large hits nothing. */
    state.next_pointer += round_up(len, 4096) + (Pointer(1) << 32);
    return at;
}

static Memory *new_memory(Where where, Context *context, size_t len)
{
    auto *memory = new Memory{};
    memory->where = where;
    memory->context = context;
    memory->len = len;
    memory->at = new_pointer(len);
    return memory;
}

static void enter(Memory *memory)
{
    state.by_pointer[memory->at] = memory;
    state.by_bytes[memory->bytes] = memory;
}

static Memory *allocate(Where where, Context *context, size_t len)
{
    size_t room = round_up(len, PAGE);
    void *map = mmap(nullptr, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return nullptr;
    }
    Memory *memory = new_memory(where, context, len);
    memory->map = static_cast<uint8_t *>(map);
    memory->map_len = room + 2 * PAGE;
    uint8_t *first = memory->map + PAGE;
    mprotect(first, room, PROT_READ | PROT_WRITE);
    /* Pinned memory begins with a page; device memory ends as near to one as its alignment allows. */
    memory->bytes = where == Where::HOST ? first : first + room - round_up(len, ALIGNMENT);
    memset(first, SLACK, static_cast<size_t>(memory->bytes - first));
    memset(memory->bytes, RUBBISH, len < RUBBISH_LEN_MAX ? len : RUBBISH_LEN_MAX);
    memset(memory->bytes + len, SLACK, static_cast<size_t>(first + room - memory->bytes) - len);
    enter(memory);
    return memory;
}

/* Whether everything between is one byte. */
static bool is_all(const uint8_t *from, const uint8_t *to, uint8_t byte)
{
    return from >= to || (*from == byte && memcmp(from, from + 1, static_cast<size_t>(to - from) - 1) == 0);
}

/* The first byte that is neither zero nor rubbish; the length if there is none. Pages that nobody touched are zeros. */
static size_t left_over(const Memory *memory)
{
    const uint8_t *first = memory->map + PAGE, *end = memory->bytes + memory->len;
    std::vector<unsigned char> touched((memory->map_len - 2 * PAGE) / PAGE);
    mincore(memory->map + PAGE, touched.size() * PAGE, touched.data());
    for (size_t page = 0; page < touched.size(); page++) {
        const uint8_t *from = first + page * PAGE, *to = from + PAGE < end ? from + PAGE : end;
        from = from < memory->bytes ? memory->bytes : from;
        if ((touched[page] & 1) == 0 || is_all(from, to, 0) || is_all(from, to, RUBBISH)) {
            continue;
        }
        for (; from < to; from++) {
            if (*from != 0 && *from != RUBBISH) {
                return static_cast<size_t>(from - memory->bytes);
            }
        }
    }
    return memory->len;
}

void set(const Memory *memory, uint8_t *to, uint8_t value, size_t len)
{
    /* Whole pages of zeros are given back instead. */
    auto start = reinterpret_cast<uintptr_t>(to);
    size_t from = round_up(start, PAGE) - start, end = (start + len) / PAGE * PAGE - start;
    if (value != 0 || memory->map == nullptr || len < RUBBISH_LEN_MAX) {
        memset(to, value, len);
        return;
    }
    memset(to, 0, from);
    madvise(to + from, end - from, MADV_DONTNEED);
    memset(to + end, 0, len - end);
}

void end_memory(Memory *memory, const char *function, bool may_be_full)
{
    const char *what = memory->where == Where::HOST ? "pinned" : "device";
    memory->alive = false;
    memory->busy.clear();
    if (memory->map == nullptr) {
        return;
    }
    open_up(memory);
    size_t at = left_over(memory);
    if (!may_be_full && at < memory->len) {
        violation("%s: %zu bytes of %s memory go with data in them, first at %zu", function, memory->len, what, at);
    }
    const uint8_t *first = memory->map + PAGE, *last = memory->map + memory->map_len - PAGE;
    if (!is_all(first, memory->bytes, SLACK) || !is_all(memory->bytes + memory->len, last, SLACK)) {
        violation("%s: somebody wrote around %zu bytes of %s memory", function, memory->len, what);
    }
    /* The addresses stay taken, so that a late touch is noticed. */
    mmap(memory->map, memory->map_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

uint8_t *bytes_at(const Memory *memory, Pointer at)
{
    return memory->bytes + (at - memory->at);
}

Memory *memory_at(Pointer at, size_t len, const Call &call, const char *what)
{
    auto next = state.by_pointer.upper_bound(at);
    Memory *memory = next == state.by_pointer.begin() ? nullptr : std::prev(next)->second;
    if (memory == nullptr || at - memory->at > memory->len) {
        violation("%s: the %s, %llx, is no device memory", call.function, what, at);
    } else if (!memory->alive) {
        violation("%s: the %s lies in memory that was freed", call.function, what);
    } else if (memory->context != call.context) {
        violation("%s: the %s lies in another context's memory", call.function, what);
    } else if (len > memory->len - (at - memory->at)) {
        violation("%s: the %s, %zu bytes, goes beyond its memory", call.function, what, len);
    } else {
        return memory;
    }
    return nullptr;
}

Memory *pinned_at(const void *start, size_t len, const Call &call, const char *what)
{
    auto bytes = static_cast<const uint8_t *>(start);
    auto next = state.by_bytes.upper_bound(bytes);
    Memory *memory = next == state.by_bytes.begin() ? nullptr : std::prev(next)->second;
    if (memory == nullptr || memory->where != Where::HOST || bytes >= memory->bytes + memory->len) {
        return nullptr;
    }
    if (!memory->alive) {
        violation("%s: the %s lies in pinned memory that was freed", call.function, what);
    } else if (len > static_cast<size_t>(memory->bytes + memory->len - bytes)) {
        violation("%s: the %s, %zu bytes, goes beyond its pinned memory", call.function, what, len);
    } else {
        return memory;
    }
    return nullptr;
}

/* Pinned memory is the device's while a copy waits: its pages must not be written, nor read where they will be written. */
void protect(Memory *memory)
{
    if (memory->map == nullptr || memory->where != Where::HOST || !memory->alive) {
        return;
    }
    open_up(memory);
    for (bool written : {false, true}) {
        for (const Busy &busy : memory->busy) {
            size_t from = round_up(busy.from, PAGE), to = busy.to / PAGE * PAGE;
            if (busy.written == written && from < to) {
                mprotect(memory->bytes + from, to - from, written ? PROT_NONE : PROT_READ);
            }
        }
    }
}

void open_up(Memory *memory)
{
    if (memory->map != nullptr) {
        mprotect(memory->map + PAGE, memory->map_len - 2 * PAGE, PROT_READ | PROT_WRITE);
    }
}

/* The memory that begins here; what is wrong about the pointer is written down. */
static Memory *whole(Memory *memory, bool begins, const Call &call)
{
    if (memory == nullptr || !begins) {
        violation("%s: this is not the start of a buffer", call.function);
    } else if (!memory->alive) {
        violation("%s: freed twice", call.function);
    } else if (memory->context != call.context) {
        violation("%s: the memory is another context's", call.function);
    } else if (uses(memory->context, memory)) {
        violation("%s: freed while work that uses it is pending", call.function);
        return memory;
    } else {
        return memory;
    }
    return nullptr;
}

static int free_memory(Memory *memory, bool begins, const Call &call)
{
    if (call.code != SUCCESS) {
        if (memory != nullptr && begins && call.told) {
            memory->free_failed = true;
        }
        return call.code;
    }
    memory = whole(memory, begins, call);
    if (memory == nullptr) {
        return INVALID_VALUE;
    }
    if (uses(memory->context, memory)) {
        run_all(memory->context);
    }
    end_memory(memory, call.function, memory->wipe_failed);
    return call.end();
}

static int pin(void **out, size_t len, const Call &call)
{
    if (call.code != SUCCESS) {
        return call.code;
    }
    if (len == 0) {
        return INVALID_VALUE;
    }
    Memory *memory = allocate(Where::HOST, call.context, len);
    if (memory == nullptr) {
        return OUT_OF_MEMORY;
    }
    *out = memory->bytes;
    return SUCCESS;
}

static Memory *starting_at(const void *bytes)
{
    auto found = state.by_bytes.find(static_cast<const uint8_t *>(bytes));
    return found == state.by_bytes.end() || found->second->where != Where::HOST ? nullptr : found->second;
}

} /* namespace fake */

using namespace fake;

EXPORT int cuMemAlloc_v2(Pointer *out, size_t len)
{
    Call call("cuMemAlloc_v2");
    if (call.code != SUCCESS) {
        return call.code;
    }
    if (len == 0) {
        return INVALID_VALUE;
    }
    Memory *memory = len > DEVICE_LEN_MAX ? nullptr : allocate(Where::DEVICE, call.context, len);
    if (memory == nullptr) {
        return OUT_OF_MEMORY;
    }
    *out = memory->at;
    return SUCCESS;
}

EXPORT int cuMemFree_v2(Pointer at)
{
    Call call("cuMemFree_v2");
    auto found = state.by_pointer.find(at);
    bool begins = found != state.by_pointer.end() && found->second->where == Where::DEVICE;
    return free_memory(begins ? found->second : nullptr, begins, call);
}

EXPORT int cuMemHostAlloc(void **out, size_t len, unsigned)
{
    Call call("cuMemHostAlloc");
    return pin(out, len, call);
}

EXPORT int cuMemAllocHost_v2(void **out, size_t len)
{
    Call call("cuMemAllocHost_v2");
    return pin(out, len, call);
}

EXPORT int cuMemFreeHost(void *bytes)
{
    Call call("cuMemFreeHost");
    Memory *memory = starting_at(bytes);
    bool begins = memory != nullptr && memory->map != nullptr;
    return free_memory(memory, begins, call);
}

EXPORT int cuMemHostRegister_v2(void *bytes, size_t len, unsigned)
{
    Call call("cuMemHostRegister_v2");
    if (call.code != SUCCESS) {
        return call.code;
    }
    if (len == 0) {
        return INVALID_VALUE;
    }
    if (pinned_at(bytes, 1, call, "start") != nullptr) {
        violation("cuMemHostRegister_v2: the memory is pinned already");
        return INVALID_VALUE;
    }
    Memory *memory = new_memory(Where::HOST, call.context, len);
    memory->bytes = static_cast<uint8_t *>(bytes);
    enter(memory);
    return SUCCESS;
}

EXPORT int cuMemHostUnregister(void *bytes)
{
    Call call("cuMemHostUnregister");
    Memory *memory = starting_at(bytes);
    bool begins = memory != nullptr && memory->map == nullptr;
    int result = free_memory(memory, begins, call);
    if (result == SUCCESS) {
        /* The place may be anybody's now. */
        state.by_bytes.erase(memory->bytes);
    }
    return result;
}

/* What the device calls pinned memory. With unified addresses that is the host's own address; nobody should rely on it. */
EXPORT int cuMemHostGetDevicePointer_v2(Pointer *out, void *bytes, unsigned flags)
{
    Call call("cuMemHostGetDevicePointer_v2");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Memory *memory = pinned_at(bytes, 1, call, "memory");
    if (memory == nullptr || flags != 0) {
        violation("cuMemHostGetDevicePointer_v2: the memory is not pinned");
        return INVALID_VALUE;
    }
    *out = memory->at + static_cast<Pointer>(static_cast<uint8_t *>(bytes) - memory->bytes);
    return SUCCESS;
}
